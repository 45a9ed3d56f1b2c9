//! From a method's name to its handler and back to a reply.
//!
//! The module of methods is built once, by a match over the method table that does not compile without a handler for
//! each row.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use jsonrpsee::core::server::MethodCallback;
use jsonrpsee::types::{Id, Params};
use jsonrpsee::{ConnectionId, Extensions, Methods, RpcModule};
use longshore_protocol::error::{ErrorKind, RpcError};
use longshore_protocol::id::{HostId, SessionId};
use longshore_protocol::method::{Method, MethodSpec, spec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::handler::{ask, cron, file, host, session, shell, task, turn};
use super::host::NativeHost;
use super::{Admission, NativeDeps, error, params};
use crate::hub::Attaching;
use crate::kernel::fault::Fault;
use crate::rpc::{BoxFuture, Reply, Request, Service};

/// What a host that asks while the server shuts down is told to wait; the process is gone by then.
const RETRY_AFTER_MS: u32 = 1000;

/// What a handler knows of the request it answers.
#[derive(Clone)]
pub(super) struct Cx {
    pub(super) host: Arc<NativeHost>,
    after: Arc<Mutex<Vec<FollowUp>>>,
}

type FollowUp = Box<dyn FnOnce() + Send>;

impl Cx {
    pub(super) fn deps(&self) -> &NativeDeps {
        &self.host.native.deps
    }

    pub(super) fn host_id(&self) -> &HostId {
        &self.host.id
    }

    /// Runs once the reply is queued, if it is a result; dropped otherwise. Must not wait.
    pub(super) fn after(&self, follow_up: impl FnOnce() + Send + 'static) {
        self.lock().push(Box::new(follow_up));
    }

    /// Begins to attach the caller to a session.
    pub(super) fn attach(&self, session: &SessionId) -> Result<Attaching, Fault> {
        // Within one batch `initialize` is not answered yet.
        self.host.connect();
        self.deps()
            .hub
            .attach(self.host_id(), session)
            .ok_or_else(|| Fault::new(ErrorKind::RequestCancelled, "The connection is over."))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FollowUp>> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All methods with their handlers.
pub(super) fn methods() -> Methods {
    let mut table = Table(RpcModule::new(()));
    for method in Method::ALL {
        match method {
            Method::Initialize => table.at_once::<spec::Initialize, _>(host::initialize),
            Method::Shutdown => table.on::<spec::Shutdown, _, _>(host::shutdown),
            Method::Ping => table.at_once::<spec::Ping, _>(|cx, params| Ok(host::ping(cx, params))),
            Method::ServerStatus => {
                table.at_once::<spec::ServerStatus, _>(|cx, params| Ok(host::status(cx, params)));
            }
            Method::ModelList => table.at_once::<spec::ModelList, _>(host::models),
            Method::SessionCreate => table.on::<spec::SessionCreate, _, _>(session::create),
            Method::SessionResume => table.on::<spec::SessionResume, _, _>(session::resume),
            Method::SessionAttach => table.on::<spec::SessionAttach, _, _>(session::attach),
            Method::SessionDetach => table
                .at_once::<spec::SessionDetach, _>(|cx, params| Ok(session::detach(cx, params))),
            Method::SessionList => table.on::<spec::SessionList, _, _>(session::list),
            Method::SessionGet => table.on::<spec::SessionGet, _, _>(session::get),
            Method::SessionSet => table.on::<spec::SessionSet, _, _>(session::set),
            Method::SessionTranscript => {
                table.on::<spec::SessionTranscript, _, _>(session::transcript);
            }
            Method::SessionEvents => table.on::<spec::SessionEvents, _, _>(session::events),
            Method::SessionUndo => table.on::<spec::SessionUndo, _, _>(session::undo),
            Method::SessionClear => table.on::<spec::SessionClear, _, _>(session::clear),
            Method::SessionClose => table.on::<spec::SessionClose, _, _>(session::close),
            Method::SessionDelete => table.on::<spec::SessionDelete, _, _>(session::delete),
            Method::TurnStart => table.on::<spec::TurnStart, _, _>(turn::start),
            Method::TurnWait => table.on::<spec::TurnWait, _, _>(turn::wait),
            Method::TurnSteer => table.on::<spec::TurnSteer, _, _>(turn::steer),
            Method::TurnCancel => table.on::<spec::TurnCancel, _, _>(turn::cancel),
            Method::ToolList => table.on::<spec::ToolList, _, _>(turn::tools),
            Method::TodoGet => table.on::<spec::TodoGet, _, _>(turn::todos),
            Method::ShellRun => table.on::<spec::ShellRun, _, _>(shell::run),
            Method::ShellCancel => table.on::<spec::ShellCancel, _, _>(shell::cancel),
            Method::TaskList => table.on::<spec::TaskList, _, _>(task::list),
            Method::TaskGet => table.on::<spec::TaskGet, _, _>(task::get),
            Method::TaskOutput => table.on::<spec::TaskOutput, _, _>(task::output),
            Method::TaskStop => table.on::<spec::TaskStop, _, _>(task::stop),
            Method::TaskDetach => table.on::<spec::TaskDetach, _, _>(task::detach),
            Method::CronList => table.on::<spec::CronList, _, _>(cron::list),
            Method::CronCreate => table.on::<spec::CronCreate, _, _>(cron::create),
            Method::CronDelete => table.on::<spec::CronDelete, _, _>(cron::delete),
            Method::CronPause => table.on::<spec::CronPause, _, _>(cron::pause),
            Method::CronResume => table.on::<spec::CronResume, _, _>(cron::resume),
            Method::CronFire => table.on::<spec::CronFire, _, _>(cron::fire),
            Method::FileSearch => table.on::<spec::FileSearch, _, _>(file::search),
            Method::ApprovalList => table.on::<spec::ApprovalList, _, _>(ask::approvals),
            Method::ApprovalResolve => {
                table.on::<spec::ApprovalResolve, _, _>(ask::resolve_approval);
            }
            Method::QuestionList => table.on::<spec::QuestionList, _, _>(ask::questions),
            Method::QuestionResolve => {
                table.on::<spec::QuestionResolve, _, _>(ask::resolve_question);
            }
        }
    }
    table.0.into()
}

struct Table(RpcModule<()>);

impl Table {
    /// Registers a handler that never waits.
    fn at_once<S, F>(&mut self, handler: F)
    where
        S: MethodSpec,
        S::Params: DeserializeOwned + Send,
        S::Result: Serialize + Send + 'static,
        F: Fn(&Cx, S::Params) -> Result<S::Result, Fault> + Clone + Send + Sync + 'static,
    {
        self.on::<S, _, _>(move |cx, params| std::future::ready(handler(&cx, params)));
    }

    /// The only place that registers a method. Results become raw text here, so that the module knows one reply type.
    fn on<S, F, Fut>(&mut self, handler: F)
    where
        S: MethodSpec,
        S::Params: DeserializeOwned + Send,
        S::Result: Serialize,
        F: Fn(Cx, S::Params) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<S::Result, Fault>> + Send + 'static,
    {
        let registered = self
            .0
            .register_async_method(S::NAME, move |params, _, extensions| {
                let handler = handler.clone();
                async move {
                    run::<S, F, Fut>(&handler, &params, &extensions)
                        .await
                        .map_err(error::object)
                }
            });
        if let Err(error) = registered {
            tracing::error!(%error, "the method table has a name twice");
        }
    }
}

async fn run<S, F, Fut>(
    handler: &F,
    params: &Params<'_>,
    extensions: &Extensions,
) -> Result<Box<RawValue>, Fault>
where
    S: MethodSpec,
    S::Params: DeserializeOwned + Send,
    S::Result: Serialize,
    F: Fn(Cx, S::Params) -> Fut,
    Fut: Future<Output = Result<S::Result, Fault>>,
{
    let cx = extensions.get::<Cx>().cloned().ok_or_else(|| {
        Fault::new(
            ErrorKind::InternalError,
            "The request has lost its connection.",
        )
    })?;
    let text = params.as_str();
    let unknown = if S::NAME == spec::Initialize::NAME {
        params::asks_strict(text)
    } else {
        cx.host.unknown()
    };
    let result = handler(cx, params::parse(text, unknown)?).await?;
    to_raw_value(&result).map_err(|error| {
        Fault::new(ErrorKind::InternalError, "The result could not be written.").caused_by(error)
    })
}

/// A connection as the peer sees it.
pub(super) struct NativeService {
    pub(super) host: Arc<NativeHost>,
    pub(super) admission: Admission,
}

impl NativeService {
    /// Why a request is not even looked at.
    fn refusal(&self, method: &str) -> Option<RpcError> {
        let is_initialize = method == spec::Initialize::NAME;
        match (self.host.is_initialized(), is_initialize) {
            (false, false) => Some(RpcError::new(
                ErrorKind::NotInitialized,
                "Send initialize first.",
            )),
            (true, true) => Some(RpcError::new(
                ErrorKind::InvalidRequest,
                "This connection is initialized already.",
            )),
            (true, false) if self.is_closed_to(method) => Some(
                RpcError::new(ErrorKind::ServerBusy, "The server is shutting down.")
                    .with("retryAfterMs", RETRY_AFTER_MS),
            ),
            _ => None,
        }
    }

    fn is_closed_to(&self, method: &str) -> bool {
        let is_harmless = [
            spec::Ping::NAME,
            spec::ServerStatus::NAME,
            spec::Shutdown::NAME,
        ]
        .contains(&method);
        self.host.native.is_draining.load(Ordering::Relaxed) && !is_harmless
    }
}

impl Service for NativeService {
    fn call(&self, request: Request<'_>) -> BoxFuture<'static, Reply> {
        if let Admission::SelfApproval(message) = &self.admission
            && request.method == spec::Initialize::NAME
        {
            let error = RpcError::new(ErrorKind::Denied, message.as_str());
            let peer = self.host.peer.clone();
            let reply = Reply::error(error.with("policy", "self_approval"));
            return std::future::ready(reply.after(move || peer.stop())).boxed();
        }
        if let Some(error) = self.refusal(request.method) {
            return std::future::ready(Reply::error(error)).boxed();
        }
        let Some(MethodCallback::Async(method)) = self.host.native.methods.method(request.method)
        else {
            let message = format!("There is no method {}.", request.method);
            let error = RpcError::new(ErrorKind::MethodNotFound, message);
            return std::future::ready(Reply::error(error)).boxed();
        };
        let cx = Cx {
            host: Arc::clone(&self.host),
            after: Arc::default(),
        };
        let mut extensions = Extensions::new();
        extensions.insert(cx.clone());
        let params = Params::new(request.params.map(RawValue::get)).into_owned();
        let response = method(Id::Null, params, ConnectionId(0), usize::MAX, extensions);
        async move {
            let reply = Reply::from_method_response(response.await).unwrap_or_else(|error| {
                tracing::error!(%error, "a reply could not be taken over");
                Reply::error(RpcError::new(
                    ErrorKind::InternalError,
                    "The reply could not be written.",
                ))
            });
            if reply.is_error() {
                return reply;
            }
            let follow_ups = std::mem::take(&mut *cx.lock());
            follow_ups.into_iter().fold(reply, Reply::after)
        }
        .boxed()
    }

    fn notify(&self, method: &str, _: Option<&RawValue>) {
        tracing::debug!(method, "ignored a notification");
    }
}
