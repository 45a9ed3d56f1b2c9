//! Sessions: made, opened again, listed, configured, closed and removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    CloseSessionRequest, CloseSessionResponse, ContentBlock, DeleteSessionRequest,
    DeleteSessionResponse, ForkSessionRequest, ForkSessionResponse, ListSessionsRequest,
    ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, NewSessionRequest,
    NewSessionResponse, NoticeSeverity, ResumeSessionRequest, ResumeSessionResponse, SessionInfo,
    SessionUpdate, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse, SystemPrompt, UsageUpdate,
};
use longshore_protocol::error::{ErrorKind, RpcError};
use longshore_protocol::id::SessionId;
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::session::{Session, SessionPatch};
use serde_json::{Map, Value, json};

use super::host::Host;
use super::options::{self, Settings, choose, config_options, modes};
use super::params::{self, McpServers, take_mcp_servers};
use super::project::{Projection, chunk, notice};
use super::service::reply;
use super::{Conn, Open, auth, error};
use crate::hub::Attaching;
use crate::kernel::fault::Fault;
use crate::kernel::port::HostConn as _;
use crate::os::blocking;
use crate::os::fs::{self, FileKind};
use crate::rpc::Reply;
use crate::session::CreateOptions;
use crate::session::fork::ForkOptions;
use crate::session::list::ListFilter;
use crate::session::{SessionHandle, View};

/// What a session is opened with.
struct Opening {
    cwd: PathBuf,
    dirs: Vec<PathBuf>,
    servers: McpServers,
}

impl Opening {
    fn new(cwd: PathBuf, dirs: Vec<PathBuf>, servers: McpServers) -> Result<Self, RpcError> {
        if !cwd.is_absolute() {
            return Err(error::invalid(
                "/cwd",
                format!("{}: the path is not absolute.", cwd.display()),
            ));
        }
        for (n, dir) in dirs.iter().enumerate() {
            if !dir.is_absolute() {
                let path = format!("/additionalDirectories/{n}");
                return Err(error::invalid(
                    &path,
                    format!("{}: the path is not absolute.", dir.display()),
                ));
            }
        }
        Ok(Self {
            cwd: tidy(&cwd),
            dirs: dirs.iter().map(|dir| tidy(dir)).collect(),
            servers,
        })
    }
}

/// A path without doubled and trailing separators.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Own system prompts are not served, so one must not be dropped in silence.
fn no_system_prompt(prompt: Option<&SystemPrompt>) -> Result<(), RpcError> {
    match prompt {
        None => Ok(()),
        Some(_) => Err(error::invalid(
            "/systemPrompt",
            "This agent does not take a system prompt.",
        )),
    }
}

pub(super) async fn new(
    conn: Arc<Conn>,
    mut members: Map<String, Value>,
) -> Result<Reply, RpcError> {
    let servers = take_mcp_servers(&mut members)?;
    let request: NewSessionRequest = params::read(members)?;
    no_system_prompt(request.system_prompt.as_ref())?;
    let opening = Opening::new(request.cwd, request.additional_directories, servers)?;
    let sessions = &conn.deps.sessions;
    auth::check(sessions, sessions.default_model().as_deref())?;
    let options = CreateOptions {
        cwd: opening.cwd,
        additional_dirs: opening.dirs,
        ..CreateOptions::default()
    };
    let (handle, _) = sessions.create(options).await.map_err(fault)?;
    let shown = Shown::begin(&conn, handle, History::Skip).await?;
    let settings = Settings::of(&shown.view.session);
    let result = NewSessionResponse::new(shown.id().as_str().to_owned())
        .modes(modes(&settings))
        .config_options(config_options(&settings, &shown.models));
    Ok(shown.answer(&conn, Ok(result), opening.servers))
}

pub(super) async fn load(
    conn: Arc<Conn>,
    mut members: Map<String, Value>,
) -> Result<Reply, RpcError> {
    let servers = take_mcp_servers(&mut members)?;
    let request: LoadSessionRequest = params::read(members)?;
    no_system_prompt(request.system_prompt.as_ref())?;
    let opening = Opening::new(request.cwd, request.additional_directories, servers)?;
    let shown = open(&conn, &request.session_id.0, &opening, History::Replay).await?;
    let settings = Settings::of(&shown.view.session);
    let result = LoadSessionResponse::new()
        .modes(modes(&settings))
        .config_options(config_options(&settings, &shown.models));
    Ok(shown.answer(&conn, Ok(result), opening.servers))
}

