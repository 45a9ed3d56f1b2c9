//! Many sessions: listing them.

use std::time::Instant;

use serde_json::json;

use super::Size;
use super::figures::median;
use super::journal::lay;
use super::rows::home;
use super::server::Server;
use super::table::{Bar, Table};

/// Measures the rows.
pub(crate) fn measure(size: Size, table: &mut Table) {
    let n = size.of(10_000, 30);
    let home = home();
    for k in 0..n {
        lay(home.path(), &format!("s{k:05}"), 1, 100);
    }
    let list = |server: &mut Server, text: Option<&str>| {
        let begun = Instant::now();
        let page = server.call("session/list", json!({"text": text}));
        assert_eq!(page["items"].as_array().unwrap().len(), n.min(50));
        begun.elapsed().as_secs_f64() * 1e3
    };
    // Nobody has listed them yet: the index is made from the sessions themselves.
    let rebuilt = list(&mut Server::ready(home.path()), None);
    let runs = size.of(9, 1);
    let first = (0..runs).map(|_| list(&mut Server::ready(home.path()), None));
    let first = median(first.collect());
    table.row(
        &format!(
            "session/list of {n} sessions, first page of a fresh process, median ({rebuilt:.0} ms where the index had to be \
             made first)"
        ),
        "ms",
        Bar::AtMost(50.0),
        first,
    );
    let mut server = Server::ready(home.path());
    let search = (0..runs).map(|_| list(&mut server, Some("say what is wrong")));
    table.row(
        &format!("search in the prompts of {n} sessions, median"),
        "ms",
        Bar::AtMost(200.0),
        median(search.collect()),
    );
}
