use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::future::join_all;
use rustix::process::{Pid, Signal};
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::member::{Members, kill_exactly};
use super::output::{Outputs, Stream};
use super::scanner::Scanner;
use super::state::{Evidence, Proc};
use super::supervise::supervise;
use super::table::{ProcessKey, Snapshot};
use super::{Command, Running, SpawnError, Stderr, Stdin};
use crate::os::blocking;
use crate::os::nofile::OriginalLimit;

/// How long a child may take to vanish once its grace is over.
const AFTER_GRACE: Duration = Duration::from_millis(600);

/// All children of this process. One per process, made by whoever puts the parts together, handed down by clone.
#[derive(Debug, Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    children: Mutex<HashMap<u64, Arc<Proc>>>,
    next_serial: AtomicU64,
    is_closed: AtomicBool,
    /// Held for reading from the start of a child until it is registered, for writing while strangers are reaped.
    pub(super) gate: RwLock<()>,
    pub(super) adopts_orphans: AtomicBool,
    /// Processes that outlive this one, see [`super::Spared`].
    spared: Mutex<HashSet<ProcessKey>>,
    pub(super) scanner: Scanner,
    pub(super) tracker: TaskTracker,
    pub(super) dropped: CancellationToken,
    child_limit: Option<OriginalLimit>,
}

impl Processes {
    /// An empty registry. `child_limit` is what [`crate::os::nofile::raise`] returned.
    pub fn new(child_limit: Option<OriginalLimit>) -> Self {
        Self {
            inner: Arc::new(Inner {
                children: Mutex::default(),
                next_serial: AtomicU64::new(0),
                is_closed: AtomicBool::new(false),
                gate: RwLock::new(()),
                adopts_orphans: AtomicBool::new(false),
                spared: Mutex::default(),
                scanner: Scanner::default(),
                tracker: TaskTracker::new(),
                dropped: CancellationToken::new(),
                child_limit,
            }),
        }
    }

    /// Starts a child at the head of a group of its own. It sees descriptors 0, 1 and 2, an empty signal mask and
    /// default dispositions.
    ///
    /// # Errors
    /// See [`SpawnError`]; nothing was started then, in no directory.
    ///
    /// # Cancel safety
    /// When the future is dropped the child is stopped as by dropping [`Running`].
    pub async fn spawn(&self, command: Command) -> Result<Running, SpawnError> {
        let inner = Arc::clone(&self.inner);
        blocking::run(move || inner.spawn(&command)).await
    }

    /// How many children have not ended yet.
    pub fn n_running(&self) -> usize {
        self.inner.children().len()
    }

    /// Ends every process whose environment holds `name=value` and all their descendants: TERM, grace, KILL. For what
    /// left its group and outlived its task (only processes that also bear a task mark are found). Returns how many
    /// there were.
    pub async fn end_marked(&self, name: &str, value: &str, grace: Duration) -> usize {
        let kill_at = Instant::now() + grace;
        self.inner
            .end_found(kill_at, |snapshot| {
                snapshot.trees(|entry| entry.has_env(name, value))
            })
            .await
    }

    /// Ends all children, and every other descendant once [`Self::adopt_orphans`] was called, and starts no more.
    /// Returns within the grace and about a second, whatever they do.
    pub async fn kill_all(&self, grace: Duration) {
        let kill_at = Instant::now() + grace;
        self.inner.is_closed.store(true, Ordering::SeqCst);
        let children: Vec<_> = self.inner.children().values().cloned().collect();
        for child in &children {
            child.request_stop(grace);
        }
        let all_settled = join_all(children.iter().map(|child| child.settled()));
        // Whoever is stuck in the kernel is left to it.
        drop(timeout(grace + AFTER_GRACE, all_settled).await);
        if self.inner.adopts_orphans.load(Ordering::SeqCst) {
            let own = std::process::id() as i32;
            self.inner
                .end_found(kill_at, |snapshot| {
                    snapshot.trees(|entry| entry.parent == own)
                })
                .await;
        }
    }

