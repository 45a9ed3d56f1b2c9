use std::sync::atomic::Ordering;

use longshore_protocol::value::session::{Status, WaitingFor};

use super::*;
use crate::hub::fakes::{self, FakeLog, PAGE, delta, durable, written};

const SMALL: QueueLimits = QueueLimits {
    messages: 4,
    bytes: 1 << 20,
};

fn attached(limits: QueueLimits) -> (Arc<FakeLog>, Arc<HostQueue>, Arc<dyn HostConn>) {
    let log = Arc::new(FakeLog::default());
    let (queue, conn) = fakes::queue(&log, limits);
    queue.subscribe(&"s".into(), 0, 0);
    (log, queue, conn)
}

fn status(status: Status) -> Arc<Stamped> {
    fakes::live(
        "s",
        DomainEvent::SessionStatus {
            status,
            waiting: WaitingFor::default(),
        },
    )
}

/// Appends to the journal, then hands over, as a session does.
fn publish(log: &FakeLog, queue: &HostQueue, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        let event = durable("s", seq);
        log.append(&event);
        queue.push_event(event);
    }
}

fn seqs(seqs: std::ops::RangeInclusive<u64>) -> Vec<String> {
    seqs.map(|seq| format!("s #{seq}")).collect()
}

#[tokio::test]
async fn lines_and_events_share_one_order() {
    let (log, queue, _conn) = attached(QueueLimits::default());
    publish(&log, &queue, 1..=1);
    queue.send(Line::new("reply"));
    publish(&log, &queue, 2..=2);
    queue.push_event(durable("other", 1));
    assert_eq!(queue.pending_bytes(), 5);
    assert_eq!(written(&queue).await, ["s #1", "reply", "s #2"]);
    assert_eq!(
        queue.figures(),
        QueueFigures {
            messages: 0,
            bytes: 0,
            sessions: 1
        }
    );
}

#[tokio::test]
async fn deltas_that_wait_are_joined() {
    let (log, queue, _conn) = attached(QueueLimits::default());
    queue.push_event(delta("s", 0, "ab"));
    // Somebody else holds the same event, and has written it: ours becomes a copy of its own.
    let shared = delta("s", 2, "cd");
    let _ = shared.native.set("written".into());
    queue.push_event(Arc::clone(&shared));
    queue.push_event(delta("s", 4, "e"));
    queue.push_event(delta("s", 9, "after a gap"));
    publish(&log, &queue, 1..=1);
    queue.push_event(delta("s", 20, "x"));
    let other = delta("s", 21, "y");
    let event = other.event.clone();
    queue.push_event(Stamped::new(
        "s".into(),
        "sub-1".into(),
        None,
        other.at,
        event,
    ));
    assert_eq!(
        written(&queue).await,
        ["s 0+5", "s 9+11", "s #1", "s 20+1", "s 21+1"]
    );
}

#[tokio::test]
async fn a_shared_tail_is_copied_once_and_then_grows_in_place() {
    let (_log, queue, _conn) = attached(QueueLimits::default());
    let shared = delta("s", 0, "ab");
    queue.push_event(Arc::clone(&shared));
    queue.push_event(delta("s", 2, "cd"));
    let tail = |queue: &HostQueue| match queue.lock().entries.back() {
        Some(Entry::Event(tail)) => Arc::as_ptr(tail),
        _ => panic!("an event"),
    };
    let copy = tail(&queue);
    assert_ne!(copy, Arc::as_ptr(&shared));
    queue.push_event(delta("s", 4, "ef"));
    assert_eq!(tail(&queue), copy);
    assert_eq!(written(&queue).await, ["s 0+6"]);
}

#[tokio::test]
async fn joined_deltas_end_at_a_size() {
    let (_log, queue, _conn) = attached(QueueLimits::default());
    let text = "x".repeat(20_000);
    for n in 0..5 {
        queue.push_event(delta("s", n * 20_000, &text));
    }
    assert_eq!(written(&queue).await, ["s 0+60000", "s 60000+40000"]);
}

#[tokio::test]
async fn a_full_queue_is_resynced_from_the_journal() {
    let (log, queue, _conn) = attached(SMALL);
    publish(&log, &queue, 1..=4);
    queue.push_event(delta("s", 0, "dropped"));
    publish(&log, &queue, 5..=30);
    queue.send(Line::new("reply"));
    queue.push_event(delta("s", 7, "dropped"));
    let mut expected = seqs(1..=4);
    expected.push("s resync 4".to_owned());
    expected.extend(seqs(5..=30));
    expected.push("reply".to_owned());
    assert_eq!(written(&queue).await, expected);
    assert_eq!(log.n_reads.load(Ordering::Relaxed), 26_usize.div_ceil(PAGE));

    queue.push_event(delta("s", 14, "live again"));
    publish(&log, &queue, 31..=31);
    assert_eq!(written(&queue).await, ["s 14+10", "s #31"]);
}

