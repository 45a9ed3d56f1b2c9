//! A journal and hosts for the tests of this folder.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, HostId, SessionId};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{HostQueue, Now, QueueLimits};
use crate::kernel::ask::{Ask, AskAnswer, HostRefusal};
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fault::Fault;
use crate::kernel::host_fs::HostFsError;
use crate::kernel::port::{EventLog, HostAbilities, HostConn};
use crate::kernel::time::Timestamp;
use crate::rpc::{Batch, Outbox};

pub(super) fn now() -> Now {
    Arc::new(|| Timestamp(0))
}

/// A durable event.
pub(super) fn durable(session: &str, seq: u64) -> Arc<Stamped> {
    let event = DomainEvent::ToolRunning {
        call: format!("call_{seq}").into(),
    };
    Stamped::new(
        session.into(),
        AgentId::main(),
        Some(seq),
        Timestamp(0),
        event,
    )
}

/// A live delta of the item `i1`.
pub(super) fn delta(session: &str, offset: u64, text: &str) -> Arc<Stamped> {
    live(
        session,
        DomainEvent::MessageDelta {
            item: "i1".into(),
            offset,
            text: text.to_owned(),
        },
    )
}

pub(super) fn live(session: &str, event: DomainEvent) -> Arc<Stamped> {
    Stamped::new(session.into(), AgentId::main(), None, Timestamp(0), event)
}

/// A journal in memory that can be told to fail.
#[derive(Default)]
pub(super) struct FakeLog {
    events: Mutex<Vec<Arc<Stamped>>>,
    pub(super) n_reads: AtomicUsize,
    pub(super) is_broken: AtomicBool,
}

/// Events of one page.
pub(super) const PAGE: usize = 10;

impl FakeLog {
    pub(super) fn append(&self, event: &Arc<Stamped>) {
        self.events.lock().unwrap().push(Arc::clone(event));
    }

    pub(super) fn forget(&self, seq: u64) {
        self.events
            .lock()
            .unwrap()
            .retain(|event| event.seq != Some(seq));
    }
}

impl EventLog for FakeLog {
    fn read_events(
        &self,
        session: &SessionId,
        after: u64,
        _: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Stamped>>, Fault>> {
        self.n_reads.fetch_add(1, Ordering::Relaxed);
        let page = if self.is_broken.load(Ordering::Relaxed) {
            Err(Fault::new(ErrorKind::StorageCorrupt, "it is torn"))
        } else {
            Ok(self
                .events
                .lock()
                .unwrap()
                .iter()
                .filter(|event| event.session == *session && event.seq > Some(after))
                .take(PAGE)
                .cloned()
                .collect())
        };
        async move {
            // A real journal takes its time.
            tokio::task::yield_now().await;
            page
        }
        .boxed()
    }
}

/// What happens at a fake host.
#[derive(Debug)]
pub(super) enum Heard {
    Asked(Arc<Ask>, oneshot::Sender<Result<AskAnswer, HostRefusal>>),
    /// An ask was taken back before it was answered, or a request about a file.
    TakenBack,
    ReadText(String, oneshot::Sender<Result<String, HostFsError>>),
    WriteText(String, String, oneshot::Sender<Result<(), HostFsError>>),
}

/// A host that writes short words for events and hands asks to the test.
pub(super) struct FakeConn {
    id: HostId,
    abilities: HostAbilities,
    heard: mpsc::UnboundedSender<Heard>,
}

impl FakeConn {
    pub(super) fn make(
        id: &str,
        abilities: HostAbilities,
    ) -> (Arc<dyn HostConn>, mpsc::UnboundedReceiver<Heard>) {
        let (heard, hears) = mpsc::unbounded_channel();
        (
            Arc::new(Self {
                id: id.into(),
                abilities,
                heard,
            }),
            hears,
        )
    }
}

impl FakeConn {
    fn hears(&self, what: Heard) {
        let _ = self.heard.send(what);
    }

    /// What the test answers; `left` where it goes away, and [`Heard::TakenBack`] where nobody waits any more.
    fn answer<T: Send + 'static, E: Send + 'static>(
        &self,
        answered: oneshot::Receiver<Result<T, E>>,
        left: E,
    ) -> BoxFuture<'static, Result<T, E>> {
        let mut guard = OnDrop(Some(self.heard.clone()));
        async move {
            let guard = &mut guard;
            let answer = answered.await.unwrap_or(Err(left));
            guard.0 = None;
            answer
        }
        .boxed()
    }
}