pub(super) async fn resume(
    conn: Arc<Conn>,
    mut members: Map<String, Value>,
) -> Result<Reply, RpcError> {
    let servers = take_mcp_servers(&mut members)?;
    let request: ResumeSessionRequest = params::read(members)?;
    no_system_prompt(request.system_prompt.as_ref())?;
    let opening = Opening::new(request.cwd, request.additional_directories, servers)?;
    let shown = open(&conn, &request.session_id.0, &opening, History::Skip).await?;
    let settings = Settings::of(&shown.view.session);
    let result = ResumeSessionResponse::new()
        .modes(modes(&settings))
        .config_options(config_options(&settings, &shown.models));
    Ok(shown.answer(&conn, Ok(result), opening.servers))
}

/// Makes a session from another one, which may be running.
pub(super) async fn fork(
    conn: Arc<Conn>,
    mut members: Map<String, Value>,
) -> Result<Reply, RpcError> {
    let servers = take_mcp_servers(&mut members)?;
    if members.get("cursorId").is_some_and(|id| !id.is_null()) {
        return Err(error::invalid(
            "/cursorId",
            "This agent gives out no cursors.",
        ));
    }
    let request: ForkSessionRequest = params::read(members)?;
    no_system_prompt(request.system_prompt.as_ref())?;
    let opening = Opening::new(request.cwd, request.additional_directories, servers)?;
    let sessions = &conn.deps.sessions;
    let of = SessionId::from(&*request.session_id.0);
    let stored = sessions.view(&of).await.map_err(fault)?.session;
    auth::check(
        sessions,
        stored.model.or_else(|| sessions.default_model()).as_deref(),
    )?;
    let options = ForkOptions {
        cwd: Some(opening.cwd),
        additional_dirs: Some(opening.dirs),
        ..ForkOptions::default()
    };
    let (handle, _) = sessions.fork(&of, options).await.map_err(fault)?;
    let shown = Shown::begin(&conn, handle, History::Skip).await?;
    let settings = Settings::of(&shown.view.session);
    let result = ForkSessionResponse::new(shown.id().as_str().to_owned())
        .modes(modes(&settings))
        .config_options(config_options(&settings, &shown.models));
    Ok(shown.answer(&conn, Ok(result), opening.servers))
}

/// Opens a stored session.
async fn open(
    conn: &Arc<Conn>,
    id: &str,
    opening: &Opening,
    history: History,
) -> Result<Shown, RpcError> {
    let sessions = &conn.deps.sessions;
    let id = SessionId::from(id);
    let stored = sessions.view(&id).await.map_err(fault)?.session;
    same_dir(&stored, &opening.cwd).await?;
    // A session from before a model was configured gets the one that is configured now.
    let model = stored.model.clone().or_else(|| sessions.default_model());
    auth::check(sessions, model.as_deref())?;
    let handle = sessions.open(&id).await.map_err(fault)?;
    let dirs: Vec<String> = opening
        .dirs
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    let changes = SessionPatch {
        model: model.filter(|_| stored.model.is_none()),
        additional_dirs: Some(dirs).filter(|dirs| *dirs != stored.additional_dirs),
        ..SessionPatch::default()
    };
    if changes != SessionPatch::default() {
        handle.set(changes).await.map_err(fault)?;
    }
    Shown::begin(conn, handle, history).await
}

/// The directory must be the one the session was made in, by whatever path.
async fn same_dir(session: &Session, cwd: &Path) -> Result<(), RpcError> {
    let (own, wanted) = (PathBuf::from(&session.cwd), cwd.to_owned());
    let is_same = own == wanted
        || blocking::run(move || {
            let real = |path: &Path| fs::real_path(path).ok();
            fs::kind_of(&wanted) == Some(FileKind::Dir)
                && real(&own).is_some()
                && real(&own) == real(&wanted)
        })
        .await;
    if is_same {
        return Ok(());
    }
    let message = format!(
        "The session works in {}, not in {}.",
        session.cwd,
        cwd.display()
    );
    Err(error::invalid("/cwd", message).with("expected", session.cwd.as_str()))
}

/// Whether what has happened so far is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum History {
    Replay,
    Skip,
}

/// A session that is about to be shown to the client.
struct Shown {
    handle: SessionHandle,
    host: Arc<Host>,
    view: View,
    models: Arc<[ModelInfo]>,
    /// Absent where the client sees the session already, and goes on seeing it.
    attaching: Option<Attaching>,
    history: History,
}

impl Shown {
    async fn begin(
        conn: &Arc<Conn>,
        handle: SessionHandle,
        history: History,
    ) -> Result<Self, RpcError> {
        let host = Arc::clone(conn.host()?);
        let is_shown = conn.opened(handle.id().as_str()).is_ok();
        let attaching = if is_shown && history == History::Skip {
            None
        } else {
            // What is shown already is shown anew, from the beginning.
            conn.deps.hub.detach(host.id(), handle.id());
            let attaching = conn.deps.hub.attach(host.id(), handle.id());
            let ending = || error::error(ErrorKind::InternalError, "The connection is ending.");
            Some(attaching.ok_or_else(ending)?)
        };
        // Attached before the look at the session, so that nothing in between is missed.
        let view = handle.view().await.map_err(fault)?;
        let models = conn.deps.sessions.models().into();
        Ok(Self {
            handle,
            host,
            view,
            models,
            attaching,
            history,
        })
    }

