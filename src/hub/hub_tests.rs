use super::*;
use crate::hub::fakes::{self, FakeConn, FakeLog, delta, durable, written};
use crate::kernel::port::{EventLog, HostAbilities};

struct Setting {
    hub: Hub,
    log: Arc<FakeLog>,
}

impl Setting {
    fn new() -> Self {
        Self {
            hub: Hub::new(AskLimits::default(), fakes::now()),
            log: Arc::default(),
        }
    }

    fn connect(&self, name: &str) -> Arc<HostQueue> {
        let (conn, _) = FakeConn::make(name, HostAbilities::default());
        let log = Arc::clone(&self.log) as Arc<dyn EventLog>;
        let queue = Arc::new(HostQueue::new(log, QueueLimits::default(), fakes::now()));
        self.hub.connect(conn, Arc::clone(&queue), name);
        queue
    }

    fn attach(&self, name: &str, cursor: u64, last_seq: u64) {
        self.hub
            .attach(&name.into(), &"s".into())
            .unwrap()
            .go(cursor, last_seq);
    }

    fn publish(&self, event: Arc<Stamped>) {
        if event.seq.is_some() {
            self.log.append(&event);
        }
        self.hub.publish(event);
    }
}

#[tokio::test]
async fn attached_hosts_get_the_same_events() {
    let setting = Setting::new();
    let (one, two, three) = (
        setting.connect("h1"),
        setting.connect("h2"),
        setting.connect("h3"),
    );
    setting.attach("h1", 0, 0);
    setting.publish(durable("s", 1));
    setting.attach("h2", 0, 1);
    setting.publish(delta("s", 0, "ab"));
    setting.publish(delta("s", 2, "cd"));
    setting.publish(durable("s", 2));
    let expected = ["s #1", "s 0+4", "s #2"];
    assert_eq!(written(&one).await, expected);
    assert_eq!(
        written(&two).await,
        ["s #1", "s #2"],
        "the deltas came while it caught up"
    );
    assert!(written(&three).await.is_empty());
    assert_eq!(setting.hub.n_attached(&"s".into()), 2);
}

#[tokio::test]
async fn a_new_session_is_told_to_every_host() {
    let setting = Setting::new();
    let (one, two) = (setting.connect("h1"), setting.connect("h2"));
    setting.attach("h1", 0, 0);
    let session = serde_json::from_value(serde_json::json!({
        "sessionId": "new", "title": "", "cwd": "/", "additionalDirs": [], "mode": "manual", "status": "idle",
        "createdAt": "", "updatedAt": "", "turnCount": 0, "usage": {}, "ephemeral": false, "archived": false,
    }));
    setting.publish(fakes::live(
        "new",
        DomainEvent::SessionCreated {
            session: session.unwrap(),
        },
    ));
    for queue in [one, two] {
        assert_eq!(written(&queue).await, ["new created"]);
    }
}

#[tokio::test]
async fn a_host_that_left_is_gone() {
    let setting = Setting::new();
    let queue = setting.connect("h1");
    setting.connect("h2");
    setting.attach("h1", 0, 0);
    setting.attach("h2", 0, 0);
    let late = setting.hub.attach(&"h1".into(), &"s".into()).unwrap();
    setting.hub.disconnect(&"h1".into());
    setting.hub.disconnect(&"h1".into());
    late.go(0, 0);
    setting.publish(durable("s", 1));
    assert!(written(&queue).await.is_empty());
    assert!(setting.hub.attach(&"h1".into(), &"s".into()).is_none());
    let hosts = setting.hub.hosts();
    assert_eq!(hosts.len(), 1);
    assert_eq!(
        (
            hosts[0].id.as_str(),
            hosts[0].name.as_str(),
            hosts[0].queue.sessions
        ),
        ("h2", "h2", 1)
    );
    assert_eq!(setting.hub.n_attached(&"s".into()), 1);
}
