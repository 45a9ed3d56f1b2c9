use std::collections::HashMap;

use longshore_protocol::id::AgentId;
use longshore_protocol::value::turn::{StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::hub::fakes::{self, FakeConn, FakeLog, Heard};
use crate::hub::{AskLimits, HostQueue, QueueLimits};
use crate::kernel::event::DomainEvent;
use crate::kernel::port::{EventLog, HostAbilities, Publish};

struct Hosts {
    hub: Hub,
    heard: HashMap<&'static str, mpsc::UnboundedReceiver<Heard>>,
}

impl Hosts {
    /// Hosts attached to the session `s`, each reading and writing files or not.
    fn new(hosts: &[(&'static str, bool, bool)]) -> Self {
        let mut this = Self {
            hub: Hub::new(AskLimits::default(), fakes::now()),
            heard: HashMap::new(),
        };
        for (name, read, write) in hosts {
            let abilities = HostAbilities {
                fs: FsAbilities {
                    read: *read,
                    write: *write,
                },
                ..HostAbilities::default()
            };
            let (conn, heard) = FakeConn::make(name, abilities);
            let log = Arc::new(FakeLog::default()) as Arc<dyn EventLog>;
            let queue = Arc::new(HostQueue::new(log, QueueLimits::default(), fakes::now()));
            this.hub.connect(conn, queue, name);
            let attaching = this
                .hub
                .attach(&HostId::from((*name).to_owned()), &"s".into());
            attaching.unwrap().go(0, 0);
            this.heard.insert(name, heard);
        }
        this
    }

    fn started(&self, turn: &str, by: &str) {
        self.hub.started(&"s".into(), &turn.into(), &by.into());
    }

    /// Whose view counts for a turn.
    fn host_for(&self, turn: &str) -> Option<String> {
        let host = self.hub.host_for(&"s".into(), &turn.into())?;
        Some(host.id.to_string())
    }

    async fn hears(&mut self, name: &str) -> Heard {
        self.heard.get_mut(name).unwrap().recv().await.unwrap()
    }

    /// Reads `/w/a` at a host while it does what `host` says.
    async fn read(
        &mut self,
        name: &'static str,
        answer: Option<Result<String, HostFsError>>,
    ) -> Result<String, HostFsError> {
        let reading = self.hub.read_text(&name.into(), &"s".into(), "/w/a");
        let (text, ()) = tokio::join!(reading, async {
            let Heard::ReadText(path, sender) = self.hears(name).await else {
                panic!("{name} is asked something else");
            };
            assert_eq!(path, "/w/a");
            match answer {
                Some(answer) => sender.send(answer).unwrap(),
                // It keeps the way to answer, and never does.
                None => assert!(matches!(self.hears(name).await, Heard::TakenBack)),
            }
        });
        text
    }
}

fn end_of(turn: &str) -> Arc<crate::kernel::event::Stamped> {
    let event = DomainEvent::TurnEnded {
        turn: turn.into(),
        reason: TurnReason::Completed,
        stop: StopReason::EndTurn,
        error: None,
        usage: Usage::default(),
        duration_ms: 0,
    };
    let at = crate::kernel::time::Timestamp(0);
    crate::kernel::event::Stamped::new("s".into(), AgentId::main(), Some(1), at, event)
}

#[test]
fn the_starters_view_counts_else_the_first_that_is_offered() {
    let hosts = Hosts::new(&[
        ("blind", false, false),
        ("first", true, false),
        ("second", false, true),
    ]);
    hosts.started("t1", "second");
    hosts.started("t1", "first");
    hosts.started("t2", "blind");
    for (turn, host) in [("t1", "second"), ("t2", "first"), ("t3", "first")] {
        assert_eq!(hosts.host_for(turn).as_deref(), Some(host), "{turn}");
    }
    let host = hosts.hub.host_for(&"s".into(), &"t1".into()).unwrap();
    assert!(!host.offers.read && host.offers.write);
    assert_eq!(hosts.hub.host_for(&"other".into(), &"t1".into()), None);

    hosts.hub.disconnect(&"second".into());
    assert_eq!(hosts.host_for("t1").as_deref(), Some("first"));
    hosts.hub.detach(&"first".into(), &"s".into());
    assert_eq!(hosts.host_for("t1"), None);
}

#[test]
fn a_turn_that_has_ended_is_forgotten() {
    let hosts = Hosts::new(&[("first", true, true), ("second", true, true)]);
    hosts.started("t1", "second");
    hosts.started("t2", "second");
    hosts.hub.publish(end_of("t1"));
    assert_eq!(hosts.host_for("t1").as_deref(), Some("first"));
    assert_eq!(hosts.host_for("t2").as_deref(), Some("second"));
    hosts.hub.publish(end_of("t2"));
    assert!(hosts.hub.read().starters.is_empty());
}

#[tokio::test(start_paused = true)]
async fn answers_come_through_and_silence_has_a_deadline() {
    let mut hosts = Hosts::new(&[("h", true, true)]);
    for answer in [
        Ok("text".to_owned()),
        Err(HostFsError::NotFound),
        Err(HostFsError::Failed("it is locked".to_owned())),
        Err(HostFsError::Left),
    ] {
        assert_eq!(hosts.read("h", Some(answer.clone())).await, answer);
    }
    let before = Instant::now();
    assert_eq!(hosts.read("h", None).await, Err(HostFsError::TimedOut));
    assert!(before.elapsed() >= HOST_READ && before.elapsed() < HOST_READ * 2);
    assert!(hosts.host_for("t1").is_some(), "it may do better next time");

    let writing = hosts
        .hub
        .write_text(&"h".into(), &"s".into(), "/w/b", "new".to_owned());
    let before = Instant::now();
    let (written, ()) = tokio::join!(writing, async {
        let Heard::WriteText(path, text, _never) = hosts.hears("h").await else {
            panic!("it is asked something else");
        };
        assert_eq!((path.as_str(), text.as_str()), ("/w/b", "new"));
        assert!(matches!(hosts.hears("h").await, Heard::TakenBack));
    });
    assert_eq!(written, Err(HostFsError::TimedOut));
    assert!(before.elapsed() >= HOST_WRITE);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_know_files_is_not_asked_again() {
    let mut hosts = Hosts::new(&[("h", true, true), ("other", true, false)]);
    let answer = hosts.read("h", Some(Err(HostFsError::Unsupported))).await;
    assert_eq!(answer, Err(HostFsError::Unsupported));
    assert_eq!(hosts.host_for("t1").as_deref(), Some("other"));
    hosts.hub.disconnect(&"other".into());
    assert_eq!(hosts.host_for("t1"), None);
}

#[tokio::test]
async fn a_host_that_has_gone_is_not_waited_for() {
    let hosts = Hosts::new(&[("h", true, true)]);
    hosts.hub.disconnect(&"h".into());
    let read = hosts.hub.read_text(&"h".into(), &"s".into(), "/w/a");
    assert_eq!(read.await, Err(HostFsError::Left));
    let write = hosts
        .hub
        .write_text(&"h".into(), &"s".into(), "/w/a", String::new());
    assert_eq!(write.await, Err(HostFsError::Left));
}
