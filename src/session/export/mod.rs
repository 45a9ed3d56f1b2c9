//! A session as a file that can be given away: a zip with everything there is of it, without the secrets of the
//! configuration, and a manifest that says what is in it.
//!
//! The session is only read, and may be running meanwhile, here or elsewhere. Links are never followed. Files stream: what
//! is in memory at once is a few MiB, however large the session is.

mod clean;

use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use self::clean::{Kind, clean};
use super::deps::Deps;
use super::journal::record::VERSION;
use super::journal::storage_fault;
use super::lifecycle::Sessions;
use super::store;
use crate::config::redact::Redactor;
use crate::kernel::fault::Fault;
use crate::os::blocking;
use crate::os::fs::{self, Dir, FileKind, FsError};

/// The version of what is in an export.
const FORMAT: u32 = 1;
/// What says what is in it.
const MANIFEST: &str = "manifest.json";
/// No part of a session: it says which process has it.
const LOCK: &str = "lock";

/// Where an export goes.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Absolute, in a directory that exists; a new file in longshore's own directory where absent.
    pub path: Option<PathBuf>,
    /// Whether a file that is there already is replaced.
    pub overwrite: bool,
}

/// An export that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The files of the session in it.
    pub n_files: usize,
    /// Those of them that secrets were taken from.
    pub n_redacted: usize,
    /// What is not in it, by its path in the session's directory.
    pub left_out: Vec<String>,
}

/// A file in the zip.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    path: String,
    /// As it is in the zip.
    bytes: u64,
    sha256: String,
    /// True where secrets were taken from it.
    redacted: bool,
}

/// Something that is not in the zip.
#[derive(Debug, Serialize)]
struct LeftOut {
    path: String,
    reason: String,
}

impl Sessions {
    /// Writes a session into a zip.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_params` for a path that can't be used, storage kinds.
    pub async fn export(&self, id: &SessionId, options: ExportOptions) -> Result<Exported, Fault> {
        let (deps, id) = (self.deps.clone(), id.clone());
        blocking::run(move || deps.export(&id, options)).await
    }
}

impl Deps {
    /// Blocking.
    fn export(&self, id: &SessionId, options: ExportOptions) -> Result<Exported, Fault> {
        let dir = self.store.find(id).ok_or_else(|| super::not_found(id))?;
        let target = match options.path {
            Some(path) => self.checked(path, options.overwrite)?,
            None => self.default_target(id)?,
        };
        // Beside the target, so that it is renamed within one file system.
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let part = target.with_file_name(format!(".{name}.{}", self.ids.hex8()));
        let failed = |error: FsError| storage_fault(error, &target);
        let file = fs::create_private_file(&part).map_err(failed)?;
        let made = self
            .fill(id, &dir, BufWriter::new(file))
            .map_err(|error| failed(FsError::new("write", &part, error)))
            .and_then(|made| {
                fs::rename(&part, &target)
                    .and_then(|()| fs::sync_parent(&target))
                    .map_err(failed)?;
                Ok(made)
            });
        let (bytes, entries, left_out) = made.inspect_err(|_| {
            if let Err(error) = fs::remove_file_if_present(&part) {
                tracing::warn!(%error, "a part of an export could not be removed");
            }
        })?;
        Ok(Exported {
            path: target,
            bytes,
            n_files: entries.len(),
            n_redacted: entries.iter().filter(|entry| entry.redacted).count(),
            left_out: left_out.into_iter().map(|left| left.path).collect(),
        })
    }

    fn checked(&self, path: PathBuf, overwrite: bool) -> Result<PathBuf, Fault> {
        checked(path, overwrite, &self.home, &self.home.join("exports"))
    }

    fn default_target(&self, id: &SessionId) -> Result<PathBuf, Fault> {
        let dir = self.home.join("exports");
        fs::create_private_dirs(&dir).map_err(|error| storage_fault(error, &dir))?;
        let stamp: String = self
            .clock
            .now()
            .to_string()
            .chars()
            .filter(char::is_ascii_digit)
            .take(14)
            .collect();
        Ok(dir.join(format!("{id}-{stamp}-{}.zip", self.ids.hex8())))
    }

    fn fill(
        &self,
        id: &SessionId,
        dir: &Path,
        out: BufWriter<std::fs::File>,
    ) -> io::Result<(u64, Vec<Entry>, Vec<LeftOut>)> {
        let mut export = Export {
            redactor: &self.config.redactor,
            root: Dir::named(dir).map_err(io::Error::other)?,
            zip: ZipWriter::new(out),
            entries: Vec::new(),
            left_out: Vec::new(),
        };
        export.dir(dir, "")?;
        let session = store::load(id, dir).ok().map(|loaded| loaded.session);
        let mut manifest = json!({
            "format": FORMAT,
            "exportedAt": self.clock.now().to_string(),
            "server": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
            "journalVersion": VERSION,
            "sessionId": id,
            "session": session,
        });
        self.config.redactor.value(&mut manifest);
        manifest["files"] = serde_json::to_value(&export.entries)?;
        manifest["leftOut"] = serde_json::to_value(&export.left_out)?;
        export.finish(&manifest)
    }
}

