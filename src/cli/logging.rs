//! Logs go to a file, and errors to standard error as well; a healthy run prints nothing there.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use super::args::Common;
use crate::os::fs;

/// A log file of this size is moved aside when longshore starts.
const MAX_BYTES: u64 = 6 << 20;

/// Starts logging. Failing to is no reason not to run.
pub(super) fn start(common: &Common, home: &Path, level: Option<&str>) {
    let level = common.log_level.as_deref().or(level).unwrap_or("info");
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let path = common
        .log_file
        .clone()
        .unwrap_or_else(|| home.join("logs").join("longshore.log"));
    let errors = io::stderr.with_max_level(Level::ERROR);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(true);
    let started = match open(&path) {
        Ok(file) => {
            let writer = errors.and(Mutex::new(file));
            if common.log_json {
                builder.json().with_writer(writer).try_init()
            } else {
                builder.with_writer(writer).try_init()
            }
        }
        Err(error) => {
            let started = builder.with_writer(errors).try_init();
            tracing::warn!(path = %path.display(), %error, "no log file");
            started
        }
    };
    if let Err(error) = started {
        tracing::warn!(%error, "logging was started already");
    }
}

fn open(path: &Path) -> Result<File, fs::FsError> {
    if let Some(dir) = path.parent() {
        fs::create_private_dirs(dir)?;
    }
    if fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_BYTES) {
        fs::rename(path, &path.with_extension("log.1"))?;
    }
    fs::open_append(path)
}
