//! Files and directories, blocking, with the path in every error.
//!
//! Functions here block: async callers wrap a whole job in [`crate::os::blocking::run`] rather than each call.
//! An open never hangs and never yields anything but a regular file, so a FIFO or a device put where a file was
//! expected is an error at once. What was judged by its real path is opened beneath directory handles without following
//! a link ([`Spot::real`], [`open_real`]); what the user of this machine placed is opened by name. Directories made here are 0700 and files 0600 where the name says *private*.
//!
//! Start with [`atomic_replace`] for changing a file of the user's, [`open_read`] for reading one.

mod append;
mod beneath;
mod create;
mod dir;
mod dir_reader;
mod disk;
mod error;
mod in_place;
mod meta;
mod preserve;
mod read;
mod replace;
mod temp;

pub use append::{Appended, append_once};
pub use create::{
    create_dirs, create_private_dirs, create_private_file, hard_link, link_or_copy, open_append,
    remove_empty_dir, remove_file, remove_file_if_present, remove_tree, rename, sync_dir,
    sync_parent, write_private,
};
pub use dir::{Dir, MadeDirs, Spot, kind_of_real};
pub use dir_reader::{DirReader, OpenedFile, is_gone};
pub use disk::{Disk, Fault, FaultyDisk, Op, RealDisk, write_all};
pub use error::{FsError, NotDirectory, NotRegular};
pub use meta::{
    DirEntry, FileKind, FileStamp, is_executable, is_private, kind_of, list_dir, metadata,
    read_link, real_path, stamp_of, symlink_metadata,
};
pub use read::{
    open_read, open_real, read, read_if_present, read_prefix, read_range, read_to_string,
};
pub use replace::{
    Durability, Expect, How, NewMode, ReplaceError, ReplaceOptions, Replaced, atomic_replace,
};
use temp::TempFile;
pub use temp::{Leftover, TEMP_PREFIX, TempLog, TempUse, is_temp_name, remove_leftover};

#[cfg(test)]
mod dir_tests;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod replace_tests;
