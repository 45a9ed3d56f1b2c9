//! `longshore export`: a session as a zip.

use std::path::PathBuf;
use std::process::ExitCode;

use longshore_protocol::id::SessionId;

use super::args::Common;
use super::offline;
use crate::app::App;
use crate::os::env::Env;
use crate::session::export::ExportOptions;

/// Writes the zip and says where it is.
pub(super) fn run(
    env: Env,
    common: &Common,
    session: &SessionId,
    output: Option<PathBuf>,
) -> ExitCode {
    let start = env.start_dir().map(std::path::Path::to_owned);
    let output = match (start, output) {
        (Some(start), output) => {
            let name = output.unwrap_or_else(|| format!("longshore-{session}.zip").into());
            Some(start.join(name))
        }
        (None, output) => output,
    };
    offline::run(env, common, async |app: &App| {
        let options = ExportOptions {
            path: output,
            overwrite: false,
        };
        let exported = app.sessions.export(session, options).await?;
        let mut text = format!(
            "{}\n{} files, {} bytes; secrets were taken from {} of them.",
            exported.path.display(),
            exported.n_files,
            exported.bytes,
            exported.n_redacted
        );
        if !exported.left_out.is_empty() {
            text.push_str("\nLeft out: ");
            text.push_str(&exported.left_out.join(", "));
        }
        if !app.settings.config.warnings.is_empty() {
            text.push_str("\nThe configuration was not read whole (above): a secret that is not known can't be taken out.");
        }
        Ok(text)
    })
}
