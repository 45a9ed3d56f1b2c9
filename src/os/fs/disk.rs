//! The seam between writers and the disk: the real one, and one that fails on order.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, RenameFlags};

use super::Dir;

/// The steps of a durable write that can fail in ways a test cannot provoke on a real file system.
pub trait Disk: Send + Sync + Debug {
    /// One `write(2)` at the file's position (or end, when opened to append); may be short.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;
    /// `fdatasync(2)`: content and length.
    fn sync_data(&self, file: &File) -> io::Result<()>;
    /// Cuts or extends a file.
    fn truncate(&self, file: &File, len: u64) -> io::Result<()>;
    /// Renames an entry of a directory over whatever stands at `to` in it.
    fn rename(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()>;
    /// Renames unless something stands at `to` (then [`io::ErrorKind::AlreadyExists`]).
    fn rename_new(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()>;
    /// Puts the entries of a directory on disk.
    fn sync_dir(&self, dir: &Dir) -> io::Result<()>;
}

/// The disk as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn rename(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(dir.fd(), from, dir.fd(), to)?)
    }

    fn rename_new(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let dir = dir.fd();
        match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // File systems without the flag: a link is just as exclusive.
            Err(
                rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP,
            ) => {
                rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(dir, from, AtFlags::empty())?)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        dir.sync()
    }
}

/// Writes all bytes, through as many [`Disk::write`] calls as it takes.
pub fn write_all(disk: &dyn Disk, file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match disk.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A step of [`Disk`], for ordering a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Disk::write`].
    Write,
    /// [`Disk::sync_data`].
    SyncData,
    /// [`Disk::truncate`].
    Truncate,
    /// [`Disk::rename`] and [`Disk::rename_new`].
    Rename,
    /// [`Disk::sync_dir`].
    SyncDir,
}

/// What happens at an ordered step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this `errno` and does nothing.
    Errno(i32),
    /// A write takes only this many bytes and succeeds (other steps: no effect).
    Short(usize),
}

/// A disk that works like the real one except at the steps ordered to fail.
#[derive(Debug, Default)]
pub struct FaultyDisk {
    state: Mutex<FaultyState>,
    /// Nothing is put on the disk.
    is_lazy: bool,
}

#[derive(Debug, Default)]
struct FaultyState {
    calls: HashMap<Op, usize>,
    once: HashMap<(Op, usize), Fault>,
    from: HashMap<Op, (usize, Fault)>,
}

impl FaultyDisk {
    /// A disk without faults yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where nothing fails, syncs succeed without doing anything: for those who make thousands of them.
    #[must_use]
    pub fn lazy(self) -> Self {
        Self {
            is_lazy: true,
            ..self
        }
    }

    /// Orders a fault at the `nth` call of a step, counted from 0 over the life of this disk.
    #[must_use]
    pub fn fail_at(self, op: Op, nth: usize, fault: Fault) -> Self {
        self.lock().once.insert((op, nth), fault);
        self
    }

    /// Orders a fault at every call of a step from the `nth` on, until [`Self::heal`].
    #[must_use]
    pub fn fail_from(self, op: Op, nth: usize, fault: Fault) -> Self {
        self.lock().from.insert(op, (nth, fault));
        self
    }

    /// Cancels every fault that has not happened yet.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.once.clear();
        state.from.clear();
    }

    /// How often a step was called.
    pub fn calls(&self, op: Op) -> usize {
        self.lock().calls.get(&op).copied().unwrap_or(0)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FaultyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, op: Op) -> Option<Fault> {
        let mut state = self.lock();
        let count = state.calls.entry(op).or_insert(0);
        let nth = *count;
        *count += 1;
        let lasting = state.from.get(&op).filter(|(from, _)| nth >= *from);
        let lasting = lasting.map(|(_, fault)| *fault);
        state.once.remove(&(op, nth)).or(lasting)
    }

    fn check(&self, op: Op) -> io::Result<()> {
        match self.next(op) {
            Some(Fault::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Short(_)) | None => Ok(()),
        }
    }
}

impl Disk for FaultyDisk {
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        match self.next(Op::Write) {
            Some(Fault::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Short(n)) => RealDisk.write(file, bytes.get(..n).unwrap_or(bytes)),
            None => RealDisk.write(file, bytes),
        }
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        self.check(Op::SyncData)?;
        if self.is_lazy {
            return Ok(());
        }
        RealDisk.sync_data(file)
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        self.check(Op::Truncate)?;
        RealDisk.truncate(file, len)
    }

    fn rename(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.check(Op::Rename)?;
        RealDisk.rename(dir, from, to)
    }

    fn rename_new(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.check(Op::Rename)?;
        RealDisk.rename_new(dir, from, to)
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        self.check(Op::SyncDir)?;
        if self.is_lazy {
            return Ok(());
        }
        RealDisk.sync_dir(dir)
    }
}