/// An export that is being made.
struct Export<'a> {
    redactor: &'a Redactor,
    root: Dir,
    zip: ZipWriter<BufWriter<std::fs::File>>,
    entries: Vec<Entry>,
    left_out: Vec<LeftOut>,
}

impl Export<'_> {
    /// Takes in what a directory has, by names; `below` is its path in the session's directory.
    fn dir(&mut self, dir: &Path, below: &str) -> io::Result<()> {
        let mut found = fs::list_dir(dir).map_err(io::Error::other)?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in found {
            let Some(name) = entry.name.to_str() else {
                self.leave_out(
                    &format!("{below}{}", entry.name.to_string_lossy()),
                    "its name is no text",
                );
                continue;
            };
            let path = format!("{below}{name}");
            match entry.kind {
                FileKind::Dir => self.dir(&entry.path, &format!("{path}/"))?,
                FileKind::File if path == LOCK || fs::is_temp_name(name.as_ref()) => {}
                FileKind::File => self.file(&path)?,
                FileKind::Symlink => self.leave_out(&path, "it is a link"),
                _ => self.leave_out(&path, "it is no file"),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &str) -> io::Result<()> {
        let (file, meta) = match self.root.open_file(Path::new(path)) {
            Ok(opened) => opened,
            // It may have gone meanwhile, or have become something else.
            Err(error) => {
                self.leave_out(path, &error.to_string());
                return Ok(());
            }
        };
        let kind = Kind::of(path);
        let method = match kind {
            // Images are compressed already.
            Kind::Bytes => CompressionMethod::Stored,
            _ => CompressionMethod::Deflated,
        };
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .unix_permissions(0o600)
            .large_file(meta.len() >= u64::from(u32::MAX) / 2);
        self.zip.start_file(path, options)?;
        let mut out = Hashing::new(&mut self.zip);
        // What is written to it meanwhile is none of this export's.
        let redacted = clean(file.take(meta.len()), kind, self.redactor, &mut out)?;
        let (bytes, sha256) = out.finish();
        self.entries.push(Entry {
            path: path.to_owned(),
            bytes,
            sha256,
            redacted,
        });
        Ok(())
    }

    fn leave_out(&mut self, path: &str, reason: &str) {
        self.left_out.push(LeftOut {
            path: path.to_owned(),
            reason: reason.to_owned(),
        });
    }

    fn finish(mut self, manifest: &Value) -> io::Result<(u64, Vec<Entry>, Vec<LeftOut>)> {
        let options = SimpleFileOptions::default().unix_permissions(0o600);
        self.zip.start_file(MANIFEST, options)?;
        serde_json::to_writer_pretty(&mut self.zip, manifest)?;
        let mut out = self.zip.finish()?;
        let bytes = out.stream_position()?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok((bytes, self.entries, self.left_out))
    }
}

/// Counts and hashes what goes through.
struct Hashing<W> {
    out: W,
    bytes: u64,
    hash: Sha256,
}

impl<W: Write> Hashing<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            bytes: 0,
            hash: Sha256::new(),
        }
    }

    fn finish(self) -> (u64, String) {
        use std::fmt::Write as _;
        let mut hex = String::with_capacity(64);
        for byte in self.hash.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        (self.bytes, hex)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A place that a host named. `kept` is where nothing may be put, `but` a part of it where it may.
fn checked(path: PathBuf, overwrite: bool, kept: &Path, but: &Path) -> Result<PathBuf, Fault> {
    let refused = |why: &str| {
        Fault::new(
            ErrorKind::InvalidParams,
            format!("{}: {why}", path.display()),
        )
        .with("path", "/path")
        .with(
            "expected",
            "an absolute path of a file in a directory that exists",
        )
    };
    if !path.is_absolute() || path.file_name().is_none() {
        return Err(refused("the path is not an absolute one of a file"));
    }
    let parent = path.parent().and_then(fs::kind_of);
    if parent != Some(FileKind::Dir) {
        return Err(refused("there is no such directory"));
    }
    // By real paths: a link would lead there as well.
    let real = |path: &Path| fs::real_path(path).unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().map(real).unwrap_or_default();
    if dir.starts_with(real(kept)) && !dir.starts_with(real(but)) {
        return Err(refused(
            "longshore keeps its own files there; take another directory",
        ));
    }
    match fs::kind_of(&path) {
        None => Ok(path),
        Some(FileKind::File) if overwrite => Ok(path),
        Some(FileKind::File) => Err(refused(
            "there is a file already; set overwrite to replace it",
        )),
        Some(_) => Err(refused("something else than a file is there")),
    }
}
