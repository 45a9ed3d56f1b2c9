//! Sockets that hosts come in by, and who is at the other end of one.
//!
//! A [`PrivateListener`] is a Unix socket for the processes of one user: its file is 0600 in a directory that is 0700, and
//! whoever comes in is known by user and process.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::fs::{self, FileKind, FsError};

/// The longest path that fits into the address of a Unix socket on every system.
const ADDRESS_BYTES: usize = 100;

/// Who is at the other end of a Unix socket, as the system tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// The process that made the connection, or that listens; `None` where it can't be seen from here.
    pub pid: Option<u32>,
}

impl Peer {
    /// Whether it belongs to the user that this process runs as.
    pub fn is_own_user(self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }

    fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        Ok(Self {
            uid: credentials.uid(),
            pid: credentials
                .pid()
                .and_then(|pid| u32::try_from(pid).ok())
                .filter(|pid| *pid > 0),
        })
    }
}

/// A Unix socket for processes of this user.
#[derive(Debug)]
pub struct PrivateListener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file that the path led to at first.
    file: (u64, u64),
}

impl PrivateListener {
    /// Puts a socket at a path, in place of one that nobody listens at any more. The caller holds a lock that says so.
    /// Its directory exists and is made private. Blocking; inside a runtime.
    ///
    /// # Errors
    /// Something other than a socket is there, or the directory is another user's.
    pub fn bind(path: &Path) -> Result<Self, FsError> {
        let failed = |source: io::Error| FsError::new("listen at", path, source);
        let dir = path.parent().unwrap_or(Path::new("/"));
        make_private(dir)?;
        match fs::symlink_metadata(path).map(|meta| FileKind::from(meta.file_type())) {
            Ok(FileKind::Socket) => {}
            Ok(kind) => {
                let what = format!("{} is there", kind.describe());
                return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, what)));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        // Made under another name, so that the path always names a socket that somebody listens at.
        let fresh = dir.join(format!(".daemon-{}.sock", std::process::id()));
        fs::remove_file_if_present(&fresh)?;
        let listener = Address::of(&fresh)
            .and_then(|address| std::os::unix::net::UnixListener::bind(address.path()))
            .map_err(failed)?;
        let ready = rustix::fs::chmod(&fresh, Mode::RUSR | Mode::WUSR)
            .map_err(io::Error::from)
            .and_then(|()| listener.set_nonblocking(true))
            .and_then(|()| UnixListener::from_std(listener))
            .map_err(failed)
            .and_then(|listener| Ok((listener, file_of(&fresh)?)))
            .and_then(|made| fs::rename(&fresh, path).map(|()| made));
        match ready {
            Ok((listener, file)) => Ok(Self {
                listener,
                path: path.to_owned(),
                file,
            }),
            Err(error) => {
                // The error of the listening is the one to tell.
                drop(fs::remove_file_if_present(&fresh));
                Err(error)
            }
        }
    }

    /// Waits for somebody to come in.
    ///
    /// # Errors
    /// One connection failed, or this process has no descriptor left for it; the next may do better.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    pub async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.listener.accept().await?;
        let peer = Peer::of(&stream)?;
        Ok((stream, peer))
    }

    /// Whether the path still leads here.
    pub fn is_in_place(&self) -> bool {
        file_of(&self.path).is_ok_and(|file| file == self.file)
    }

    /// Lets nobody in any more: the socket is removed, unless another one stands in its place.
    pub fn remove(self) -> Result<(), FsError> {
        if self.is_in_place() {
            fs::remove_file_if_present(&self.path)?;
        }
        Ok(())
    }
}

fn file_of(path: &Path) -> Result<(u64, u64), FsError> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// Connects to a Unix socket, and tells who listens there.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] and [`io::ErrorKind::ConnectionRefused`] where nobody listens.
pub async fn connect(path: &Path) -> io::Result<(UnixStream, Peer)> {
    let address = Address::of(path)?;
    let stream = UnixStream::connect(address.path()).await?;
    let peer = Peer::of(&stream)?;
    Ok((stream, peer))
}

/// Listens at an address of the network; port 0 is any that is free.
pub async fn listen_tcp(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// A path as a socket takes it.
enum Address {
    Short(PathBuf),
    /// Through its directory, which is held open.
    #[cfg(target_os = "linux")]
    Long {
        path: PathBuf,
        _dir: std::os::fd::OwnedFd,
    },
}

impl Address {
    #[cfg(target_os = "linux")]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if path.as_os_str().len() <= ADDRESS_BYTES {
            return Ok(Self::Short(path.to_owned()));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        Ok(Self::Long { path, _dir: dir })
    }

    #[cfg(not(target_os = "linux"))]
    fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() > ADDRESS_BYTES {
            let message = format!("the path of a socket has at most {ADDRESS_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Self::Short(path.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Short(path) => path,
            #[cfg(target_os = "linux")]
            Self::Long { path, .. } => path,
        }
    }
}

/// Makes sure that a directory is this user's and lets nobody else in.
#[expect(clippy::verbose_bit_mask, reason = "the mask is a set of permissions")]
fn make_private(dir: &Path) -> Result<(), FsError> {
    let meta = fs::metadata(dir)?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        let error = io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user",
        );
        return Err(FsError::new("use", dir, error));
    }
    if meta.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    rustix::fs::chmod(dir, Mode::RWXU).map_err(|error| FsError::new("make private", dir, error))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests set up files directly")]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn both_ends_know_each_other() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            dir.path().join("run/s.sock"),
            dir.path().join("long".repeat(30)).join("s.sock"),
        ] {
            let parent = path.parent().unwrap();
            std::fs::create_dir_all(parent).unwrap();
            std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o755)).unwrap();
            let listener = PrivateListener::bind(&path).unwrap();
            assert_eq!((mode(parent), mode(&path)), (0o700, 0o600));
            let (mut ours, listens) = connect(&path).await.unwrap();
            let (mut theirs, came) = listener.accept().await.unwrap();
            for peer in [listens, came] {
                assert!(peer.is_own_user());
                assert_eq!(peer.pid, Some(std::process::id()));
            }
            ours.write_all(b"hello").await.unwrap();
            ours.shutdown().await.unwrap();
            let mut heard = String::new();
            theirs.read_to_string(&mut heard).await.unwrap();
            assert_eq!(heard, "hello");
            listener.remove().unwrap();
            let gone = connect(&path).await.unwrap_err();
            assert_eq!(gone.kind(), io::ErrorKind::NotFound);
            assert_eq!(fs::list_dir(parent).unwrap(), []);
        }
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        drop(PrivateListener::bind(&path).unwrap());
        let refused = connect(&path).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = PrivateListener::bind(&path).unwrap();
        connect(&path).await.unwrap();
        assert!(listener.is_in_place());
        std::fs::remove_file(&path).unwrap();
        assert!(!listener.is_in_place());
        let other = PrivateListener::bind(&path).unwrap();
        listener.remove().unwrap();
        assert!(other.is_in_place(), "that of another stays");
        other.remove().unwrap();
        std::fs::write(&path, "mine").unwrap();
        let error = PrivateListener::bind(&path).unwrap_err();
        assert!(
            error.to_string().contains("a regular file is there"),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn another_user_is_told_apart() {
        let own = rustix::process::geteuid().as_raw();
        let peer = |uid| Peer { uid, pid: None };
        assert!(peer(own).is_own_user() && !peer(own + 1).is_own_user());
    }
}