    /// Kills all children at once, without waiting: for a panic or a forced exit. Blocks for a look at the process
    /// table at most.
    pub fn kill_now(&self) {
        self.inner.kill_now();
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Inner {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that starts a process"
    )]
    fn spawn(self: Arc<Self>, command: &Command) -> Result<Running, SpawnError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(SpawnError::Closed);
        }
        if !command.cwd.is_absolute() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute");
            let cwd = command.cwd.clone();
            return Err(SpawnError::Cwd { cwd, source });
        }
        let program = command.locate()?;
        let mut outputs = Outputs::default();
        let mut capture = |stream| -> io::Result<Stdio> {
            let (reader, writer) = io::pipe()?;
            outputs.add(stream, reader.into())?;
            Ok(writer.into())
        };
        let stdout = capture(Stream::Stdout)?;
        let stderr = match command.stderr {
            Stderr::Captured => capture(Stream::Stderr)?,
            Stderr::Inherited => Stdio::inherit(),
        };
        outputs.listen();
        let (child_stdin, own_stdin) = match command.stdin {
            Stdin::Null => (Stdio::null(), None),
            Stdin::Piped => {
                let (reader, writer) = io::pipe()?;
                let writer = pipe::Sender::from_owned_fd(OwnedFd::from(writer))?;
                (reader.into(), Some(writer))
            }
        };
        let mut os_command = std::process::Command::new(&program);
        os_command
            .args(&command.args)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .stdin(child_stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        let proc = {
            let _unregistered = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            let child = os_command
                .spawn()
                .map_err(|error| command.explain(&program, error))?;
            let pid = Pid::from_raw(child.id() as i32)
                .ok_or_else(|| io::Error::other("the system gave a child no id"))?;
            self.restore_limit(pid);
            let proc = Arc::new(Proc::new(pid, command.mark.clone(), command.survivors));
            let serial = self.next_serial.fetch_add(1, Ordering::SeqCst);
            self.children().insert(serial, Arc::clone(&proc));
            let registry = Arc::clone(&self);
            let done = move || drop(registry.children().remove(&serial));
            self.tracker
                .spawn(supervise(Arc::clone(&proc), self.scanner.clone(), done));
            proc
        };
        if self.is_closed.load(Ordering::SeqCst) {
            // Everything was ended while this one started.
            proc.request_stop(Duration::ZERO);
        }
        Ok(Running::new(proc, outputs, own_stdin, command.drop_grace))
    }

    #[cfg(target_os = "linux")]
    pub(super) fn restore_limit(&self, pid: Pid) {
        if let Some(OriginalLimit(limit)) = &self.child_limit {
            // A child that has exited already needs none.
            let _ = rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, *limit);
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn restore_limit(&self, _pid: Pid) {
        debug_assert!(self.child_limit.is_none());
    }

    pub(super) fn children(&self) -> MutexGuard<'_, HashMap<u64, Arc<Proc>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the processes that `find` picks from each new look at the table, until it finds none or KILL has had its
    /// time.
    pub(super) async fn end_found(
        &self,
        kill_at: Instant,
        find: impl Fn(&Snapshot) -> Vec<ProcessKey>,
    ) -> usize {
        const ROUND: Duration = Duration::from_millis(50);
        const AFTER_KILL: Duration = Duration::from_millis(200);
        let give_up = kill_at.max(Instant::now()) + AFTER_KILL;
        let mut members = Members::default();
        let mut n_found = 0;
        loop {
            let snapshot = self.scanner.snapshot().await;
            let mut found = find(&snapshot);
            self.leave_spared(&snapshot, &mut found);
            let added = members.update(&found);
            n_found += added.len();
            let now = Instant::now();
            if members.is_empty() || now >= give_up {
                return n_found;
            }
            let until = if now >= kill_at {
                members.signal(Signal::KILL, |_| true);
                now + ROUND
            } else {
                members.signal(Signal::TERM, |key| added.contains(&key));
                members.signal(Signal::CONT, |key| added.contains(&key));
                kill_at
            };
            // Either way the next look decides.
            drop(timeout_at(until, members.all_ended()).await);
        }
    }

    pub(super) fn spared(&self) -> MutexGuard<'_, HashSet<ProcessKey>> {
        self.spared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes those that are spared, and their descendants, out of what was found.
    fn leave_spared(&self, snapshot: &Snapshot, found: &mut Vec<ProcessKey>) {
        let spared = self.spared();
        if spared.is_empty() || found.is_empty() {
            return;
        }
        let trees: HashSet<ProcessKey> = snapshot
            .trees(|entry| spared.contains(&entry.key))
            .into_iter()
            .collect();
        found.retain(|key| !trees.contains(key));
    }

    fn kill_now(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for child in self.children().values() {
            child.signal_group(Signal::KILL, Evidence::LeaderHolds);
        }
        if self.adopts_orphans.load(Ordering::SeqCst) {
            let own = std::process::id() as i32;
            let snapshot = Snapshot::take();
            let mut found = snapshot.trees(|entry| entry.parent == own);
            self.leave_spared(&snapshot, &mut found);
            for key in found {
                kill_exactly(key);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.dropped.cancel();
        // Supervisors own this too: children are left only when the runtime went away under them.
        if !self.children().is_empty() {
            self.kill_now();
        }
    }
}
