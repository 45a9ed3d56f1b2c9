//! Where sessions are on disk, and reading those that are not loaded.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{SessionId, TurnId};
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::session::{Session, Status};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::facts::{Conversation, Facts};
use super::fires::Untold;
use super::index::{Index, Prompts, Use};
use super::journal::convert::Fact;
use super::journal::read::{Damage, Entry, Flow, Mark, Place, each};
use super::journal::write::{Journal, MARK_BYTES};
use super::journal::{self, storage_fault};
use super::pages::{Pages, Wanted};
use super::tasks::TaskFacts;
use crate::agent::Agent;
use crate::agent::open::Left;
use crate::agent::state::Restore;
use crate::cron::ledger::Ledger;
use crate::kernel::event::{DomainEvent, Stamped, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::port::EventLog;
use crate::kernel::time::Timestamp;
use crate::os::fs::{self, Disk, FileKind, RealDisk};
use crate::os::lock::{FileLock, LockError};
use crate::store::atomic_file;

/// The name of a session's cached facts.
const META: &str = "meta.json";

/// The sessions below one home, loaded or not.
pub struct Store {
    home: PathBuf,
    /// What journals are written to.
    disk: Arc<dyn Disk>,
    /// Directories by id: what was seen once need not be looked for again.
    dirs: Mutex<HashMap<SessionId, PathBuf>>,
    /// The journals being written.
    open: Mutex<HashMap<SessionId, Weak<Journal>>>,
    pages: Arc<Pages>,
    /// What lists are made from.
    pub(super) index: Index,
}

/// A session read from its journal.
pub struct Loaded {
    /// The session.
    pub session: Session,
    /// The script it was given.
    pub script: Option<Arc<str>>,
    /// Its main agent.
    pub agent: Agent,
    /// What model clients had kept.
    pub model_state: Vec<(String, serde_json::Value)>,
    /// What the last process left open.
    pub left: Left,
    /// The number and time of the last event.
    pub last: (u64, Timestamp),
    /// The number of the next turn.
    pub next_turn: u64,
    /// Turns that were undone or cleared away.
    pub gone: HashSet<TurnId>,
    /// What it says of tasks.
    pub tasks: TaskFacts,
    /// Its cron jobs.
    pub jobs: Ledger,
    /// Fires of theirs that hosts were not told of.
    pub(super) untold: Untold,
    /// What of its journal could not be read and was not told of before.
    pub damage: Vec<Place>,
    /// What else is wrong with it and was not told of before.
    pub warnings: Vec<Warning>,
    /// Where its journal can be read from.
    pub marks: Vec<Mark>,
}

impl Loaded {
    /// The same, with the step of an open turn closed in the agent's history.
    pub(super) fn closed(mut self) -> Self {
        if let Some(turn) = &mut self.left.turn
            && let Some(step) = turn.step.take()
        {
            self.agent.close_step(step, None);
        }
        self
    }
}

impl Store {
    /// The store below a home.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self::on(home, Arc::new(RealDisk))
    }

    /// The same on a given disk.
    pub fn on(home: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        let home = home.into();
        Self {
            index: Index::new(&home, &disk),
            disk,
            home,
            dirs: Mutex::default(),
            open: Mutex::default(),
            pages: Arc::default(),
        }
    }

    /// The directory of a new session.
    pub fn new_dir(&self, id: &SessionId, real_cwd: &Path, ephemeral: bool) -> PathBuf {
        let dir = if ephemeral {
            self.ephemeral_dir().join(id.as_str())
        } else {
            self.home
                .join("sessions")
                .join(cwd_key(real_cwd))
                .join(id.as_str())
        };
        self.dirs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), dir.clone());
        dir
    }

    /// Where sessions live that are not kept.
    pub fn ephemeral_dir(&self) -> PathBuf {
        self.home.join("run").join("ephemeral")
    }

    /// Where directories of sessions are that are not whole: those being made, and those being removed.
    pub fn aside_dir(&self) -> PathBuf {
        self.home.join("run").join("aside")
    }

    /// Finds the directory of a session. Blocking.
    pub fn find(&self, id: &SessionId) -> Option<PathBuf> {
        let known = self
            .dirs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned();
        if let Some(dir) = known.filter(|dir| is_session(dir)) {
            return Some(dir);
        }
        // An id names one directory; anything else in it would lead elsewhere.
        if !id.as_str().chars().all(|c| c.is_ascii_alphanumeric()) {
            return None;
        }
        let keys = fs::list_dir(&self.home.join("sessions")).ok()?;
        let dir = keys
            .into_iter()
            .map(|key| key.path.join(id.as_str()))
            .find(|dir| is_session(dir))?;
        self.dirs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), dir.clone());
        Some(dir)
    }

    /// Makes a journal known whose events can be read by offset.
    pub fn opened(&self, id: &SessionId, journal: &Arc<Journal>) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), Arc::downgrade(journal));
    }

    /// A journal is written no more; `gone` where its directory was removed.
    pub fn closed(&self, id: &SessionId, gone: bool) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
        self.pages.forget(id);
        if gone {
            self.dirs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(id);
        }
    }

    /// What journals are written to.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// Notes what lists say of a session, and what it was prompted with since the last note. Blocking.
    pub(super) fn note(&self, dir: &Path, session: &Session, state: Use, prompts: &Prompts) {
        save_cache(&*self.disk, dir, session);
        self.index.note(session, state, prompts);
    }

    fn journal(&self, id: &SessionId) -> Option<Arc<Journal>> {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .and_then(Weak::upgrade)
    }
}

