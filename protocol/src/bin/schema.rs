//! Writes `schema/` anew; with `--check` it only compares, and fails where a file is stale.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use longshore_protocol::schema;

#[expect(
    clippy::disallowed_methods,
    reason = "a tool of the build, not part of the server"
)]
fn main() -> ExitCode {
    let is_check = std::env::args()
        .skip(1)
        .any(|argument| argument == "--check");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let files = [
        ("longshore.schema.json", schema::document_text()),
        ("methods.md", schema::tables_text()),
    ];
    let mut code = ExitCode::SUCCESS;
    for (name, text) in files {
        let path = folder.join(name);
        let complaint = if !is_check {
            std::fs::write(&path, text)
                .err()
                .map(|error| error.to_string())
        } else if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
            None
        } else {
            Some("it is stale; run longshore-schema".to_owned())
        };
        if let Some(complaint) = complaint {
            // Nothing can be done where even this fails.
            let _ = writeln!(std::io::stderr(), "{}: {complaint}", path.display());
            code = ExitCode::FAILURE;
        }
    }
    code
}
