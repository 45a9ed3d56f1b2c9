use std::collections::HashMap;

use longshore_protocol::value::approval::{ApprovalAnswer, OptionId};
use tokio::sync::oneshot;

use super::*;
use crate::hub::fakes::{self, FakeConn, FakeLog, Heard};
use crate::hub::{HostQueue, Hub, QueueLimits};
use crate::kernel::host_fs::FsAbilities;
use crate::kernel::port::AskHost;

const LIMITS: AskLimits = AskLimits {
    approval_timeout: Some(Duration::from_secs(3600)),
    detached_wait: Duration::from_secs(60),
};
const ABLE: HostAbilities = HostAbilities {
    approvals: true,
    questions: false,
    fs: NO_FILES,
};
const UNABLE: HostAbilities = HostAbilities {
    approvals: false,
    questions: false,
    fs: NO_FILES,
};
const NO_FILES: FsAbilities = FsAbilities {
    read: false,
    write: false,
};

struct Hosts {
    hub: Hub,
    log: Arc<FakeLog>,
    heard: HashMap<&'static str, mpsc::UnboundedReceiver<Heard>>,
    queues: HashMap<&'static str, Arc<HostQueue>>,
    cancel: CancellationToken,
}

impl Hosts {
    fn new() -> Self {
        Self {
            hub: Hub::new(LIMITS, fakes::now()),
            log: Arc::default(),
            heard: HashMap::new(),
            queues: HashMap::new(),
            cancel: CancellationToken::new(),
        }
    }

