//! Making, loading, listing and ending sessions: the door to this layer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::id::{AgentId, SessionId};
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::page::Page;
use longshore_protocol::value::session::{OpenAsks, Session, Status};
use longshore_protocol::value::transcript::Turn;

use super::command::{Parting, SessionHandle, View};
use super::create::CreateOptions;
use super::deps::Deps;
use super::index::Index;
use super::list::{self, ListFilter};
use super::{past, store};
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fault::Fault;
use crate::os::blocking;

/// All sessions of this server. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    pub(super) deps: Arc<Deps>,
}

impl Sessions {
    /// Over these parts.
    pub fn new(deps: Deps) -> Self {
        Self {
            deps: Arc::new(deps),
        }
    }

    /// Makes a session; it is on the disk when this returns.
    ///
    /// # Errors
    /// `invalid_params` for a directory that does not exist, `model_unknown`, storage kinds.
    pub async fn create(&self, options: CreateOptions) -> Result<(SessionHandle, Session), Fault> {
        let deps = self.deps.clone();
        blocking::run(move || deps.create(options)).await
    }

    /// Tells every host of a new session. Call it once the reply to its maker is queued.
    pub fn announce(&self, session: Session) {
        let id = session.session_id.clone();
        let event = DomainEvent::SessionCreated { session };
        self.deps.publish.publish(Stamped::new(
            id,
            AgentId::main(),
            None,
            self.deps.clock.now(),
            event,
        ));
    }

    /// The handle of a session, loading it where it is not.
    ///
    /// # Errors
    /// `session_not_found`, `session_locked` where another process has it, storage kinds.
    pub async fn open(&self, id: &SessionId) -> Result<SessionHandle, Fault> {
        if let Some(handle) = self.loaded(id) {
            return Ok(handle);
        }
        let passed = self.deps.loaded.turnstile(id).lock_owned().await;
        if let Some(handle) = self.loaded(id) {
            return Ok(handle);
        }
        let (deps, id) = (self.deps.clone(), id.clone());
        blocking::run(move || {
            // The next one waits until the session is loaded, whether or not anybody still waits for this one.
            let _passed = passed;
            deps.resume(&id)
        })
        .await
    }

    /// The handle of a session that is loaded.
    pub fn loaded(&self, id: &SessionId) -> Option<SessionHandle> {
        self.deps.loaded.lock().get(id).cloned()
    }

    /// One page of the stored sessions, the newest first.
    ///
    /// # Errors
    /// `invalid_params` for a cursor that is none of ours.
    pub async fn list(&self, filter: ListFilter) -> Result<Page<Session>, Fault> {
        let start = filter
            .cursor
            .as_deref()
            .map(list::read_cursor)
            .transpose()?;
        let handles: Vec<SessionHandle> = self.deps.loaded.lock().values().cloned().collect();
        let mut loaded = HashMap::with_capacity(handles.len());
        for handle in handles {
            // One that is being closed is listed as it was noted.
            if let Ok(view) = handle.view().await {
                loaded.insert(handle.id().clone(), view.session);
            }
        }
        if filter.ephemeral {
            return Ok(Index::page_of_ephemeral(&loaded, &filter, start.as_ref()));
        }
        let (store, now) = (self.deps.store.clone(), self.deps.clock.now());
        Ok(blocking::run(move || store.index.page(&loaded, &filter, start.as_ref(), now)).await)
    }

    /// A session as it is, without loading it.
    ///
    /// # Errors
    /// `session_not_found`, storage kinds.
    pub async fn view(&self, id: &SessionId) -> Result<View, Fault> {
        if let Some(handle) = self.loaded(id) {
            return handle.view().await;
        }
        let (store, id) = (self.deps.store.clone(), id.clone());
        blocking::run(move || {
            let dir = store.find(&id).ok_or_else(|| super::not_found(&id))?;
            let loaded = store::load(&id, &dir)?;
            let session = Session {
                status: Status::Closed,
                ..loaded.session
            };
            let context = (loaded.agent.context.tokens(), 0);
            Ok(View {
                session,
                last_seq: loaded.last.0,
                running: None,
                queued: Vec::new(),
                context,
                n_jobs: loaded.jobs.jobs().len(),
                gone: Arc::new(loaded.gone),
                n_tasks: 0,
                n_notices: 0,
                warnings: Arc::default(),
            })
        })
        .await
    }

