use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::error::context;
use super::{FsError, NotRegular, Spot};

/// Flags of every open by name of a file that exists; see [`super::dir::OPEN_FLAGS`].
pub(super) const OPEN_FLAGS: i32 = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;

/// Opens a regular file for reading, following links, and returns its metadata taken from the handle.
///
/// # Errors
/// Anything but a regular file is refused at once ([`FsError::not_regular`] tells what it was).
pub fn open_read(path: &Path) -> Result<(File, Metadata), FsError> {
    open_regular(path, OpenOptions::new().read(true).custom_flags(OPEN_FLAGS))
}

/// Opens a regular file for reading by its real path.
///
/// # Errors
/// A link in any component ([`FsError::met_link`]): it is not where it was when the path was resolved. Anything but a
/// regular file, as for [`open_read`].
pub fn open_real(path: &Path) -> Result<(File, Metadata), FsError> {
    Spot::real(path)?.open()
}

/// Opens with the given options and checks the handle. The options must carry [`OPEN_FLAGS`].
pub(super) fn open_regular(
    path: &Path,
    options: &OpenOptions,
) -> Result<(File, Metadata), FsError> {
    let file = match options.open(path) {
        Ok(file) => file,
        // Opening a socket, or a FIFO without reader for writing, fails by itself with a code that says little.
        Err(source) => {
            return Err(match std::fs::symlink_metadata(path) {
                Ok(meta) if !meta.is_file() && !meta.is_symlink() => {
                    FsError::new("open", path, NotRegular(meta.file_type().into()))
                }
                Ok(_) | Err(_) => FsError::new("open", path, source),
            });
        }
    };
    let meta = file.metadata().map_err(context("stat", path))?;
    if !meta.is_file() {
        return Err(FsError::new(
            "open",
            path,
            NotRegular(meta.file_type().into()),
        ));
    }
    Ok((file, meta))
}

/// Reads a whole regular file.
pub fn read(path: &Path) -> Result<Vec<u8>, FsError> {
    let (mut file, meta) = open_read(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)
        .map_err(context("read", path))?;
    Ok(bytes)
}

/// Reads a whole regular file; `None` when nothing stands at the path.
pub fn read_if_present(path: &Path) -> Result<Option<Vec<u8>>, FsError> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads at most the first `max_bytes` of a regular file.
pub fn read_prefix(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FsError> {
    let (file, meta) = open_read(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(max_bytes)).unwrap_or(0));
    file.take(max_bytes)
        .read_to_end(&mut bytes)
        .map_err(context("read", path))?;
    Ok(bytes)
}

/// Reads so many bytes of a regular file from an offset on, or fewer where it ends before.
pub fn read_range(path: &Path, offset: u64, n_bytes: usize) -> Result<Vec<u8>, FsError> {
    let (mut file, _) = open_read(path)?;
    file.seek(SeekFrom::Start(offset))
        .map_err(context("seek in", path))?;
    let mut bytes = Vec::new();
    file.take(n_bytes as u64)
        .read_to_end(&mut bytes)
        .map_err(context("read", path))?;
    Ok(bytes)
}

/// Reads a whole regular file as UTF-8.
///
/// # Errors
/// Invalid UTF-8 is [`io::ErrorKind::InvalidData`].
pub fn read_to_string(path: &Path) -> Result<String, FsError> {
    String::from_utf8(read(path)?).map_err(|error| {
        FsError::new(
            "read",
            path,
            io::Error::new(io::ErrorKind::InvalidData, error),
        )
    })
}