    fn with(hosts: &[(&'static str, HostAbilities)]) -> Self {
        let mut this = Self::new();
        for (name, abilities) in hosts {
            this.attach(name, *abilities);
        }
        this
    }

    fn attach(&mut self, name: &'static str, abilities: HostAbilities) {
        let (conn, heard) = FakeConn::make(name, abilities);
        let queue = Arc::new(HostQueue::new(
            Arc::clone(&self.log) as Arc<dyn crate::kernel::port::EventLog>,
            QueueLimits::default(),
            fakes::now(),
        ));
        self.hub.connect(conn, Arc::clone(&queue), name);
        self.hub.attach(&name.into(), &"s".into()).unwrap().go(0, 0);
        self.heard.insert(name, heard);
        self.queues.insert(name, queue);
    }

    fn ask(&self, id: &str) -> tokio::task::JoinHandle<AskOutcome> {
        let future = self
            .hub
            .ask(Arc::new(fakes::approval("s", id)), self.cancel.clone());
        tokio_util::task::TaskTracker::new().spawn(future)
    }

    async fn hears(&mut self, name: &str) -> Heard {
        self.heard.get_mut(name).unwrap().recv().await.unwrap()
    }

    /// The way to answer the ask of this name, which comes next.
    async fn asked(
        &mut self,
        name: &str,
        id: &str,
    ) -> oneshot::Sender<Result<AskAnswer, HostRefusal>> {
        match self.hears(name).await {
            Heard::Asked(ask, answer) => {
                assert_eq!(ask.id(), AskId::Approval(id.into()));
                answer
            }
            other => panic!("{name} hears {other:?}"),
        }
    }

    async fn taken_back(&mut self, name: &str) {
        assert!(matches!(self.hears(name).await, Heard::TakenBack));
    }

    fn is_silent(&mut self, name: &str) -> bool {
        self.heard.get_mut(name).unwrap().try_recv().is_err()
    }
}

fn choose(option: OptionId) -> AskAnswer {
    AskAnswer::Approval(ApprovalAnswer {
        option_id: Some(option),
        ..ApprovalAnswer::default()
    })
}

fn allowed(by: &str) -> AskOutcome {
    AskOutcome::Answered {
        answer: choose(OptionId::AllowOnce),
        by: by.into(),
    }
}

fn unanswered(reason: &str) -> AskOutcome {
    AskOutcome::Unanswered {
        reason: reason.to_owned(),
    }
}

const NOBODY_CAN: &str = "No attached host can answer.";
const TOO_LATE: &str = "No decision in time.";

#[tokio::test]
async fn the_first_answer_wins_and_the_others_are_told() {
    let mut hosts = Hosts::with(&[("h1", ABLE), ("h2", ABLE), ("h3", UNABLE)]);
    assert_eq!(
        hosts.hub.ability(&"s".into(), AskKind::Approval),
        Ability::Able
    );
    assert_eq!(
        hosts.hub.ability(&"s".into(), AskKind::Question),
        Ability::Unable
    );
    assert_eq!(
        hosts.hub.ability(&"other".into(), AskKind::Approval),
        Ability::Nobody
    );
    let outcome = hosts.ask("a1");
    let first = hosts.asked("h1", "a1").await;
    let second = hosts.asked("h2", "a1").await;
    assert_eq!(hosts.hub.open_asks(&"s".into()).approvals.len(), 1);
    second.send(Ok(choose(OptionId::AllowOnce))).unwrap();
    assert_eq!(outcome.await.unwrap(), allowed("h2"));
    hosts.taken_back("h1").await;
    assert!(
        first.send(Ok(choose(OptionId::Reject))).is_err(),
        "too late"
    );
    assert!(hosts.is_silent("h2") && hosts.is_silent("h3"));
    assert!(hosts.hub.open_asks(&"s".into()).approvals.is_empty());
}

#[tokio::test]
async fn two_answers_at_once_give_one_outcome() {
    let mut hosts = Hosts::with(&[("h1", ABLE), ("h2", ABLE)]);
    let outcome = hosts.ask("a1");
    let (first, second) = (hosts.asked("h1", "a1").await, hosts.asked("h2", "a1").await);
    first.send(Ok(choose(OptionId::AllowOnce))).unwrap();
    second.send(Ok(choose(OptionId::Reject))).unwrap();
    assert_eq!(outcome.await.unwrap(), allowed("h1"));
}

#[tokio::test]
async fn a_late_host_gets_what_is_open_in_order() {
    let mut hosts = Hosts::new();
    let outcomes = [hosts.ask("a1"), hosts.ask("a2")];
    hosts.attach("h1", ABLE);
    for (id, outcome) in ["a1", "a2"].into_iter().zip(outcomes) {
        let answer = hosts.asked("h1", id).await;
        answer.send(Ok(choose(OptionId::AllowOnce))).unwrap();
        assert_eq!(outcome.await.unwrap(), allowed("h1"));
    }
    // Attaching again puts nothing twice.
    let outcome = hosts.ask("a3");
    let answer = hosts.asked("h1", "a3").await;
    hosts
        .hub
        .attach(&"h1".into(), &"s".into())
        .unwrap()
        .go(0, 0);
    assert!(hosts.is_silent("h1"));
    answer.send(Ok(choose(OptionId::AllowOnce))).unwrap();
    assert_eq!(outcome.await.unwrap(), allowed("h1"));
}

#[tokio::test]
async fn an_attach_taken_back_leaves_nothing() {
    let mut hosts = Hosts::with(&[("h1", ABLE)]);
    assert!(hosts.hub.detach(&"h1".into(), &"s".into()));
    assert!(!hosts.hub.detach(&"h1".into(), &"s".into()));
    drop(hosts.hub.attach(&"h1".into(), &"s".into()));
    assert_eq!(hosts.hub.n_attached(&"s".into()), 0);
    assert_eq!(
        hosts.hub.ability(&"s".into(), AskKind::Approval),
        Ability::Nobody
    );
    assert!(hosts.is_silent("h1"));
}

#[tokio::test(start_paused = true)]
async fn hosts_that_cannot_answer_end_it_at_once() {
    let started = Instant::now();
    for refusal in [
        HostRefusal::Unsupported,
        HostRefusal::Failed("no".to_owned()),
    ] {
        let mut hosts = Hosts::with(&[("h1", ABLE), ("h2", UNABLE)]);
        let outcome = hosts.ask("a1");
        hosts.asked("h1", "a1").await.send(Err(refusal)).unwrap();
        assert_eq!(outcome.await.unwrap(), unanswered(NOBODY_CAN));
    }
    let hosts = Hosts::with(&[("h2", UNABLE)]);
    assert_eq!(hosts.ask("a1").await.unwrap(), unanswered(NOBODY_CAN));
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_refusal_of_one_host_leaves_it_to_the_others() {
    let mut hosts = Hosts::with(&[("h1", ABLE), ("h2", ABLE)]);
    let outcome = hosts.ask("a1");
    hosts
        .asked("h1", "a1")
        .await
        .send(Err(HostRefusal::Unsupported))
        .unwrap();
    hosts
        .asked("h2", "a1")
        .await
        .send(Ok(choose(OptionId::AllowOnce)))
        .unwrap();
    assert_eq!(outcome.await.unwrap(), allowed("h2"));
}

#[tokio::test]
async fn an_invalid_answer_is_said_and_asked_again_once() {
    let mut hosts = Hosts::with(&[("h1", ABLE)]);
    let outcome = hosts.ask("a1");
    // Not on offer.
    hosts
        .asked("h1", "a1")
        .await
        .send(Ok(choose(OptionId::RejectStop)))
        .unwrap();
    // Not even an answer.
    hosts
        .asked("h1", "a1")
        .await
        .send(Err(HostRefusal::Invalid("it is a string".to_owned())))
        .unwrap();
    assert_eq!(outcome.await.unwrap(), unanswered(NOBODY_CAN));
    let lines = fakes::written(&hosts.queues["h1"]).await;
    assert_eq!(
        lines,
        [
            "s warning: The answer to approval a1 was not taken: reject_stop is not on offer, only allow_once, \
         allow_session, reject are. It is asked once more.",
            "s warning: The answer to approval a1 was not taken: it is a string. It is not asked here again.",
        ]
    );

    let outcome = hosts.ask("a2");
    hosts
        .asked("h1", "a2")
        .await
        .send(Ok(choose(OptionId::RejectStop)))
        .unwrap();
    hosts
        .asked("h1", "a2")
        .await
        .send(Ok(choose(OptionId::AllowOnce)))
        .unwrap();
    assert_eq!(outcome.await.unwrap(), allowed("h1"));
}

#[tokio::test(start_paused = true)]
async fn an_ask_whose_hosts_are_gone_waits_for_one() {
    let mut hosts = Hosts::with(&[("h1", ABLE), ("watcher", UNABLE)]);
    let outcome = hosts.ask("a1");
    let answer = hosts.asked("h1", "a1").await;
    // A connection that ends is noticed here first.
    answer.send(Err(HostRefusal::Left)).unwrap();
    hosts.hub.disconnect(&"h1".into());
    tokio::time::sleep(LIMITS.detached_wait / 2).await;
    assert!(!outcome.is_finished());
    hosts.attach("h2", ABLE);
    let answer = hosts.asked("h2", "a1").await;
    tokio::time::sleep(LIMITS.detached_wait * 2).await;
    answer.send(Ok(choose(OptionId::AllowOnce))).unwrap();
    assert_eq!(outcome.await.unwrap(), allowed("h2"));
}

#[tokio::test(start_paused = true)]
async fn without_any_host_it_ends_after_the_wait() {
    let hosts = Hosts::new();
    let started = Instant::now();
    assert_eq!(hosts.ask("a1").await.unwrap(), unanswered(TOO_LATE));
    assert_eq!(started.elapsed(), LIMITS.detached_wait);

    let mut hosts = Hosts::with(&[("h1", ABLE)]);
    let outcome = hosts.ask("a2");
    let _answer = hosts.asked("h1", "a2").await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    hosts.hub.detach(&"h1".into(), &"s".into());
    hosts.taken_back("h1").await;
    let left = Instant::now();
    assert_eq!(outcome.await.unwrap(), unanswered(TOO_LATE));
    assert_eq!(left.elapsed(), LIMITS.detached_wait);
}

#[tokio::test(start_paused = true)]
async fn a_silent_host_is_waited_for_until_the_timeout() {
    let mut hosts = Hosts::with(&[("h1", ABLE)]);
    let started = Instant::now();
    let outcome = hosts.ask("a1");
    let _answer = hosts.asked("h1", "a1").await;
    assert_eq!(outcome.await.unwrap(), unanswered(TOO_LATE));
    assert_eq!(started.elapsed(), Duration::from_secs(3600));
    hosts.taken_back("h1").await;
}

#[tokio::test]
async fn a_cancel_withdraws_it() {
    let mut hosts = Hosts::with(&[("h1", ABLE)]);
    let outcome = hosts.ask("a1");
    let _answer = hosts.asked("h1", "a1").await;
    hosts.cancel.cancel();
    assert_eq!(outcome.await.unwrap(), AskOutcome::Withdrawn);
    hosts.taken_back("h1").await;
}

#[tokio::test]
async fn an_asker_that_is_gone_leaves_nothing_open() {
    let mut hosts = Hosts::with(&[("h1", ABLE)]);
    drop(
        hosts
            .hub
            .ask(Arc::new(fakes::approval("s", "a1")), hosts.cancel.clone()),
    );
    let _answer = hosts.asked("h1", "a1").await;
    hosts.taken_back("h1").await;
    assert!(hosts.hub.open_asks(&"s".into()).approvals.is_empty());
}

#[tokio::test]
async fn asks_are_answered_out_of_band_once() {
    let mut hosts = Hosts::with(&[("h1", ABLE)]);
    let resolve = |hosts: &Hosts, id: &str, option| {
        let by = HostId::from("h9");
        hosts
            .hub
            .resolve(
                &"s".into(),
                &AskId::Approval(id.into()),
                choose(option),
                &by,
            )
            .map_err(|fault| fault.kind)
    };
    let outcome = hosts.ask("a1");
    let _answer = hosts.asked("h1", "a1").await;
    assert_eq!(
        resolve(&hosts, "a2", OptionId::AllowOnce),
        Err(ErrorKind::ApprovalNotFound)
    );
    assert_eq!(
        resolve(&hosts, "a1", OptionId::RejectStop),
        Err(ErrorKind::InvalidParams)
    );
    assert_eq!(resolve(&hosts, "a1", OptionId::AllowOnce), Ok(()));
    assert_eq!(
        resolve(&hosts, "a1", OptionId::AllowOnce),
        Err(ErrorKind::AlreadyResolved)
    );
    // Confirmed is confirmed, even where a cancel comes before the asker looks.
    hosts.cancel.cancel();
    assert_eq!(outcome.await.unwrap(), allowed("h9"));
    hosts.taken_back("h1").await;
    let question = hosts.hub.resolve(
        &"s".into(),
        &AskId::Question("q1".into()),
        choose(OptionId::Reject),
        &"h9".into(),
    );
    assert_eq!(question.unwrap_err().kind, ErrorKind::QuestionNotFound);
}
