//! Making sessions.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::session::{Mode, Session, Status};
use longshore_protocol::value::usage::Usage;

use super::actor::{Actor, Parts};
use super::command::SessionHandle;
use super::cron::check_zone;
use super::deps::Deps;
use super::index::{Prompts, Use};
use super::journal::write::Journal;
use super::journal::{mend, storage_fault};
use super::store;
use super::tasks::TaskFacts;
use crate::agent::Agent;
use crate::agent::open::Left;
use crate::cron::ledger::Ledger;
use crate::kernel::fault::Fault;
use crate::os::fs::{self, FileKind};

/// What a new session is made of.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Absolute, an existing directory.
    pub cwd: PathBuf,
    /// Likewise.
    pub additional_dirs: Vec<PathBuf>,
    /// By alias; the configured default where absent.
    pub model: Option<String>,
    /// Thinking effort.
    pub thinking: Option<String>,
    /// The configured default where absent.
    pub mode: Option<Mode>,
    /// The beginning of the first input where absent.
    pub title: Option<String>,
    /// Nothing is kept after it ends.
    pub ephemeral: bool,
    /// The host's own data.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// No person is there.
    pub unattended: bool,
    /// An IANA time zone; the machine's where absent.
    pub timezone: Option<String>,
    /// A script for scripted models.
    pub script: Option<String>,
}

impl Deps {
    /// Makes a session; it is on the disk when this returns. Blocking.
    pub(super) fn create(
        self: &Arc<Self>,
        options: CreateOptions,
    ) -> Result<(SessionHandle, Session), Fault> {
        let cwd = check_dir(&options.cwd.to_string_lossy(), "/cwd")?;
        for dir in &options.additional_dirs {
            check_dir(&dir.to_string_lossy(), "/additionalDirs")?;
        }
        let model = options.model.or_else(|| self.config.default_model.clone());
        if let Some(model) = &model {
            self.check_model(model)?;
        }
        let timezone = options.timezone.as_deref().map(check_zone).transpose()?;
        let id = SessionId::from(self.ids.ulid());
        let now = self.clock.now();
        let session = Session {
            session_id: id.clone(),
            title: options.title.unwrap_or_default(),
            cwd: options.cwd.to_string_lossy().into_owned(),
            additional_dirs: options
                .additional_dirs
                .iter()
                .map(|dir| dir.display().to_string())
                .collect(),
            model,
            thinking: options
                .thinking
                .or_else(|| self.config.thinking_effort.clone()),
            mode: options.mode.unwrap_or(self.config.default_permission_mode),
            status: Status::Idle,
            created_at: now.to_string(),
            updated_at: now.to_string(),
            last_prompt: None,
            turn_count: 0,
            usage: Usage::default(),
            ephemeral: options.ephemeral,
            archived: false,
            metadata: options.metadata,
            unattended: options.unattended,
            timezone,
            parent_session_id: None,
        };
        let dir = self.store.new_dir(&id, &cwd, options.ephemeral);
        let made = self.make(&dir, &session, options.script.map(Into::into));
        let parts = made.inspect_err(|_| {
            // Half a session is none: nothing of it is to be found later.
            if let Err(error) = fs::remove_tree(&dir) {
                tracing::warn!(%error, "what was made of a session could not be removed");
            }
            self.store.closed(&id, true);
        })?;
        Ok((Actor::begin(self, parts), session))
    }

    fn make(
        &self,
        dir: &Path,
        session: &Session,
        script: Option<Arc<str>>,
    ) -> Result<Parts, Fault> {
        let (id, now) = (&session.session_id, self.clock.now());
        fs::create_private_dirs(dir).map_err(|error| storage_fault(error, dir))?;
        let lock = store::lock(dir, now)?;
        let (log, _) = mend::open(dir, self.store.disk(), now)?;
        let journal = Arc::new(Journal::new(self.opening(id, dir, &lock)?, log, now));
        journal.head(session, script.clone())?;
        if !session.ephemeral {
            journal.sync_blocking()?;
            self.store
                .note(dir, session, Use::Open, &Prompts::More(vec![]));
        }
        let (session, agent) = (session.clone(), Agent::new(id.clone()));
        Ok(Parts {
            session,
            script,
            agent,
            journal,
            lock,
            dir: dir.to_owned(),
            next_turn: 1,
            tasks: TaskFacts::default(),
            jobs: Ledger::default(),
            left: Left::default(),
            gone: HashSet::new(),
            warnings: Vec::new(),
        })
    }
}

/// Checks a directory that a host named and gives it with links resolved.
pub(super) fn check_dir(dir: &str, field: &str) -> Result<PathBuf, Fault> {
    let path = Path::new(dir);
    let refused = |why: &str| {
        Fault::new(ErrorKind::InvalidParams, format!("{dir}: {why}"))
            .with("path", field)
            .with("expected", "an absolute path of a directory that exists")
    };
    if !path.is_absolute() {
        return Err(refused("the path is not absolute"));
    }
    match fs::kind_of(path) {
        Some(FileKind::Dir) => fs::real_path(path).map_err(|error| refused(&error.to_string())),
        Some(_) => Err(refused("this is not a directory")),
        None => Err(refused("there is no such directory")),
    }
}
