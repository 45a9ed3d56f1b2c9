//! Giving a replacement the mode, owner and extended attributes of the file it replaces.

use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{
    XattrFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fremovexattr, fsetxattr,
};
use rustix::io::Errno;

use super::meta::Attributes;
use super::{FileStamp, Spot};

/// Whether the replacement is a full stand-in for the old file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preserved {
    /// Mode, owner and attributes are the same.
    All,
    /// Something could not be given: the file must be written in place instead.
    NotAll,
}

/// Attributes that belong to the bytes, not to the file: signatures of the old content, and capabilities, which the
/// kernel itself drops when an executable is written.
const BOUND_TO_CONTENT: [&[u8]; 3] = [b"security.ima", b"security.evm", b"security.capability"];

/// Copies what `stat` and the attribute list of the old file say onto the new one.
pub(super) fn copy_attributes(spot: &Spot, old: &Attributes, new: &File) -> Preserved {
    match try_copy(spot, old, new) {
        Ok(true) => Preserved::All,
        // Any refusal means the same to the caller, whatever its reason.
        Ok(false) | Err(_) => Preserved::NotAll,
    }
}

fn try_copy(spot: &Spot, old: &Attributes, new: &File) -> std::io::Result<bool> {
    let made = new.metadata()?;
    let (uid, gid) = old.owner;
    if (made.uid(), made.gid()) != (uid, gid) {
        std::os::unix::fs::fchown(new, Some(uid), Some(gid))?;
    }
    let (old_file, old_now) = spot.open().map_err(|error| error.source)?;
    let now = FileStamp::from(&old_now);
    if (now.dev, now.ino) != (old.stamp.dev, old.stamp.ino) {
        return Ok(false);
    }
    copy_xattrs(&old_file, new)?;
    // Last, because a change of owner clears the set-id bits and an access list sets the group bits.
    new.set_permissions(PermissionsExt::from_mode(old.mode))?;
    // The kernel drops the set-group-id bit silently when the caller is not in that group.
    let got = new.metadata()?;
    Ok(got.mode() & 0o7777 == old.mode && (got.uid(), got.gid()) == (uid, gid))
}

fn copy_xattrs(old: &File, new: &File) -> Result<(), Errno> {
    let old_names = xattr_names(old)?;
    for name in names(&old_names) {
        if BOUND_TO_CONTENT.contains(&name.to_bytes()) {
            continue;
        }
        let mut value = vec![0; fgetxattr_query(old, name)?];
        let n_read = fgetxattr(old, name, value.as_mut_slice())?;
        value.truncate(n_read);
        fsetxattr(new, name, &value, XattrFlags::empty())?;
    }
    // A default access list of the directory lands on the new file; the old one may not have had it.
    let new_names = xattr_names(new)?;
    for name in names(&new_names) {
        let in_old = names(&old_names).any(|old_name| old_name == name);
        if !in_old && !name.to_bytes().starts_with(b"security.") {
            fremovexattr(new, name)?;
        }
    }
    Ok(())
}

/// The raw list: names each ending in NUL. Empty where the file system has no attributes.
fn xattr_names(file: &File) -> Result<Vec<u8>, Errno> {
    let size = match flistxattr_query(file) {
        Ok(0) | Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Ok(size) => size,
        Err(error) => return Err(error),
    };
    let mut list = vec![0; size];
    let n_read = flistxattr(file, list.as_mut_slice())?;
    list.truncate(n_read);
    Ok(list)
}

fn names(list: &[u8]) -> impl Iterator<Item = &CStr> {
    list.split_inclusive(|byte| *byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}