#[tokio::test]
async fn the_last_state_is_told_after_a_resync() {
    let (log, queue, _conn) = attached(SMALL);
    publish(&log, &queue, 1..=4);
    queue.push_event(status(Status::Running));
    publish(&log, &queue, 5..=5);
    queue.push_event(status(Status::Idle));
    let mut expected = seqs(1..=4);
    expected.extend(["s resync 4", "s #5", "s idle"].map(str::to_owned));
    assert_eq!(written(&queue).await, expected);

    // Also where the state was all that was dropped.
    publish(&log, &queue, 6..=9);
    queue.push_event(status(Status::Running));
    let mut expected = seqs(6..=9);
    expected.extend(["s resync 9", "s running"].map(str::to_owned));
    assert_eq!(written(&queue).await, expected);
    queue.push_event(status(Status::Idle));
    assert_eq!(written(&queue).await, ["s idle"]);
}

#[tokio::test]
async fn a_host_that_never_reads_stays_bounded() {
    let (log, queue, _conn) = attached(QueueLimits::default());
    let mut expected = 0;
    for n in 0..100_000_u64 {
        // Every other delta belongs to another item, so nothing can be joined.
        let item = format!("i{}", n % 2).as_str().into();
        let event = DomainEvent::MessageDelta {
            item,
            offset: n * 1000,
            text: "x".repeat(1000),
        };
        queue.push_event(fakes::live("s", event));
        if n % 1000 == 0 {
            expected += 1;
            publish(&log, &queue, expected..=expected);
        }
    }
    let figures = queue.figures();
    assert!(
        figures.messages <= limits::HOST_QUEUE_MESSAGES + 1,
        "{figures:?}"
    );
    assert!(
        figures.bytes <= limits::HOST_QUEUE_BYTES + MERGED_BYTES,
        "{figures:?}"
    );
    let lines = written(&queue).await;
    let durables: Vec<_> = lines
        .iter()
        .filter(|line| line.contains('#'))
        .cloned()
        .collect();
    assert_eq!(
        durables,
        seqs(1..=expected),
        "nothing durable is lost or repeated"
    );
    assert_eq!(
        lines.iter().filter(|line| line.contains("resync")).count(),
        1
    );
}

#[tokio::test]
async fn what_can_be_joined_is_bounded_too() {
    let limits = QueueLimits {
        messages: 4096,
        bytes: 1 << 20,
    };
    let (_log, queue, _conn) = attached(limits);
    for n in 0..100_000_u64 {
        queue.push_event(delta("s", n * 20, "01234567890123456789"));
    }
    let figures = queue.figures();
    assert!(
        figures.messages < 40 && figures.bytes <= (1 << 20) + MERGED_BYTES,
        "{figures:?}"
    );
    assert_eq!(written(&queue).await.last().unwrap(), "s resync 0");
}

#[tokio::test]
async fn a_replay_goes_over_into_live_events() {
    let (log, queue, _conn) = attached(QueueLimits::default());
    queue.unsubscribe(&"s".into());
    publish(&log, &queue, 1..=25);
    for (cursor, expected) in [
        (25, seqs(26..=26)),
        (3, seqs(4..=26)),
        (0, seqs(1..=26)),
        (99, seqs(26..=26)),
    ] {
        queue.hold(&"s".into());
        queue.push_event(delta("s", 0, "too early"));
        queue.subscribe(&"s".into(), cursor, 25);
        let event = durable("s", 26);
        queue.push_event(Arc::clone(&event));
        log.append(&event);
        assert_eq!(written(&queue).await, expected, "after {cursor}");
        queue.unsubscribe(&"s".into());
        log.forget(26);
    }
}

#[tokio::test]
async fn events_between_an_attach_and_its_reply_are_not_missed() {
    let (log, queue, _conn) = attached(QueueLimits::default());
    queue.unsubscribe(&"s".into());
    queue.hold(&"s".into());
    publish(&log, &queue, 1..=2);
    // The caller saw the session before the second event.
    queue.push_event(status(Status::Running));
    queue.send(Line::new("reply"));
    queue.subscribe(&"s".into(), 1, 1);
    assert_eq!(written(&queue).await, ["reply", "s #2", "s running"]);

    queue.hold(&"s".into());
    assert!(!queue.release(&"s".into()), "the subscription goes on");
    publish(&log, &queue, 3..=3);
    assert_eq!(written(&queue).await, ["s #3"]);
}

#[tokio::test]
async fn attaching_again_starts_over() {
    let (log, queue, _conn) = attached(SMALL);
    publish(&log, &queue, 1..=9);
    queue.push_private(durable("t", 1));
    queue.hold(&"s".into());
    queue.send(Line::new("reply"));
    queue.subscribe(&"s".into(), 6, 9);
    assert_eq!(written(&queue).await, ["reply", "s #7", "s #8", "s #9"]);
    assert_eq!(queue.figures().messages, 0);
}

