//! Sessions on fakes: events that are kept, hosts that answer by script, a home on the disk.

#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::session::{Mode, Session};
use longshore_protocol::value::turn::WhenBusy;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::deps::{Deps, Loads, OwnTurns, Running};
use super::store::Store;
use super::{CreateOptions, SessionHandle, Sessions, Started, TurnEnd};
use crate::agent::testing::{FakeAsks, PATIENCE, event_line};
use crate::background::TaskSlots;
use crate::config::values::Config;
use crate::cron::index::Index;
use crate::cron::scheduler::Scheduler;
use crate::http::Http;
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fakes::FakeHostFs;
use crate::kernel::port::Publish;
use crate::kernel::time::Timestamp;
use crate::kernel::wake::WakeKey;
use crate::os::clock::FakeClock;
use crate::os::env::Env;
use crate::os::fs::{Disk, RealDisk};
use crate::os::ids::SeededIds;
use crate::os::process::Processes;
use crate::provider::registry::{Registry, ScriptSources};
use crate::tool::shell::Shell;

/// A home, and what runs on it.
pub(crate) struct Home {
    dir: Arc<TempDir>,
    pub(crate) ws: PathBuf,
    pub(crate) events: Arc<Published>,
    pub(crate) asks: Arc<FakeAsks>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) sessions: Sessions,
}

/// What turns that no host asked for do while none is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detached {
    Run,
    Wait,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        Self::on(dir, config, Detached::Wait, Arc::new(RealDisk))
    }

    /// A home whose journals, blobs and caches are on a given disk.
    pub(crate) fn on_disk(disk: Arc<dyn Disk>) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        let config = Config {
            files_fsync: false,
            ..Config::default()
        };
        Self::on(dir, config, Detached::Wait, disk)
    }

    /// Another server on the same home.
    pub(crate) fn again(&self) -> Self {
        self.again_with(Config::default())
    }

    /// Another server on the same home, whose journals, blobs and caches are on a given disk.
    pub(crate) fn again_on(&self, disk: Arc<dyn Disk>) -> Self {
        let config = Config {
            files_fsync: false,
            ..Config::default()
        };
        Self::on(self.dir.clone(), config, Detached::Wait, disk)
    }

    /// Another server on the same home, configured in some way.
    pub(crate) fn again_with(&self, config: Config) -> Self {
        let disk = Arc::new(RealDisk);
        Self::on(self.dir.clone(), config, Detached::Wait, disk)
    }

    /// Another server on the same home, which runs turns while no host is attached.
    pub(crate) fn again_detached(&self, config: Config) -> Self {
        let disk = Arc::new(RealDisk);
        Self::on(self.dir.clone(), config, Detached::Run, disk)
    }

    /// Where longshore's files are.
    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Another server on a copy of this home, as it would be found had this process died now.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        copy.take_sessions_of(self);
        copy
    }

    /// Copies what the sessions of another home have and this one has not.
    pub(crate) fn take_sessions_of(&self, other: &Self) {
        fn copy(from: &Path, to: &Path) {
            std::fs::create_dir_all(to).unwrap();
            for entry in std::fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                let to = to.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    copy(&entry.path(), &to);
                } else if !to.exists() {
                    std::fs::copy(entry.path(), to).unwrap();
                }
            }
        }
        copy(
            &other.home().join("sessions"),
            &self.home().join("sessions"),
        );
    }

    fn on(dir: Arc<TempDir>, config: Config, detached: Detached, disk: Arc<dyn Disk>) -> Self {
        // Sessions of tests that run side by side must not end one another's commands, which bear their ids.
        static SEED: AtomicU64 = AtomicU64::new(1);
        let real = dir.path().canonicalize().unwrap();
        let (events, asks) = (
            Arc::new(Published::default()),
            Arc::new(FakeAsks::default()),
        );
        let clock = Arc::new(FakeClock::default());
        let env = Arc::new(Env::of([
            ("HOME", real.join("user").into_os_string()),
            ("PATH", "/bin:/usr/bin".into()),
        ]));
        let processes = Processes::new(None);
        let http = Arc::new(Http::new(Arc::new(|| Timestamp(0))));
        let scripts = ScriptSources {
            env_script: None,
            read: Arc::new(|path: &Path| std::fs::read_to_string(path)),
            trace: None,
        };
        let home = real.join("home");
        let tasks = TaskTracker::new();
        let sessions = Sessions::new(Deps {
            models: Arc::new(Registry::new(&config, http, scripts)),
            store: Arc::new(Store::on(&home, disk)),
            home: home.clone(),
            publish: events.clone(),
            own_turns: match detached {
                Detached::Run => OwnTurns::Always,
                Detached::Wait => OwnTurns::WhileAttended,
            },
            leaves_turns: detached == Detached::Run,
            asks: asks.clone(),
            host_fs: Arc::<FakeHostFs>::default(),
            clock: clock.clone(),
            ids: Arc::new(SeededIds::new(SEED.fetch_add(1, Ordering::Relaxed))),
            shell: Arc::new(Shell::new(&env, &config.shell, &config.task)),
            task_slots: TaskSlots::new(64),
            supervisor: None,
            env,
            processes,
            config: Arc::new(config),
            file_locks: Arc::default(),
            temps: None,
            search: Arc::default(),
            images: crate::media::pool::ImagePool::default(),
            cron: Scheduler::new(clock.clone(), tasks.clone()),
            cron_index: Arc::new(Index::new(&home)),
            tasks,
            running: Arc::<Running>::default(),
            loaded: Loads::default(),
        });
        Self {
            ws: real.join("ws"),
            dir,
            events,
            asks,
            clock,
            sessions,
        }
    }

    /// What a session with a script is made of: the scripted model, in yolo mode.
    pub(crate) fn options(&self, script: &str) -> CreateOptions {
        CreateOptions {
            cwd: self.ws.clone(),
            model: Some("demo".into()),
            mode: Some(Mode::Yolo),
            script: Some(format!("defaults: {{chunk: whole}}\n{script}")),
            ..CreateOptions::default()
        }
    }

    pub(crate) async fn create(&self, script: &str) -> (SessionHandle, Session) {
        self.sessions.create(self.options(script)).await.unwrap()
    }

    pub(crate) fn dir_of(&self, session: &Session) -> PathBuf {
        let real = self.dir.path().canonicalize().unwrap().join("home");
        let dir = Store::new(real).find(&session.session_id);
        dir.unwrap_or_else(|| panic!("no directory of {}", session.session_id))
    }
}

