//! The one sleeper behind all jobs of a server.
//!
//! It sleeps until the first appointment of the [`Timetable`], rings the bells of the sessions concerned, and knows
//! nothing of what they do. Time to sleep is monotonic, appointments are wall time: it never sleeps longer than
//! [`CRON_SLEEP_MAX`], compares how far both have come, and where they have parted (the machine slept, somebody set the
//! clock) rings everybody once, so that each works out its appointments anew. It begins with the first appointment: a
//! server without jobs has no sleeper.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_protocol::id::{JobId, SessionId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::timetable::{Bell, Timetable};
use crate::kernel::limits::{CRON_CLOCK_STEP, CRON_SLEEP_MAX};
use crate::kernel::time::Timestamp;
use crate::os::clock::Clock;

/// The appointments of a server, and who waits for them. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    state: Mutex<State>,
    /// An appointment came in that is earlier than what is slept for.
    sooner: Notify,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    table: Timetable,
    is_running: bool,
    /// What is slept for.
    until: Option<Timestamp>,
    n_rounds: u64,
}

impl Scheduler {
    /// A scheduler by a clock, whose one task is spawned where all tasks are.
    pub fn new(clock: Arc<dyn Clock>, tasks: TaskTracker) -> Self {
        Self(Arc::new(Inner {
            clock,
            tasks,
            state: Mutex::default(),
            sooner: Notify::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Puts in an appointment, in place of the one that the job has. Needs a runtime around it, the first time.
    pub fn put(&self, session: &SessionId, job: &JobId, at: Timestamp, bell: &Arc<dyn Bell>) {
        if self.0.stop.is_cancelled() {
            return;
        }
        let mut state = self.0.lock();
        state.table.put(session, job, at, bell);
        let is_sooner = state.until.is_none_or(|until| at < until);
        let begins = !std::mem::replace(&mut state.is_running, true);
        drop(state);
        if begins {
            self.0.tasks.spawn(self.0.clone().run());
        } else if is_sooner {
            self.0.sooner.notify_one();
        }
    }

    /// Takes out a job's appointment.
    pub fn remove(&self, session: &SessionId, job: &JobId) {
        self.0.lock().table.remove(session, job);
    }

    /// How many appointments there are.
    pub fn len(&self) -> usize {
        self.0.lock().table.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often bells were rung so far: once for each instant at which something was due.
    pub fn n_rounds(&self) -> u64 {
        self.0.lock().n_rounds
    }

    /// Rings no more.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }
}

impl Inner {
    async fn run(self: Arc<Self>) {
        while !self.stop.is_cancelled() {
            let (wall, elapsed) = (self.clock.now(), self.clock.elapsed());
            let (due, wait) = self.round(wall);
            for bell in due {
                bell.ring();
            }
            let sleep = async {
                match wait {
                    Some(wait) => self.clock.sleep_until(elapsed + wait).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = self.sooner.notified() => {}
                () = sleep => {}
            }
            let (wall_now, elapsed_now) = (self.clock.now(), self.clock.elapsed());
            let parted =
                (wall_now.0 - wall.0) - elapsed_now.saturating_sub(elapsed).as_millis() as i64;
            if parted.unsigned_abs() > CRON_CLOCK_STEP.as_millis() as u64 {
                tracing::info!(
                    parted_ms = parted,
                    "the clock was set, or the machine slept"
                );
                let all = self.lock().table.all();
                for bell in all {
                    bell.ring();
                }
            }
        }
    }

    /// Takes what is due, and says how long to sleep; `None` is until something comes in.
    fn round(&self, now: Timestamp) -> (Vec<Arc<dyn Bell>>, Option<Duration>) {
        let mut state = self.lock();
        let due = state.table.take_due(now);
        if !due.is_empty() {
            state.n_rounds += 1;
        }
        state.until = state.table.first();
        let wait = state.until.map(|until| {
            let left = Duration::from_millis(until.0.saturating_sub(now.0).max(0) as u64);
            left.min(CRON_SLEEP_MAX)
        });
        (due, wait)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