#[tokio::test]
async fn after_a_detach_nothing_follows() {
    let (log, queue, _conn) = attached(SMALL);
    publish(&log, &queue, 1..=9);
    queue.unsubscribe(&"s".into());
    publish(&log, &queue, 10..=10);
    assert_eq!(written(&queue).await, Vec::<String>::new());
    queue.hold(&"s".into());
    assert!(
        queue.release(&"s".into()),
        "a hold alone is no subscription"
    );
    assert!(queue.sessions().is_empty());
}

#[tokio::test]
async fn events_out_of_order_are_put_right_from_the_journal() {
    let (log, queue, _conn) = attached(QueueLimits::default());
    let events: Vec<_> = (1..=4).map(|seq| durable("s", seq)).collect();
    for event in &events {
        log.append(event);
    }
    for n in [0, 2, 1, 3, 3] {
        queue.push_event(Arc::clone(&events[n]));
    }
    assert_eq!(
        written(&queue).await,
        seqs(1..=4),
        "and no resync, since nothing was dropped"
    );
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_said() {
    let (log, queue, _conn) = attached(SMALL);
    log.is_broken.store(true, Ordering::Relaxed);
    publish(&log, &queue, 1..=6);
    let mut expected = seqs(1..=4);
    expected.push("s resync 4".to_owned());
    expected.push(
        "s warning: The journal could not be read (it is torn); events 5 to 6 are missing here."
            .to_owned(),
    );
    assert_eq!(written(&queue).await, expected);
    publish(&log, &queue, 7..=7);
    assert_eq!(written(&queue).await, ["s #7"], "live again");
}

#[tokio::test]
async fn a_closed_queue_gives_out_what_it_has() {
    let (log, queue, _conn) = attached(SMALL);
    publish(&log, &queue, 1..=6);
    queue.close();
    queue.push_event(durable("s", 7));
    queue.send(Line::new("late"));
    let mut batch = Batch::default();
    while queue.drain(&mut batch).await {}
    let lines = String::from_utf8(batch.bytes).unwrap();
    assert_eq!(lines, "s #1\ns #2\ns #3\ns #4\ns resync 4\ns #5\ns #6\n");
}

#[tokio::test]
async fn reading_pauses_by_unwritten_lines_alone() {
    use futures::FutureExt;

    let (log, queue, _conn) = attached(QueueLimits::default());
    publish(&log, &queue, 1..=3);
    assert!(
        queue.below(1).now_or_never().is_some(),
        "events do not count"
    );
    queue.send(Line::new("12345"));
    let mut below = queue.below(5);
    assert!((&mut below).now_or_never().is_none());
    written(&queue).await;
    assert!(below.now_or_never().is_some());
}

/// Hosts attach and detach from anywhere while a session publishes: each sees what follows its cursor once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attaching_under_fire_is_gapless() {
    const EVENTS: u64 = 3000;
    let log = Arc::new(FakeLog::default());
    let limits = QueueLimits {
        messages: 16,
        bytes: 1 << 20,
    };
    let published = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let queues: Vec<_> = (0..8).map(|_| fakes::queue(&log, limits)).collect();
    let mut tasks = tokio::task::JoinSet::new();
    {
        let queues: Vec<_> = queues.iter().map(|(queue, _)| Arc::clone(queue)).collect();
        let (log, published) = (Arc::clone(&log), Arc::clone(&published));
        tasks.spawn(async move {
            for seq in 1..=EVENTS {
                let event = durable("s", seq);
                log.append(&event);
                published.store(seq, Ordering::Release);
                for queue in &queues {
                    queue.push_event(delta("s", seq, "x"));
                    queue.push_event(Arc::clone(&event));
                }
                if seq % 16 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    for (n, (queue, _)) in queues.iter().enumerate() {
        let (queue, published) = (Arc::clone(queue), Arc::clone(&published));
        tasks.spawn(async move {
            let session = "s".into();
            for _ in 0..n * 100 {
                tokio::task::yield_now().await;
            }
            queue.hold(&session);
            let last_seq = published.load(Ordering::Acquire);
            tokio::task::yield_now().await;
            let cursor = last_seq / 2;
            queue.subscribe(&session, cursor, last_seq);
            let mut next = cursor + 1;
            let mut batch = Batch::default();
            while next <= EVENTS {
                assert!(queue.drain(&mut batch).await);
                for line in String::from_utf8(std::mem::take(&mut batch.bytes))
                    .unwrap()
                    .lines()
                {
                    if let Some(seq) = line.strip_prefix("s #") {
                        assert_eq!(seq.parse(), Ok(next));
                        next += 1;
                    }
                }
            }
        });
    }
    tokio::time::timeout(std::time::Duration::from_secs(60), tasks.join_all())
        .await
        .expect("every host gets everything");
}
