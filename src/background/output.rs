//! The output of one task, as it is read by others while the pump writes it.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::log::{Caps, Layout};
use super::ring::Ring;
use crate::kernel::limits::{COMMAND_RING_BYTES, TASK_END_TAIL_BYTES};
use crate::kernel::task::TaskOutput;
use crate::os::process::Stream;
use crate::os::{blocking, fs};

/// Looks at a log that is being rewritten, before what is left of it is taken for all.
const TRIES: usize = 4;

/// What is kept of the end of an output whose log is incomplete, once its task has ended.
const KEPT_BYTES: usize = 32 << 10;

/// Which part of an output is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// From this byte of the whole output on.
    From(u64),
    /// The end.
    Tail,
}

/// A part of an output: raw bytes, cut anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputSlice {
    /// Where it begins in the whole output. Later than was asked for where bytes in between are lost.
    pub start: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The whole output so far.
    pub total_bytes: u64,
}

impl OutputSlice {
    /// Where the next part begins.
    pub fn next_offset(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether there is no more output by now. A running task may write more.
    pub fn is_at_end(&self) -> bool {
        self.next_offset() >= self.total_bytes
    }
}

/// The output of one task: the pump adds to it, everybody else reads.
#[derive(Debug)]
pub(super) struct Output {
    state: Mutex<State>,
    /// The length, for those who wait for more.
    grew: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    total_bytes: u64,
    /// The latest bytes; while the task runs, and where there is no whole log afterwards.
    ring: Option<Ring>,
    log: Option<LogState>,
}

#[derive(Debug, Clone)]
struct LogState {
    path: PathBuf,
    /// As it will be when the write under way is over: what that overwrites is not to be read any more.
    layout: Layout,
    /// How much of the output can be read.
    written: u64,
    problem: Option<String>,
    is_removed: bool,
}

impl Output {
    /// The output of a task that begins.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                total_bytes: 0,
                ring: Some(Ring::new(COMMAND_RING_BYTES)),
                log: None,
            }),
            grew: watch::Sender::new(0),
        })
    }

    /// The output of a task that has ended, as it is known from its record.
    pub(super) fn recorded(recorded: &TaskOutput) -> Arc<Self> {
        // A log with a gap is as long as it could be.
        let caps = match recorded.log_gap_bytes {
            0 => Caps::UNLIMITED,
            gap => Caps::of(recorded.size_bytes.saturating_sub(gap)),
        };
        let layout = Layout {
            caps,
            n_bytes: recorded.size_bytes,
            is_straight: true,
        };
        let log = recorded.log_path.clone().map(|path| LogState {
            path,
            layout,
            written: recorded.size_bytes,
            problem: recorded.log_problem.clone(),
            is_removed: recorded.log_removed,
        });
        Arc::new(Self {
            state: Mutex::new(State {
                total_bytes: recorded.size_bytes,
                ring: None,
                log,
            }),
            grew: watch::Sender::new(recorded.size_bytes),
        })
    }

    /// The output of a task whose log another process writes. Of one longer than its log the end may be read while it is
    /// overwritten.
    pub(super) fn followed(path: &Path, caps: Caps) -> Arc<Self> {
        let output = Self::new();
        output.state().ring = None;
        output.log_begun(path, caps);
        output
    }

    /// Says that another process has added to the log, which is of so long an output now.
    pub(super) fn grown_to(&self, total_bytes: u64) {
        let mut state = self.state();
        state.total_bytes = total_bytes;
        if let Some(log) = &mut state.log {
            log.written = total_bytes;
            log.layout.n_bytes = total_bytes;
        }
        drop(state);
        self.grew.send_replace(total_bytes);
    }

    /// The output of a task whose carrier died, as far as it is in the log. Of a long one the end is not in order.
    pub(super) fn of_dead_log(path: &Path, n_bytes: u64, problem: &str) -> Arc<Self> {
        let output = Self::recorded(&TaskOutput {
            size_bytes: n_bytes,
            log_path: Some(path.to_owned()),
            ..TaskOutput::default()
        });
        output.log_failed(problem.to_owned());
        output
    }

    /// Adds output.
    pub(super) fn push(&self, stream: Stream, bytes: &[u8]) {
        let total_bytes = {
            let mut state = self.state();
            state.total_bytes += bytes.len() as u64;
            if let Some(ring) = &mut state.ring {
                ring.push(stream, bytes);
            }
            state.total_bytes
        };
        self.grew.send_replace(total_bytes);
    }

    /// Raw bytes so far.
    pub(super) fn total_bytes(&self) -> u64 {
        self.state().total_bytes
    }

    /// Whether so much more fits into the ring without anything falling off.
    pub(super) fn has_room(&self, n_bytes: usize) -> bool {
        let state = self.state();
        state
            .ring
            .as_ref()
            .is_none_or(|ring| ring.has_room(n_bytes))
    }

    /// Works with the ring, which is there while the task runs.
    pub(super) fn with_ring<T>(&self, work: impl FnOnce(&mut Ring) -> T) -> Option<T> {
        self.state().ring.as_mut().map(work)
    }

    /// Watches the length.
    pub(super) fn grew(&self) -> watch::Receiver<u64> {
        self.grew.subscribe()
    }

    /// A log is being written.
    pub(super) fn log_begun(&self, path: &Path, caps: Caps) {
        let layout = Layout {
            caps,
            n_bytes: 0,
            is_straight: false,
        };
        self.state().log = Some(LogState {
            path: path.to_owned(),
            layout,
            written: 0,
            problem: None,
            is_removed: false,
        });
    }

    /// So many bytes are about to be added to the log.
    pub(super) fn log_adding(&self, n_bytes: u64) {
        if let Some(log) = &mut self.state().log {
            log.layout.n_bytes = log.written + n_bytes;
        }
    }

    /// So much of the output is in the log.
    pub(super) fn log_written(&self, n_bytes: u64) {
        if let Some(log) = &mut self.state().log {
            log.written = n_bytes;
            log.layout.n_bytes = n_bytes;
        }
    }

    /// The log is in its final order.
    pub(super) fn log_finished(&self, problem: Option<String>) {
        if let Some(log) = &mut self.state().log {
            log.layout.is_straight = problem.is_none();
            if let Some(problem) = problem {
                log.problem.get_or_insert(problem);
            }
        }
    }

    /// The log will not be complete.
    pub(super) fn log_failed(&self, problem: String) {
        if let Some(log) = &mut self.state().log {
            log.problem.get_or_insert(problem);
        }
    }

    /// The log had to make room, or was not needed. Returns its file, and how long that was.
    pub(super) fn remove_log(&self) -> Option<(PathBuf, u64)> {
        let mut state = self.state();
        let log = state.log.as_mut().filter(|log| !log.is_removed)?;
        log.is_removed = true;
        Some((log.path.clone(), log.layout.caps.file_bytes(log.written)))
    }

    /// How long the log's file is.
    pub(super) fn log_file_bytes(&self) -> u64 {
        let state = self.state();
        let log = state.log.as_ref().filter(|log| !log.is_removed);
        log.map_or(0, |log| log.layout.caps.file_bytes(log.written))
    }

    /// The task has ended: only what the log does not have is kept in memory.
    pub(super) fn end(&self) {
        let mut state = self.state();
        let is_whole = state.log.as_ref().is_some_and(|log| log.problem.is_none());
        if is_whole || state.total_bytes == 0 {
            state.ring = None;
        } else if let Some(ring) = state.ring.take() {
            let from = ring
                .end()
                .saturating_sub(KEPT_BYTES as u64)
                .max(ring.start());
            let mut kept = Ring::starting_at(from, KEPT_BYTES);
            kept.push(Stream::Stdout, &ring.copy_from(from, KEPT_BYTES));
            state.ring = Some(kept);
        }
    }

    /// What is known of it.
    pub(super) fn describe(&self) -> TaskOutput {
        let state = self.state();
        let mut output = TaskOutput {
            size_bytes: state.total_bytes,
            ..TaskOutput::default()
        };
        if let Some(log) = &state.log {
            output.log_removed = log.is_removed;
            // Without a byte there is no file.
            let has_output = state.total_bytes > 0 || log.written > 0;
            let has_file = !log.is_removed && has_output;
            output.log_path = has_file.then(|| log.path.clone());
            output.log_gap_bytes = log.layout.caps.gap_bytes(log.written);
            output.log_problem.clone_from(&log.problem);
        }
        output
    }

    /// The end of it as text, from a character boundary on.
    pub(super) async fn end_tail(&self) -> String {
        let slice = self.read(Window::Tail, TASK_END_TAIL_BYTES).await;
        let bytes = slice.unwrap_or_default().bytes;
        // The rest of a character whose beginning was cut off.
        let n_cut = bytes
            .iter()
            .take(3)
            .take_while(|byte| **byte & 0xc0 == 0x80)
            .count();
        String::from_utf8_lossy(&bytes[n_cut..]).into_owned()
    }

    /// Reads a part. What is in neither ring nor log any more is passed over.
    ///
    /// # Errors
    /// The log could not be read.
    pub(super) async fn read(
        &self,
        window: Window,
        max_bytes: usize,
    ) -> Result<OutputSlice, fs::FsError> {
        for attempt in 1.. {
            let (log, mut slice) = {
                let state = self.state();
                let total_bytes = state.total_bytes;
                let start = match window {
                    Window::From(offset) => offset.min(total_bytes),
                    Window::Tail => total_bytes.saturating_sub(max_bytes as u64),
                };
                let slice = OutputSlice {
                    start,
                    bytes: Vec::new(),
                    total_bytes,
                };
                if let Some(ring) = state.ring.as_ref().filter(|ring| start >= ring.start()) {
                    let bytes = ring.copy_from(start, max_bytes);
                    return Ok(OutputSlice { bytes, ..slice });
                }
                let log = state.log.clone().filter(|log| !log.is_removed);
                let kept = log
                    .as_ref()
                    .map(|log| log.layout.first_kept(start))
                    .filter(|first| log.as_ref().is_some_and(|log| *first < log.written))
                    .filter(|first| state.ring.as_ref().is_none_or(|ring| *first < ring.start()));
                let Some(first) = kept else {
                    // What the ring has begins later, but not later than what the log has.
                    let start = state.ring.as_ref().map_or(total_bytes, Ring::start);
                    let ring = state.ring.as_ref();
                    let bytes = ring.map_or_else(Vec::new, |ring| ring.copy_from(start, max_bytes));
                    return Ok(OutputSlice {
                        start,
                        bytes,
                        ..slice
                    });
                };
                (
                    log,
                    OutputSlice {
                        start: first,
                        ..slice
                    },
                )
            };
            let Some(log) = log else { return Ok(slice) };
            let (path, layout, start) = (log.path, log.layout, slice.start);
            let most = max_bytes.min(usize::try_from(log.written - start).unwrap_or(usize::MAX));
            let read = blocking::run(move || read_file(&path, layout, start, most)).await;
            // The pump may have gone round the circle, or put the log in order, under the read.
            let is_same = {
                let state = self.state();
                state.log.as_ref().is_some_and(|now| {
                    now.layout.is_straight == layout.is_straight
                        && now.layout.first_kept(start) == start
                })
            };
            if is_same || attempt == TRIES {
                slice.bytes = read?;
                return Ok(slice);
            }
        }
        Ok(OutputSlice::default())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads from the file of a log what is at `start` of the output, as far as it stands there.
fn read_file(
    path: &Path,
    layout: Layout,
    start: u64,
    max_bytes: usize,
) -> Result<Vec<u8>, fs::FsError> {
    let (file, _) = fs::open_read(path)?;
    let mut bytes = Vec::new();
    while bytes.len() < max_bytes {
        let offset = start + bytes.len() as u64;
        if offset >= layout.n_bytes || layout.first_kept(offset) != offset {
            break;
        }
        let (place, n) = layout.place(offset);
        let n = usize::try_from(n)
            .unwrap_or(usize::MAX)
            .min(max_bytes - bytes.len());
        let before = bytes.len();
        bytes.resize(before + n, 0);
        let n_read = file
            .read_at(&mut bytes[before..], place)
            .map_err(|source| fs::FsError::new("read", path, source))?;
        bytes.truncate(before + n_read);
        if n_read == 0 {
            break;
        }
    }
    Ok(bytes)
}
