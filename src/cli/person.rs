//! The person at the terminal, asked with words and a key.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};

use longshore_protocol::value::approval::{ApprovalAnswer, ApprovalRequest};

use super::terminal::complain;
use crate::os::blocking;

/// True where somebody can read a question and answer it.
pub(super) fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for an approval. Anything but a number on offer is asked again; the end of input refuses.
pub(super) async fn approve(request: &ApprovalRequest) -> ApprovalAnswer {
    let mut text = format!(
        "\n{} wants to run: {}\n({})\n",
        request.tool, request.title, request.reason.message
    );
    for (n, option) in request.options.iter().enumerate() {
        let _ = writeln!(text, "  {} {}", n + 1, option.label);
    }
    let options: Vec<_> = request
        .options
        .iter()
        .map(|option| option.option_id)
        .collect();
    let refusal = ApprovalAnswer {
        decision: Some(longshore_protocol::value::approval::Decision::Reject),
        ..ApprovalAnswer::default()
    };
    complain(&text);
    blocking::run(move || {
        loop {
            let mut line = String::new();
            match std::io::stdin().lock().read_line(&mut line) {
                Ok(0) | Err(_) => return refusal,
                Ok(_) => {}
            }
            let chosen = line
                .trim()
                .parse::<usize>()
                .ok()
                .and_then(|n| options.get(n.checked_sub(1)?).copied());
            match chosen {
                Some(option) => {
                    return ApprovalAnswer {
                        option_id: Some(option),
                        ..ApprovalAnswer::default()
                    };
                }
                None => complain(&format!("Type a number from 1 to {}.", options.len())),
            }
        }
    })
    .await
}