    /// The asks that are open in a session that is not loaded: they wait for it to be.
    ///
    /// # Errors
    /// `session_not_found`, storage kinds.
    pub async fn stored_asks(&self, id: &SessionId) -> Result<OpenAsks, Fault> {
        let (store, id) = (self.deps.store.clone(), id.clone());
        blocking::run(move || {
            let dir = store.find(&id).ok_or_else(|| super::not_found(&id))?;
            let left = store::load_open(&id, &dir)?.left;
            if !left.waits_for_person() {
                return Ok(OpenAsks::default());
            }
            Ok(OpenAsks {
                approvals: left.approvals,
                questions: left.questions,
            })
        })
        .await
    }

    /// One page of a session's turns: the newest first to fetch, the oldest first in the page.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_params` for a cursor that is none of ours, storage kinds.
    pub async fn transcript(
        &self,
        id: &SessionId,
        cursor: Option<String>,
        limit: Option<u32>,
    ) -> Result<Page<Turn>, Fault> {
        past::page(&self.deps.store, id, cursor, limit).await
    }

    /// Cancels what runs in a session, puts it on the disk and unloads it. Nothing where it is not loaded.
    pub async fn close(&self, id: &SessionId) -> Result<(), Fault> {
        if let Some(handle) = self.loaded(id) {
            return handle.close().await;
        }
        let (store, id) = (self.deps.store.clone(), id.clone());
        blocking::run(move || {
            store
                .find(&id)
                .map(drop)
                .ok_or_else(|| super::not_found(&id))
        })
        .await
    }

    /// The models.
    pub fn models(&self) -> Vec<ModelInfo> {
        self.deps.models.models()
    }

    /// The model that new sessions get.
    pub fn default_model(&self) -> Option<String> {
        self.deps.config.default_model.clone()
    }

    /// Whether a model could be used now, as far as can be said without asking its provider.
    ///
    /// # Errors
    /// `model_unknown`, `model_not_configured` with what to write where.
    pub fn check_model(&self, alias: &str) -> Result<(), Fault> {
        self.deps.models.get(alias).map(|_| ())
    }

    /// The model that new sessions get, where it could be used now.
    ///
    /// # Errors
    /// See [`Sessions::check_model`]; `config_invalid` where the configuration can't be read.
    pub fn check_default_model(&self) -> Result<String, Fault> {
        self.deps.check_config()?;
        let alias = self.deps.models.default_alias()?;
        self.check_model(alias).map(|()| alias.to_owned())
    }

    /// Sessions that are loaded.
    pub fn loaded_count(&self) -> usize {
        self.deps.loaded.lock().len()
    }

    /// Turns that run.
    pub fn running_count(&self) -> usize {
        self.deps.running.count()
    }

    /// Closes every session side by side, within a deadline; what is not done then is said in the log.
    pub async fn shutdown(&self, within: Duration) {
        let deadline = tokio::time::Instant::now() + within;
        self.deps.cron.stop();
        let handles: Vec<SessionHandle> = self.deps.loaded.lock().values().cloned().collect();
        let parting = if self.deps.leaves_turns {
            Parting::Keep
        } else {
            Parting::End
        };
        let closing = handles.iter().map(|handle| handle.part(parting));
        let closing = futures::future::join_all(closing);
        if tokio::time::timeout_at(deadline, closing).await.is_err() {
            tracing::error!(?within, "not every session could be closed in time");
        }
        self.deps.tasks.close();
        if tokio::time::timeout_at(deadline, self.deps.tasks.wait())
            .await
            .is_err()
        {
            tracing::error!("not every task ended in time");
        }
    }
}
