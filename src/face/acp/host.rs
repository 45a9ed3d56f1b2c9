//! The client as one host of the hub: events become lines for it, asks become requests to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol_schema::v1::{SessionNotification, SessionUpdate};
use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::id::{HostId, SessionId, ToolCallId};
use longshore_protocol::value::approval::ApprovalRequest;
use longshore_protocol::value::question::{QuestionAnswer, QuestionRequest};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::client::Caps;
use super::files;
use super::permission::{self, Outcome};
use super::project::Projection;
use super::question;
use crate::kernel::ask::{Ask, AskAnswer, HostRefusal};
use crate::kernel::event::Stamped;
use crate::kernel::host_fs::HostFsError;
use crate::kernel::port::{HostAbilities, HostConn};
use crate::rpc::{PeerHandle, RequestFailure};

/// The notification that carries updates.
pub(super) const UPDATE: &str = "session/update";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// The client.
pub(super) struct Host {
    id: HostId,
    caps: Caps,
    peer: PeerHandle,
    sessions: Mutex<HashMap<SessionId, Shown>>,
}

/// A session that is shown.
struct Shown {
    projection: Projection,
    /// Fires once the answer that opens the session has its place: nothing is asked before.
    opened: CancellationToken,
}

impl Host {
    /// A client that has been initialized.
    pub(super) fn new(id: HostId, caps: Caps, peer: PeerHandle) -> Self {
        Self {
            id,
            caps,
            peer,
            sessions: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Shown>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client can do.
    pub(super) fn caps(&self) -> Caps {
        self.caps
    }

    /// Begins to show a session, in place of what was shown of it before. Nothing is asked in it until the token fires.
    pub(super) fn show(&self, session: SessionId, projection: Projection) -> CancellationToken {
        let opened = CancellationToken::new();
        let shown = Shown {
            projection,
            opened: opened.clone(),
        };
        self.lock().insert(session, shown);
        opened
    }

    /// Ends that.
    pub(super) fn hide(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    /// Uses the projection of a session that is shown.
    pub(super) fn with<T>(
        &self,
        session: &SessionId,
        work: impl FnOnce(&mut Projection) -> T,
    ) -> Option<T> {
        self.lock()
            .get_mut(session)
            .map(|shown| work(&mut shown.projection))
    }

    /// Notes that a call is asked about. Gives what fires when its session has been opened.
    fn asked(&self, session: &SessionId, call: &ToolCallId) -> CancellationToken {
        let mut sessions = self.lock();
        let Some(shown) = sessions.get_mut(session) else {
            // It is asked in sessions that are shown only; an ask that comes in between is answered like any other.
            let opened = CancellationToken::new();
            opened.cancel();
            return opened;
        };
        shown.projection.asked(call.clone());
        shown.opened.clone()
    }

    /// Puts a request about a file once its session has been opened; one that is not shown is not the client's.
    fn once_opened<T>(
        &self,
        session: &SessionId,
        request: impl Future<Output = Result<T, HostFsError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, HostFsError>> {
        let opened = self.lock().get(session).map(|shown| shown.opened.clone());
        async move {
            let Some(opened) = opened else {
                return Err(HostFsError::Left);
            };
            opened.cancelled().await;
            request.await
        }
        .boxed()
    }

    /// Queues an update of a session.
    pub(super) fn send(&self, session: &SessionId, update: SessionUpdate) {
        if let Err(error) = self.peer.notify(UPDATE, &Params::new(session, update)) {
            tracing::error!(?error, "an update could not be written");
        }
    }
}

impl HostConn for Host {
    fn id(&self) -> &HostId {
        &self.id
    }

    fn abilities(&self) -> HostAbilities {
        // Permission requests are part of what every client does, and questions can be asked by them.
        HostAbilities {
            approvals: true,
            questions: true,
            fs: self.caps.fs,
        }
    }

    fn ask(&self, ask: Arc<Ask>) -> BoxFuture<'static, Result<AskAnswer, HostRefusal>> {
        match &*ask {
            Ask::Approval(approval) => {
                let opened = self.asked(&approval.session_id, &approval.tool_call_id);
                let (peer, approval) = (self.peer.clone(), approval.clone());
                let request = permission::request(&approval);
                // Where it can be, it is queued here, so that its place is behind everything that came before it.
                let first = opened
                    .is_cancelled()
                    .then(|| peer.start_request(permission::METHOD, &request));
                async move {
                    let pending = if let Some(pending) = first {
                        pending
                    } else {
                        opened.cancelled().await;
                        peer.start_request(permission::METHOD, &request)
                    };
                    let answer = match pending {
                        Ok(pending) => pending.await,
                        Err(failure) => Err(failure),
                    };
                    approved(&approval, answer)
                }
                .boxed()
            }
            Ask::Question(asked) => {
                let opened = self.asked(&asked.session_id, &asked.tool_call_id);
                let (peer, asked, by_form) = (self.peer.clone(), asked.clone(), self.caps.forms);
                async move {
                    opened.cancelled().await;
                    questions(peer, asked, by_form).await
                }
                .boxed()
            }
        }
    }

    fn read_text(
        &self,
        session: &SessionId,
        path: &str,
    ) -> BoxFuture<'static, Result<String, HostFsError>> {
        let read = files::read(self.peer.clone(), session.clone(), path.to_owned());
        self.once_opened(session, read)
    }

    fn write_text(
        &self,
        session: &SessionId,
        path: &str,
        text: String,
    ) -> BoxFuture<'static, Result<(), HostFsError>> {
        let write = files::write(self.peer.clone(), session.clone(), path.to_owned(), text);
        self.once_opened(session, write)
    }

    fn project(&self, event: &Stamped, out: &mut Vec<u8>) {
        let Some(updates) = self.with(&event.session, |projection| projection.project(event))
        else {
            return;
        };
        for update in updates {
            line(&event.session, update, out);
        }
    }

    fn project_resync(&self, _: &SessionId, _: u64, _: &mut Vec<u8>) {
        // The wire has no word for it, and needs none: what was dropped comes with the complete items.
    }
}

#[derive(Serialize)]
struct Line {
    jsonrpc: &'static str,
    method: &'static str,
    params: Params,
}

/// Params of an update.
#[derive(Serialize)]
#[serde(untagged)]
enum Params {
    Typed(Box<SessionNotification>),
    /// With members that the types leave out because they have their default.
    Whole(Value),
}

impl Params {
    fn new(session: &SessionId, update: SessionUpdate) -> Self {
        let is_call = matches!(update, SessionUpdate::ToolCall(_));
        let typed = SessionNotification::new(session.as_str().to_owned(), update);
        if !is_call {
            return Self::Typed(Box::new(typed));
        }
        // Some clients do not know the default of a call's status.
        match serde_json::to_value(&typed) {
            Ok(mut whole) => {
                if whole["update"]["status"].is_null() {
                    whole["update"]["status"] = Value::from("pending");
                }
                Self::Whole(whole)
            }
            Err(_) => Self::Typed(Box::new(typed)),
        }
    }
}

fn line(session: &SessionId, update: SessionUpdate, out: &mut Vec<u8>) {
    let before = out.len();
    let params = Params::new(session, update);
    match serde_json::to_writer(
        &mut *out,
        &Line {
            jsonrpc: "2.0",
            method: UPDATE,
            params,
        },
    ) {
        Ok(()) => out.push(b'\n'),
        Err(error) => {
            out.truncate(before);
            tracing::error!(%error, "an update could not be written");
        }
    }
}

type Answered = Result<Box<RawValue>, RequestFailure>;

fn approved(ask: &ApprovalRequest, answered: Answered) -> Result<AskAnswer, HostRefusal> {
    let outcome = match answered {
        Ok(answer) => permission::outcome(&answer),
        Err(failure) => refusal(failure)?,
    };
    Ok(AskAnswer::Approval(permission::answer(ask, &outcome)))
}

/// An error is an answer that approves nothing, unless the client can't be asked at all.
fn refusal(failure: RequestFailure) -> Result<Outcome, HostRefusal> {
    match failure {
        RequestFailure::Closed => Err(HostRefusal::Left),
        RequestFailure::Refused(error) if error.code == METHOD_NOT_FOUND => {
            Err(HostRefusal::Unsupported)
        }
        failure => {
            tracing::warn!(
                ?failure,
                "a permission request was answered with an error; the call is refused"
            );
            Ok(Outcome::Unreadable)
        }
    }
}

async fn questions(
    peer: PeerHandle,
    ask: QuestionRequest,
    by_form: bool,
) -> Result<AskAnswer, HostRefusal> {
    if by_form {
        match peer.request(question::METHOD, &question::form(&ask)).await {
            Ok(answer) => return Ok(AskAnswer::Question(question::form_answer(&ask, &answer))),
            Err(RequestFailure::Closed) => return Err(HostRefusal::Left),
            // It can't after all: asked the other way.
            Err(RequestFailure::Refused(error))
                if matches!(error.code, METHOD_NOT_FOUND | INVALID_PARAMS) => {}
            Err(failure) => return Err(HostRefusal::Failed(failure.to_string())),
        }
    }
    let mut answer = QuestionAnswer::default();
    for part in question::parts(&ask) {
        let Some(request) = question::request(&ask, part) else {
            continue;
        };
        let outcome = match peer.request(permission::METHOD, &request).await {
            Ok(reply) => permission::outcome(&reply),
            Err(failure) => refusal(failure)?,
        };
        if !question::add(&ask, part, &outcome, &mut answer) {
            return Ok(AskAnswer::Question(QuestionAnswer {
                dismissed: true,
                ..QuestionAnswer::default()
            }));
        }
    }
    Ok(AskAnswer::Question(answer))
}