impl EventLog for Store {
    fn read_events(
        &self,
        session: &SessionId,
        after: u64,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Stamped>>, Fault>> {
        let (session, pages) = (session.clone(), self.pages.clone());
        let found = match self.journal(&session) {
            Some(journal) => Some((journal.dir().to_owned(), journal.mark_before(after))),
            None => self.find(&session).map(|dir| (dir, Mark::default())),
        };
        Box::pin(async move {
            let (dir, from) = found.ok_or_else(|| super::not_found(&session))?;
            let wanted = Wanted {
                session,
                dir: dir.clone(),
                from,
                after,
                max_bytes,
            };
            let read = pages.read(wanted).await;
            read.map_err(|error| storage_fault(error, &dir))
        })
    }
}

/// Reads a session from its journal, whatever is open in it being closed in the agent's history. Blocking; changes
/// nothing.
pub fn load(id: &SessionId, dir: &Path) -> Result<Loaded, Fault> {
    load_open(id, dir).map(Loaded::closed)
}

/// Reads a session from its journal. The step of an open turn is not in the agent's history. Blocking; changes nothing.
pub fn load_open(id: &SessionId, dir: &Path) -> Result<Loaded, Fault> {
    Reading::of(id, dir)?.finish(dir)
}

/// What a journal says, taken in line by line.
pub(super) struct Reading {
    pub(super) restore: Restore,
    head: Option<(Session, Option<Arc<str>>, Timestamp)>,
    last: (u64, Timestamp),
    damage: Damage,
    facts: Facts,
    tasks: TaskFacts,
    jobs: Ledger,
    marks: Marks,
    untold: Untold,
    id: SessionId,
}

impl Reading {
    /// Reads the journal of a session. Blocking; changes nothing.
    pub(super) fn of(id: &SessionId, dir: &Path) -> Result<Self, Fault> {
        let mut reading = Self {
            restore: Restore::new(id.clone()),
            head: None,
            last: (0, Timestamp::default()),
            damage: Damage::default(),
            facts: Facts::default(),
            tasks: TaskFacts::default(),
            jobs: Ledger::default(),
            marks: Marks::default(),
            untold: Untold::default(),
            id: id.clone(),
        };
        let mut damage = Damage::default();
        each(dir, &mut damage, |entry| {
            reading.take(entry);
            Flow::On
        })
        .map_err(|error| storage_fault(error, dir))?;
        reading.damage = damage;
        Ok(reading)
    }

