//! Task managers for tests, and a sink that remembers.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::{TaskLimits, TaskSink, TaskSlots, Tasks, TasksParts, Unheard};
use crate::kernel::task::TaskInfo;
use crate::os::clock::SystemClock;
use crate::os::fs::Durability;
use crate::os::ids::RandomIds;
use crate::os::process::Processes;

/// Parts over real processes and time.
pub(crate) fn parts(dir: &Path, sink: Arc<dyn TaskSink>) -> TasksParts {
    TasksParts {
        dir: dir.to_owned(),
        limits: TaskLimits::default(),
        slots: TaskSlots::new(1024),
        processes: Processes::new(None),
        clock: SystemClock::shared(),
        ids: RandomIds::shared(),
        sink,
        tracker: TaskTracker::new(),
        durability: Durability::Kernel,
        supervisor: None,
    }
}

impl Tasks {
    /// A manager whose sink tells nobody.
    pub(crate) fn for_tests(dir: &Path) -> Self {
        Self::open(parts(dir, Arc::new(Unheard)))
    }
}

/// What a sink was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Started(TaskInfo),
    Updated(TaskInfo),
    Ended(TaskInfo, String),
}

/// Remembers what it is told.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    told: Mutex<Vec<Told>>,
    n_ended: watch::Sender<usize>,
}

impl Heard {
    /// Everything so far.
    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    /// Waits until so many tasks have ended, and gives them in that order.
    pub(crate) async fn ended(&self, n: usize) -> Vec<(TaskInfo, String)> {
        let mut n_ended = self.n_ended.subscribe();
        let waited = n_ended.wait_for(|n_ended| *n_ended >= n);
        tokio::time::timeout(std::time::Duration::from_secs(60), waited)
            .await
            .unwrap_or_else(|_| panic!("told only {:?}", self.told()))
            .unwrap();
        let ends = |told| match told {
            Told::Ended(info, tail) => Some((info, tail)),
            Told::Started(_) | Told::Updated(_) => None,
        };
        self.told().into_iter().filter_map(ends).collect()
    }
}

impl TaskSink for Heard {
    fn started(&self, info: &TaskInfo) {
        self.told.lock().unwrap().push(Told::Started(info.clone()));
    }

    fn updated(&self, info: &TaskInfo) {
        self.told.lock().unwrap().push(Told::Updated(info.clone()));
    }

    fn ended(&self, info: &TaskInfo, tail: &str) {
        self.told
            .lock()
            .unwrap()
            .push(Told::Ended(info.clone(), tail.to_owned()));
        self.n_ended.send_modify(|n| *n += 1);
    }
}