pub(crate) fn input(text: &str) -> Vec<ContentPart> {
    vec![ContentPart::Text { text: text.into() }]
}

/// Starts a turn and lets its events go.
pub(crate) async fn start(handle: &SessionHandle, text: &str, when_busy: WhenBusy) -> Started {
    let mut started = handle.start(input(text), when_busy).await.unwrap();
    std::mem::take(&mut started.gate).release();
    started
}

/// Runs a turn to its end.
pub(crate) async fn run(handle: &SessionHandle, text: &str) -> TurnEnd {
    let started = start(handle, text, WhenBusy::Reject).await;
    within(handle.wait(started.turn)).await.unwrap()
}

/// Waits, but not for ever.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work)
        .await
        .expect("it hangs")
}

/// Keeps what was published.
#[derive(Default)]
pub(crate) struct Published {
    events: Mutex<Vec<Arc<Stamped>>>,
    changed: watch::Sender<usize>,
    hook: Mutex<Option<Hook>>,
}

/// What a test does at the very moment of an event, given its line.
type Hook = Box<dyn FnMut(&str) + Send>;

impl Publish for Published {
    fn publish(&self, event: Arc<Stamped>) {
        let mut events = self.events.lock().unwrap();
        if let Some(seq) = event.seq {
            let last = events
                .iter()
                .rev()
                .find(|other| other.session == event.session && other.seq.is_some());
            let expected = last.map_or(seq, |last| last.seq.unwrap() + 1);
            assert_eq!(seq, expected, "no gap, no repeat");
        }
        let line = event_line(&event.event);
        events.push(event);
        let n = events.len();
        drop(events);
        self.changed.send_replace(n);
        if let Some(hook) = &mut *self.hook.lock().unwrap() {
            hook(&line);
        }
    }
}

impl Published {
    /// Does something at the very moment of each event, in the thread that says it. It must not say anything itself.
    pub(crate) fn at_each(&self, hook: impl FnMut(&str) + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    /// What the model was told outside the words of hosts: how, why and what of.
    pub(crate) fn told(&self) -> Vec<String> {
        let keys = |wakes: &[WakeKey]| {
            let keys = wakes.iter().map(|key| match key {
                WakeKey::Task { task } => task.to_string(),
                WakeKey::Fire { fire, .. } => fire.to_string(),
            });
            keys.collect::<Vec<_>>().join(" ")
        };
        self.events()
            .iter()
            .filter_map(|stamped| match &stamped.event {
                DomainEvent::TurnStarted {
                    turn,
                    origin,
                    wakes,
                    ..
                } if !wakes.is_empty() => {
                    Some(format!("{turn} begins by {origin:?}: {}", keys(wakes)))
                }
                DomainEvent::TurnSteered {
                    turn,
                    origin,
                    wakes,
                    ..
                } if !wakes.is_empty() => {
                    Some(format!("{turn} is steered by {origin:?}: {}", keys(wakes)))
                }
                _ => None,
            })
            .collect()
    }

    pub(crate) fn events(&self) -> Vec<Arc<Stamped>> {
        self.events.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.events()
            .iter()
            .map(|stamped| event_line(&stamped.event))
            .collect()
    }

    pub(crate) fn only(&self, words: &[&str]) -> Vec<String> {
        self.lines()
            .into_iter()
            .filter(|line| words.iter().any(|word| line.starts_with(word)))
            .collect()
    }

    /// The texts of the inputs that began turns, by turn.
    pub(crate) fn inputs(&self) -> Vec<String> {
        self.events()
            .iter()
            .filter_map(|stamped| match &stamped.event {
                DomainEvent::TurnStarted { turn, input, .. } => Some(format!(
                    "{turn} {}",
                    super::transcript::text_of(input).replace('\n', "|")
                )),
                _ => None,
            })
            .collect()
    }

    pub(crate) async fn until(&self, wanted: &str) {
        self.until_all(wanted, |lines| lines.iter().any(|line| line == wanted))
            .await;
    }

    /// Waits until what was said so far is as wanted.
    pub(crate) async fn until_all(&self, what: &str, wanted: impl Fn(&[String]) -> bool) {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            while !wanted(&self.lines()) {
                changed.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "no {what}: {:#?}", self.lines());
    }
}
