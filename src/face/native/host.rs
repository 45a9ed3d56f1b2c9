//! One connected host: what it said about itself, and how it is asked and told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::event::Event;
use longshore_protocol::id::{HostId, SessionId};
use longshore_protocol::method::host::{HostCapabilities, InitializeParams};
use longshore_protocol::reverse::Reverse;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::params::{Unknown, complaint};
use super::{Native, files, project};
use crate::hub::HostQueue;
use crate::kernel::ask::{Ask, AskAnswer, HostRefusal};
use crate::kernel::event::Stamped;
use crate::kernel::host_fs::{FsAbilities, HostFsError};
use crate::kernel::port::{HostAbilities, HostConn};
use crate::rpc::{PeerHandle, RequestFailure};

/// JSON-RPC's code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

/// A connected host.
pub(super) struct NativeHost {
    pub(super) native: Arc<Native>,
    pub(super) id: HostId,
    pub(super) peer: PeerHandle,
    queue: Arc<HostQueue>,
    /// Set by `initialize`.
    hello: OnceLock<Hello>,
    is_connected: AtomicBool,
}

/// What a host said in `initialize`.
struct Hello {
    name: String,
    unknown: Unknown,
    abilities: HostAbilities,
    live_events: bool,
    opt_out: Vec<Event>,
}

impl NativeHost {
    pub(super) fn new(
        native: Arc<Native>,
        id: HostId,
        peer: PeerHandle,
        queue: Arc<HostQueue>,
    ) -> Self {
        Self {
            native,
            id,
            peer,
            queue,
            hello: OnceLock::new(),
            is_connected: AtomicBool::new(false),
        }
    }

    /// Takes in what a host says about itself; false where it has done so before.
    pub(super) fn greet(&self, params: InitializeParams) -> bool {
        let InitializeParams {
            host,
            capabilities,
            strict,
            ..
        } = params;
        let HostCapabilities {
            approvals,
            questions,
            fs,
            live_events,
            opt_out,
        } = capabilities;
        let hello = Hello {
            name: host.name,
            unknown: if strict {
                Unknown::Refuse
            } else {
                Unknown::Ignore
            },
            abilities: HostAbilities {
                approvals,
                questions,
                fs: FsAbilities {
                    read: fs.read,
                    write: fs.write,
                },
            },
            live_events,
            // Names this version does not know are events it does not send.
            opt_out: Event::ALL
                .iter()
                .copied()
                .filter(|event| opt_out.iter().any(|name| name == event.name()))
                .collect(),
        };
        self.hello.set(hello).is_ok()
    }

    /// Whether `initialize` has been answered well.
    pub(super) fn is_initialized(&self) -> bool {
        self.hello.get().is_some()
    }

    /// What happens to unknown fields in its params.
    pub(super) fn unknown(&self) -> Unknown {
        self.hello
            .get()
            .map_or(Unknown::Ignore, |hello| hello.unknown)
    }

    /// From now on it gets what every host gets. Once is enough.
    pub(super) fn connect(self: &Arc<Self>) {
        if let Some(hello) = self.hello.get()
            && !self.is_connected.swap(true, Ordering::Relaxed)
        {
            let conn = Arc::clone(self) as Arc<dyn HostConn>;
            self.native
                .deps
                .hub
                .connect(conn, Arc::clone(&self.queue), &hello.name);
        }
    }

    fn wants(&self, event: Event) -> bool {
        self.hello.get().is_some_and(|hello| {
            (hello.live_events || event.durable()) && !hello.opt_out.contains(&event)
        })
    }
}

impl HostConn for NativeHost {
    fn id(&self) -> &HostId {
        &self.id
    }

    fn abilities(&self) -> HostAbilities {
        self.hello
            .get()
            .map_or_else(HostAbilities::default, |hello| hello.abilities)
    }

    fn wants_live(&self) -> bool {
        self.hello.get().is_none_or(|hello| hello.live_events)
    }

    fn ask(&self, ask: Arc<Ask>) -> BoxFuture<'static, Result<AskAnswer, HostRefusal>> {
        let request = match &*ask {
            Ask::Approval(params) => self
                .peer
                .start_request(Reverse::ApprovalRequest.name(), params),
            Ask::Question(params) => self
                .peer
                .start_request(Reverse::QuestionRequest.name(), params),
        };
        async move {
            let answer = request.map_err(refusal)?.await.map_err(refusal)?;
            match *ask {
                Ask::Approval(_) => read(&answer).map(AskAnswer::Approval),
                Ask::Question(_) => read(&answer).map(AskAnswer::Question),
            }
        }
        .boxed()
    }

    fn read_text(
        &self,
        session: &SessionId,
        path: &str,
    ) -> BoxFuture<'static, Result<String, HostFsError>> {
        files::read(self.peer.clone(), session.clone(), path.to_owned()).boxed()
    }

    fn write_text(
        &self,
        session: &SessionId,
        path: &str,
        text: String,
    ) -> BoxFuture<'static, Result<(), HostFsError>> {
        files::write(self.peer.clone(), session.clone(), path.to_owned(), text).boxed()
    }

    fn project(&self, event: &Stamped, out: &mut Vec<u8>) {
        if self.wants(project::kind(&event.event)) {
            project::write(event, out);
        }
    }

    fn project_resync(&self, session: &SessionId, from_seq: u64, out: &mut Vec<u8>) {
        if self.wants(Event::Resync) {
            project::write_resync(session, from_seq, self.native.deps.clock.now(), out);
        }
    }
}

fn refusal(failure: RequestFailure) -> HostRefusal {
    match failure {
        RequestFailure::Closed => HostRefusal::Left,
        RequestFailure::Refused(error) if error.code == METHOD_NOT_FOUND => {
            HostRefusal::Unsupported
        }
        RequestFailure::Refused(error) => HostRefusal::Failed(error.to_string()),
        other @ (RequestFailure::Unwritable(_) | RequestFailure::Unreadable(_)) => {
            HostRefusal::Failed(other.to_string())
        }
    }
}

fn read<T: DeserializeOwned>(answer: &RawValue) -> Result<T, HostRefusal> {
    if !answer.get().starts_with('{') {
        return Err(HostRefusal::Invalid("it is no object".to_owned()));
    }
    serde_json::from_str(answer.get()).map_err(|error| HostRefusal::Invalid(complaint(&error)))
}