/// Says that an ask was taken back, unless it was disarmed.
struct OnDrop(Option<mpsc::UnboundedSender<Heard>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(heard) = self.0.take() {
            let _ = heard.send(Heard::TakenBack);
        }
    }
}

impl HostConn for FakeConn {
    fn id(&self) -> &HostId {
        &self.id
    }

    fn abilities(&self) -> HostAbilities {
        self.abilities
    }

    fn ask(&self, ask: Arc<Ask>) -> BoxFuture<'static, Result<AskAnswer, HostRefusal>> {
        let (answer, answered) = oneshot::channel();
        self.hears(Heard::Asked(ask, answer));
        self.answer(answered, HostRefusal::Left)
    }

    fn read_text(
        &self,
        _: &SessionId,
        path: &str,
    ) -> BoxFuture<'static, Result<String, HostFsError>> {
        let (answer, answered) = oneshot::channel();
        self.hears(Heard::ReadText(path.to_owned(), answer));
        self.answer(answered, HostFsError::Left)
    }

    fn write_text(
        &self,
        _: &SessionId,
        path: &str,
        text: String,
    ) -> BoxFuture<'static, Result<(), HostFsError>> {
        let (answer, answered) = oneshot::channel();
        self.hears(Heard::WriteText(path.to_owned(), text, answer));
        self.answer(answered, HostFsError::Left)
    }

    fn project(&self, event: &Stamped, out: &mut Vec<u8>) {
        let word = match &event.event {
            DomainEvent::MessageDelta { offset, text, .. } => format!("{offset}+{}", text.len()),
            DomainEvent::SessionStatus { status, .. } => format!("{status:?}").to_lowercase(),
            DomainEvent::Warning { warning } => format!("warning: {}", warning.message),
            DomainEvent::SessionCreated { .. } => "created".to_owned(),
            _ => event.seq.map_or("live".to_owned(), |seq| format!("#{seq}")),
        };
        out.extend_from_slice(format!("{} {word}\n", event.session).as_bytes());
    }

    fn project_resync(&self, session: &SessionId, from_seq: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{session} resync {from_seq}\n").as_bytes());
    }
}

/// A queue with a host that only writes.
pub(super) fn queue(
    log: &Arc<FakeLog>,
    limits: QueueLimits,
) -> (Arc<HostQueue>, Arc<dyn HostConn>) {
    let queue = Arc::new(HostQueue::new(
        Arc::clone(log) as Arc<dyn EventLog>,
        limits,
        now(),
    ));
    let (conn, _) = FakeConn::make("h1", HostAbilities::default());
    queue.bind(&conn);
    (queue, conn)
}

/// Everything that can be written now, line by line.
pub(super) async fn written(queue: &HostQueue) -> Vec<String> {
    let mut batch = Batch::default();
    loop {
        let before = batch.bytes.len();
        tokio::select! {
            biased;
            _ = queue.drain(&mut batch) => {}
            // The fake journal yields once, so the queue is empty when this comes round.
            () = settled() => break,
        }
        assert!(batch.bytes.len() > before, "a drain yields something");
    }
    String::from_utf8(batch.bytes)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

async fn settled() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

/// An approval with the options allow once, allow for the session, reject.
pub(super) fn approval(session: &str, id: &str) -> Ask {
    let option = |id: &str| json!({"optionId": id, "label": id});
    let request = json!({
        "approvalId": id, "sessionId": session, "agentId": "main", "turnId": "t1", "toolCallId": "call_1",
        "tool": "Bash", "title": "Run it", "display": {"kind": "text", "text": "x"}, "accesses": [], "input": {},
        "options": [option("allow_once"), option("allow_session"), option("reject")],
        "reason": {"policy": "fallback", "message": "It has effects."}, "createdAt": "1970-01-01T00:00:00.000Z",
    });
    Ask::Approval(serde_json::from_value(request).unwrap())
}

/// Two questions: `q_0` takes one of two options, `q_1` several of two, or own words.
pub(super) fn question(session: &str, id: &str) -> Ask {
    let question = |n: u32, several: bool| {
        let option = |k: u32| json!({"id": format!("opt_{n}_{k}"), "label": "x"});
        json!({
            "id": format!("q_{n}"), "question": "Which?", "header": "Which", "options": [option(0), option(1)],
            "multiSelect": several, "allowOther": several,
        })
    };
    let request = json!({
        "questionId": id, "sessionId": session, "agentId": "main", "turnId": "t1", "toolCallId": "call_1",
        "questions": [question(0, false), question(1, true)], "createdAt": "1970-01-01T00:00:00.000Z",
    });
    Ask::Question(serde_json::from_value(request).unwrap())
}