    fn id(&self) -> &SessionId {
        self.handle.id()
    }

    /// The reply, and the order of everything around it: history before, everything else after.
    fn answer<T: serde::Serialize>(
        self,
        conn: &Arc<Conn>,
        result: Result<T, RpcError>,
        servers: McpServers,
    ) -> Reply {
        let Self {
            handle,
            host,
            view,
            models,
            attaching,
            history,
        } = self;
        let id = handle.id().clone();
        let (used, size) = view.context;
        let shown = id.clone();
        let after = move |host: &Host| {
            if used > 0 && size > 0 {
                let usage = UsageUpdate::new(used.min(size), size);
                host.send(&shown, SessionUpdate::UsageUpdate(usage));
            }
            tell_unconnected(host, &shown, &servers);
        };
        let reply = reply(result);
        let Some(attaching) = attaching else {
            return reply.after(move || after(&host));
        };
        let last_seq = view.last_seq;
        let (cursor, replay_until) = match history {
            History::Replay => (0, last_seq),
            History::Skip => (last_seq, 0),
        };
        let mut projection = Projection::new(
            host.caps(),
            Arc::clone(&models),
            &view.session,
            replay_until,
        );
        projection.without(view.gone.clone());
        for approval in conn.deps.hub.open_asks(&id).approvals {
            projection.asked(approval.tool_call_id);
        }
        let opened = host.show(id, projection);
        let door = handle.door().clone();
        conn.add(handle, models);
        match history {
            History::Replay => {
                // The place in the queue is taken here, before the reply gets its own.
                attaching.go(cursor, last_seq);
                reply.after(move || {
                    opened.cancel();
                    after(&host);
                    door.look();
                })
            }
            History::Skip => reply.after(move || {
                opened.cancel();
                attaching.go(cursor, last_seq);
                after(&host);
                door.look();
            }),
        }
    }
}

/// Servers the client wants connected are not, and it is told so.
fn tell_unconnected(host: &Host, id: &SessionId, servers: &McpServers) {
    if servers.names.is_empty() {
        return;
    }
    let names = servers.names.join(", ");
    let update = if host.caps().notices {
        notice(
            NoticeSeverity::Warning,
            "MCP servers are not connected",
            Some(&format!("This agent does not connect: {names}")),
        )
    } else {
        let words = format!("MCP servers are not connected by this agent: {names}");
        SessionUpdate::AgentThoughtChunk(chunk(ContentBlock::from(words), "mcp-servers"))
    };
    host.send(id, update);
}

pub(super) async fn list(
    conn: &Arc<Conn>,
    members: Map<String, Value>,
) -> Result<ListSessionsResponse, RpcError> {
    let request: ListSessionsRequest = params::read(members)?;
    if let Some(cwd) = &request.cwd
        && !cwd.is_absolute()
    {
        return Err(error::invalid(
            "/cwd",
            format!("{}: the path is not absolute.", cwd.display()),
        ));
    }
    let filter = ListFilter {
        cwd: request.cwd.map(|cwd| tidy(&cwd).display().to_string()),
        cursor: request.cursor,
        ..ListFilter::default()
    };
    let page = conn.deps.sessions.list(filter).await.map_err(fault)?;
    let sessions = page.items.into_iter().map(|session| {
        SessionInfo::new(session.session_id.as_str().to_owned(), session.cwd)
            .additional_directories(
                session
                    .additional_dirs
                    .into_iter()
                    .map(PathBuf::from)
                    .collect(),
            )
            .title(Some(session.title).filter(|title| !title.is_empty()))
            .updated_at(session.updated_at)
    });
    Ok(ListSessionsResponse::new(sessions.collect()).next_cursor(page.next_cursor))
}

pub(super) async fn close(
    conn: &Arc<Conn>,
    members: Map<String, Value>,
) -> Result<CloseSessionResponse, RpcError> {
    let request: CloseSessionRequest = params::read(members)?;
    let id = SessionId::from(&*request.session_id.0);
    end(conn, &id).await?;
    Ok(CloseSessionResponse::new())
}