    fn take(&mut self, entry: Entry) {
        self.last.1 = self.last.1.max(entry.at);
        self.marks.take(&entry, self.last.0);
        match entry.fact {
            Fact::Created { session, script } => self.head = Some((*session, script, entry.at)),
            Fact::State(StateRecord::Cron(op)) => self.jobs.apply(op, entry.at),
            Fact::State(record) => {
                if let StateRecord::Queued { turn, .. } = &record {
                    self.facts.numbered(turn);
                }
                self.restore.state(record);
            }
            Fact::Event(event) => {
                self.last.0 = entry.seq.unwrap_or(self.last.0);
                self.event(&event, entry.at);
            }
            Fact::Lost { .. } => self.last.0 = entry.seq.unwrap_or(self.last.0),
        }
    }

    /// Takes in an event, as if it stood next in the journal.
    pub(super) fn event(&mut self, event: &DomainEvent, at: Timestamp) {
        self.facts.take(event);
        self.tasks.take(event);
        self.untold.take(&self.jobs, event, at);
        super::fires::replay(&mut self.jobs, event, at);
        self.restore.event(event);
    }

    /// The session. Blocking where the journal has lost its head.
    pub(super) fn finish(self, dir: &Path) -> Result<Loaded, Fault> {
        let Self {
            restore,
            head,
            mut last,
            damage,
            facts,
            tasks,
            jobs,
            marks,
            untold,
            id,
        } = self;
        let Some((mut session, script, created)) = head.or_else(|| head_from_cache(&id, dir))
        else {
            return Err(Fault::new(
                ErrorKind::StorageCorrupt,
                format!("the journal of session {id} has no readable head"),
            ));
        };
        last.1 = last.1.max(created);
        let next_turn = facts.next_turn();
        let mut damage = damage.places;
        damage.retain(|place| !facts.has_told(&place.message));
        let aside = jobs.aside().iter().map(|aside| {
            let message = format!(
                "a cron job could not be read and is kept aside: {} ({})",
                aside.value, aside.reason
            );
            Warning::new("cron", message)
        });
        let is_new = |warning: &Warning| !facts.has_told(&warning.message);
        // Damage that was found explains it.
        let shortened = damage.is_empty().then(|| shortened(&id, dir)).flatten();
        let warnings = aside.chain(shortened).filter(is_new).collect();
        let gone = facts.apply(&mut session);
        session.updated_at = last.1.to_string();
        let (agent, model_state, left) = restore.finish();
        session.usage = agent.usage;
        Ok(Loaded {
            session,
            script,
            agent,
            model_state,
            left,
            last,
            next_turn,
            gone,
            tasks,
            jobs,
            untold,
            damage,
            warnings,
            marks: marks.0,
        })
    }
}

/// Places about [`MARK_BYTES`] apart.
#[derive(Default)]
struct Marks(Vec<Mark>);

impl Marks {
    /// Takes in a line; `last` is the number of the event before it.
    fn take(&mut self, entry: &Entry, last: u64) {
        let is_due = |mark: &Mark| mark.offset + MARK_BYTES <= entry.offset;
        if matches!(entry.fact, Fact::Event(_)) && self.0.last().is_none_or(is_due) {
            let offset = entry.offset;
            self.0.push(Mark { seq: last, offset });
        }
    }
}

/// A stored session as its cache says; as its journal says where the cache is missing, damaged or older. Blocking.
pub(super) fn cached(id: &SessionId, dir: &Path) -> Option<Session> {
    if let Some(cache) = read_cache(id, dir)
        && cache
            .journal_bytes
            .is_some_and(|bytes| Some(bytes) == journal_bytes(dir))
    {
        return Some(Session {
            status: Status::Closed,
            ..cache.session
        });
    }
    if !is_session(dir) {
        return None;
    }
    match load(id, dir) {
        Ok(loaded) => {
            let session = Session {
                status: Status::Closed,
                ..loaded.session
            };
            save_cache(&RealDisk, dir, &session);
            Some(session)
        }
        Err(fault) => {
            tracing::warn!(session = %id, %fault, "session could not be read");
            None
        }
    }
}

/// Takes the lock of a session for as long as the result lives. Blocking.
///
/// # Errors
/// `session_locked` where another process has it.
pub(super) fn lock(dir: &Path, now: Timestamp) -> Result<FileLock, Fault> {
    FileLock::acquire(&dir.join("lock"), &now.to_string()).map_err(|error| match error {
        LockError::Locked { pid, .. } => {
            let by = pid
                .map(|pid| format!(" by process {pid}"))
                .unwrap_or_default();
            let fault = Fault::new(
                ErrorKind::SessionLocked,
                format!("the session is in use{by}; close it there first"),
            );
            match pid {
                Some(pid) => fault.with("pid", pid),
                None => fault,
            }
        }
        LockError::Fs(error) => storage_fault(error, dir),
    })
}

/// The facts of a session as they are kept beside its journal.
#[derive(Serialize, Deserialize)]
struct Cache<S> {
    #[serde(flatten)]
    session: S,
    /// How long the journal was then: a longer one knows more.
    #[serde(default, rename = "journalBytes")]
    journal_bytes: Option<u64>,
}

/// Writes the cache of a session; a failure costs speed only. Blocking.
fn save_cache(disk: &dyn Disk, dir: &Path, session: &Session) {
    let cache = Cache {
        session,
        journal_bytes: journal_bytes(dir),
    };
    let saved = serde_json::to_vec(&cache)
        .map_err(std::io::Error::other)
        .and_then(|bytes| {
            atomic_file::write_on(disk, &dir.join(META), &bytes, fs::Durability::Kernel)
                .map_err(std::io::Error::other)
        });
    if let Err(error) = saved {
        tracing::warn!(dir = %dir.display(), %error, "the cache of a session could not be written");
    }
}

/// What a session began with, where the journal's first line could not be read; its own later changes come again.
fn head_from_cache(id: &SessionId, dir: &Path) -> Option<(Session, Option<Arc<str>>, Timestamp)> {
    let session = read_cache(id, dir)?.session;
    let created = Timestamp::parse(&session.created_at)?;
    Some((session, None, created))
}

/// Whether the journal has lost its end since the session was last noted: whole lines may be missing, which nothing that
/// is left of it tells.
fn shortened(id: &SessionId, dir: &Path) -> Option<Warning> {
    let noted = read_cache(id, dir)?.journal_bytes?;
    let missing = noted.checked_sub(journal_bytes(dir)?)?;
    let message = format!(
        "the journal is {missing} bytes shorter than when the session was last noted ({noted} bytes); what stood there is \
         lost"
    );
    (missing > 0).then(|| Warning::new("journal", message))
}

fn read_cache(id: &SessionId, dir: &Path) -> Option<Cache<Session>> {
    let bytes = atomic_file::read(&dir.join(META)).ok().flatten()?;
    serde_json::from_slice::<Cache<Session>>(&bytes)
        .ok()
        .filter(|cache| cache.session.session_id == *id)
}

fn journal_bytes(dir: &Path) -> Option<u64> {
    fs::metadata(&journal::write::path(dir))
        .ok()
        .map(|meta| meta.len())
}

/// The beginnings of all prompts of a session's conversation. Blocking.
pub(super) fn prompts(dir: &Path) -> Prompts {
    let mut prompts = Conversation::default();
    let read = each(dir, &mut Damage::default(), |entry| {
        if let Fact::Event(event) = &entry.fact {
            prompts.take(event);
            if let DomainEvent::TurnStarted {
                turn,
                origin,
                input,
                ..
            } = event
                && origin.is_from_host()
            {
                prompts.begin(turn, super::prompt(input));
            }
        }
        Flow::On
    });
    if let Err(error) = read {
        tracing::warn!(dir = %dir.display(), %error, "the prompts of a session could not be read");
    }
    Prompts::All(prompts.into_values())
}

fn is_session(dir: &Path) -> bool {
    fs::kind_of(&journal::write::path(dir)) == Some(FileKind::File)
}

/// The directory that holds the sessions of a working directory: readable, and unique by hash.
pub fn cwd_key(real_cwd: &Path) -> String {
    let name = real_cwd.file_name().map_or_else(
        || "root".into(),
        |name| name.to_string_lossy().to_lowercase(),
    );
    let slug: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let hash = Sha256::digest(real_cwd.as_os_str().as_encoded_bytes());
    let hex = hash.iter().take(6).fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("wd_{slug}_{hex}")
}