pub(super) async fn delete(
    conn: &Arc<Conn>,
    members: Map<String, Value>,
) -> Result<DeleteSessionResponse, RpcError> {
    let request: DeleteSessionRequest = params::read(members)?;
    let id = SessionId::from(&*request.session_id.0);
    end(conn, &id).await?;
    conn.deps.sessions.delete(&id).await.map_err(fault)?;
    Ok(DeleteSessionResponse::new())
}

/// Ends what runs in a session and unloads it. Its prompts have their answers before this returns.
async fn end(conn: &Arc<Conn>, id: &SessionId) -> Result<(), RpcError> {
    let Some(open) = conn.remove(id) else {
        return Ok(());
    };
    open.lane.cancel_all();
    let closed = open.handle.close().await;
    open.lane.empty().await;
    let host = conn.host()?;
    conn.deps.hub.detach(host.id(), id);
    host.hide(id);
    match closed {
        Err(fault) if fault.kind != ErrorKind::SessionNotFound => Err(error::from_fault(&fault)),
        _ => Ok(()),
    }
}

pub(super) async fn set_mode(
    conn: Arc<Conn>,
    request: SetSessionModeRequest,
) -> Result<Reply, RpcError> {
    let open = conn.opened(&request.session_id.0)?;
    let mode = options::mode_of(&request.mode_id.0, "/modeId")?;
    let settings = settings(&open).await?;
    let changes = SessionPatch {
        mode: Some(mode).filter(|mode| *mode != settings.mode),
        ..SessionPatch::default()
    };
    let (_, updates) = change(&conn, &open, settings, changes).await?;
    Ok(updates.follow(reply(Ok(SetSessionModeResponse::new()))))
}

pub(super) async fn set_config_option(
    conn: Arc<Conn>,
    members: Map<String, Value>,
) -> Result<Reply, RpcError> {
    let request: SetSessionConfigOptionRequest = params::read(members)?;
    let open = conn.opened(&request.session_id.0)?;
    let settings = settings(&open).await?;
    let changes = choose(
        &settings,
        &open.models,
        &request.config_id.0,
        &request.value,
    )?;
    let (settings, updates) = change(&conn, &open, settings, changes).await?;
    let result = SetSessionConfigOptionResponse::new(config_options(&settings, &open.models));
    Ok(updates.follow(reply(Ok(result))))
}

/// A method of earlier versions that some clients still call.
pub(super) async fn set_model(
    conn: Arc<Conn>,
    members: Map<String, Value>,
) -> Result<Reply, RpcError> {
    let member = |name: &str| {
        let text = members.get(name).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| error::invalid(&format!("/{name}"), format!("{name} must be a string.")))
    };
    let (id, model) = (member("sessionId")?, member("modelId")?);
    let request = SetSessionConfigOptionRequest::new(id, options::MODEL, options::value(model));
    let open = conn.opened(&request.session_id.0)?;
    let settings = settings(&open).await?;
    let changes = choose(&settings, &open.models, options::MODEL, &request.value)
        .map_err(|error| error::invalid("/modelId", error.message))?;
    let (_, updates) = change(&conn, &open, settings, changes).await?;
    Ok(updates.follow(reply(Ok(json!({})))))
}

async fn settings(open: &Open) -> Result<Settings, RpcError> {
    Ok(Settings::of(
        &open.handle.view().await.map_err(fault)?.session,
    ))
}

/// Updates that follow an answer.
struct Follow {
    host: Arc<Host>,
    session: SessionId,
    updates: Vec<SessionUpdate>,
}

impl Follow {
    fn follow(self, reply: Reply) -> Reply {
        reply.after(move || {
            for update in self.updates {
                self.host.send(&self.session, update);
            }
        })
    }
}

/// Changes a session's settings; nothing is done where nothing changes. The updates come after the answer.
async fn change(
    conn: &Arc<Conn>,
    open: &Open,
    mut settings: Settings,
    changes: SessionPatch,
) -> Result<(Settings, Follow), RpcError> {
    let (host, session) = (Arc::clone(conn.host()?), open.handle.id().clone());
    let mut updates = Vec::new();
    if settings.apply(&changes) {
        host.with(&session, |projection| {
            projection.own_change(changes.clone());
        });
        match open.handle.set(changes.clone()).await {
            Ok(session) => settings = Settings::of(&session),
            Err(refused) => {
                host.with(&session, |projection| projection.not_changed(&changes));
                return Err(match refused.kind {
                    // It is in the list, but not usable: the list is what it should have been taken from.
                    ErrorKind::ModelNotConfigured => error::invalid("/value", refused.message),
                    _ => fault(refused),
                });
            }
        }
        updates = super::project::settings_updates(&settings, &open.models, &changes);
    }
    Ok((
        settings,
        Follow {
            host,
            session,
            updates,
        },
    ))
}

fn fault(fault: Fault) -> RpcError {
    error::from_fault(&fault)
}
