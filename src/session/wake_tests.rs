use std::sync::Arc;

use longshore_protocol::value::session::SessionPatch;
use longshore_protocol::value::turn::WhenBusy;

use super::close_tests::on_disk;
use super::testing::{Home, run, start, within};
use super::{CreateOptions, SessionHandle, store};
use crate::agent::testing::{said, valid_for_provider};
use crate::config::values::{Broken, Config};
use crate::kernel::port::Ability;
use crate::kernel::time::Timestamp;
use crate::kernel::wake::{Urgency, Wake, WakeKey};
use crate::os::fs::{Fault as DiskFault, FaultyDisk, Op};

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";
/// The first answer never ends, the others do at once.
const HANGS_FIRST: &str = "turns: [{steps: [{text: Hel}, {hang: true}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";
/// The first answer makes a call that takes long.
const CALLS: &str = "turns: [{steps: [{text: Hm}, {tool_call: {name: TodoList, args: {todos: [{title: t, status: done}]}}}]}, {steps: [{text: \
                     ok}]}]\non_exhausted: repeat_last";

fn task(id: &str) -> Wake {
    Wake {
        key: WakeKey::Task { task: id.into() },
        text: format!("<notification>{id}</notification>").into(),
        brief: "".into(),
        urgency: Urgency::Turn,
    }
}

fn fire(id: &str) -> Wake {
    Wake {
        key: WakeKey::Fire {
            job: "0badcafe".into(),
            ideal_at: Timestamp(60_000),
            fire: id.into(),
            is_last: false,
            n_due: 1,
            is_missed: false,
        },
        text: format!("<cron-fire>{id}</cron-fire>").into(),
        brief: "".into(),
        urgency: Urgency::Turn,
    }
}

fn later(wake: Wake) -> Wake {
    Wake {
        urgency: Urgency::NextTurn,
        ..wake
    }
}

/// Waits until so many turns have ended and nothing more happens.
async fn settled(home: &Home, handle: &SessionHandle, n_turns: usize) {
    let ended = |lines: &[String]| {
        let n = lines
            .iter()
            .filter(|line| line.starts_with("turn/ended"))
            .count();
        n >= n_turns
            && lines
                .last()
                .is_some_and(|line| line == "session/status idle")
    };
    home.events
        .until_all(&format!("{n_turns} turns"), ended)
        .await;
    quiet(handle).await;
}

/// Longer than any gather; time is paused.
async fn quiet(handle: &SessionHandle) {
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(handle.view().await.unwrap().running, None);
}

/// What the model has in its history, after a restart.
async fn history(home: &Home, handle: &SessionHandle) -> Vec<String> {
    let session = handle.view().await.unwrap().session;
    handle.close().await.unwrap();
    let loaded = store::load(&session.session_id, &home.dir_of(&session)).unwrap();
    let messages = loaded.agent.context.messages();
    valid_for_provider(&messages).unwrap();
    messages.iter().map(|message| said(message)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_ends_together_while_idle_is_one_turn() {
    let home = Home::new();
    let (handle, _) = home.create(SAYS_OK).await;
    for id in ["a", "b", "a"] {
        handle.door().wake(task(id));
    }
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    assert!(home.events.told().is_empty(), "more may come");
    handle.door().wake(task("c"));
    settled(&home, &handle, 1).await;
    assert_eq!(home.events.told(), ["t1 begins by Task: a b c"]);
    assert_eq!(
        home.events.only(&["turn/", "step/", "session/status"]),
        [
            "session/status running",
            "turn/started t1",
            "step/started 1",
            "step/ended 1",
            "turn/ended t1 completed",
            "session/status idle"
        ]
    );
    let session = handle.view().await.unwrap().session;
    assert_eq!(
        (
            session.title.as_str(),
            session.last_prompt,
            session.turn_count
        ),
        ("", None, 1),
        "nobody said anything"
    );
    handle.door().wake(task("b"));
    quiet(&handle).await;
    assert_eq!(home.events.told().len(), 1, "once is enough");
    assert_eq!(
        history(&home, &handle).await,
        [
            "notice <notification>a</notification><notification>b</notification><notification>c</notification>",
            "assistant ok []"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn whenever_it_comes_it_is_told_once() {
    for at in [
        "session/status running",
        "turn/started t1",
        "step/started 1",
        "message/completed i1",
        "tool/started call_1",
        "tool/running call_1",
        "tool/completed call_1 ok",
        "step/ended 1",
        "step/started 2",
        "message/completed i2",
        "step/ended 2",
        "turn/ended t1 completed",
        "session/status idle",
    ] {
        let home = Home::new();
        let (handle, _) = home.create(CALLS).await;
        let door = handle.door().clone();
        let (mut is_due, moment) = (true, at.to_owned());
        home.events.at_each(move |line| {
            if line == moment && std::mem::take(&mut is_due) {
                door.wake(task("a"));
                door.wake(task("b"));
                door.wake(task("a"));
            }
        });
        start(&handle, "go", WhenBusy::Reject).await;
        home.events.until(at).await;
        let told = |lines: &[String]| {
            let n_begun = lines
                .iter()
                .filter(|line| *line == "turn/steered" || line.starts_with("turn/started"))
                .count();
            n_begun == 2
                && lines
                    .last()
                    .is_some_and(|line| line == "session/status idle")
        };
        home.events.until_all(at, told).await;
        quiet(&handle).await;
        let told = home.events.told();
        assert_eq!(told.len(), 1, "{at}: {told:?}");
        assert!(told[0].ends_with("by Task: a b"), "{at}: {told:?}");
        let history = history(&home, &handle).await;
        let n = history
            .iter()
            .filter(|line| line.starts_with("notice"))
            .count();
        assert_eq!(n, 1, "{at}: {history:?}");
        assert_eq!(
            history.last().map(String::as_str),
            Some("assistant ok []"),
            "{at}: the model has answered it"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn it_never_stands_between_a_call_and_its_result() {
    let home = Home::new();
    let (handle, _) = home.create(CALLS).await;
    let door = handle.door().clone();
    home.events.at_each(move |line| {
        if line == "tool/started call_1" {
            door.wake(task("a"));
        }
    });
    run(&handle, "go").await;
    assert_eq!(
        history(&home, &handle).await[1..4],
        [
            "assistant Hm [call_1]",
            "result call_1 The todo list was updated:\n- [done] t\n\nKeep it up to date as you go on.",
            "notice <notification>a</notification>"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn words_go_before_what_the_engine_tells() {
    let home = Home::new();
    let (handle, _) = home.create(HANGS_FIRST).await;
    start(&handle, "first", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    start(&handle, "second", WhenBusy::Queue).await;
    handle.door().wake(task("a"));
    quiet_running(&handle).await;
    handle.cancel(None).await.unwrap();
    settled(&home, &handle, 2).await;
    assert_eq!(home.events.inputs(), ["t1 first", "t2 second"]);
    assert_eq!(home.events.told(), ["t2 is steered by Task: a"]);
    // A prompt that comes while wakes are gathered takes them along.
    handle.door().wake(task("b"));
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    run(&handle, "third").await;
    quiet(&handle).await;
    assert_eq!(
        home.events.told(),
        ["t2 is steered by Task: a", "t3 is steered by Task: b"]
    );
    let history = history(&home, &handle).await;
    let thing = history
        .iter()
        .position(|line| line == "user third")
        .unwrap();
    assert_eq!(history[thing + 1], "notice <notification>b</notification>");
}

async fn quiet_running(handle: &SessionHandle) {
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert!(handle.view().await.unwrap().running.is_some());
}

#[tokio::test(start_paused = true)]
async fn after_a_cancel_nothing_begins_by_itself() {
    let home = Home::new();
    let (handle, _) = home.create(HANGS_FIRST).await;
    start(&handle, "first", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    handle.door().wake(task("a"));
    start(&handle, "steered", WhenBusy::Steer).await;
    handle.cancel(None).await.unwrap();
    settled(&home, &handle, 1).await;
    assert!(home.events.told().is_empty());
    // Something new begins a turn, and takes along what was left; the words wait for the next words.
    handle.door().wake(task("b"));
    settled(&home, &handle, 2).await;
    assert_eq!(home.events.told(), ["t2 begins by Task: a b"]);
    run(&handle, "more").await;
    assert_eq!(home.events.inputs().last().unwrap(), "t3 steered|more");
}

#[tokio::test(start_paused = true)]
async fn a_wake_for_the_next_turn_begins_none() {
    let home = Home::new();
    let (handle, _) = home.create(SAYS_OK).await;
    handle.door().wake(later(task("a")));
    handle.door().look();
    quiet(&handle).await;
    assert!(home.events.lines().is_empty());
    run(&handle, "go").await;
    assert_eq!(home.events.told(), ["t1 is steered by Task: a"]);
    handle.door().wake(later(task("b")));
    handle.door().wake(task("c"));
    settled(&home, &handle, 2).await;
    assert_eq!(home.events.told()[1..], ["t2 begins by Task: b c"]);
}

#[tokio::test(start_paused = true)]
async fn turns_of_different_origin_tell_apart() {
    let home = Home::new();
    let (handle, _) = home.create(SAYS_OK).await;
    for wake in [fire("f1"), task("a"), fire("f2")] {
        handle.door().wake(wake);
    }
    settled(&home, &handle, 1).await;
    assert_eq!(
        home.events.told(),
        ["t1 begins by Cron: f1 f2", "t1 is steered by Task: a"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_may_not_run_waits() {
    // Nobody watches.
    let home = Home::new();
    let (handle, _) = home.create(SAYS_OK).await;
    *home.asks.ability.lock().unwrap() = Ability::Nobody;
    handle.door().wake(task("a"));
    quiet(&handle).await;
    assert!(home.events.lines().is_empty());
    *home.asks.ability.lock().unwrap() = Ability::Unable;
    quiet(&handle).await;
    assert!(home.events.lines().is_empty());
    handle.door().look();
    settled(&home, &handle, 1).await;
    assert_eq!(home.events.told(), ["t1 begins by Task: a"]);
    *home.asks.ability.lock().unwrap() = Ability::Nobody;
    handle.door().wake(task("b"));
    run(&handle, "a prompt is enough").await;
    assert_eq!(home.events.told()[1..], ["t2 is steered by Task: b"]);

    // No model is usable, until one is chosen.
    let home = Home::new();
    let options = CreateOptions {
        model: None,
        ..home.options(SAYS_OK)
    };
    let (handle, _) = home.sessions.create(options).await.unwrap();
    handle.door().wake(task("a"));
    quiet(&handle).await;
    assert!(home.events.lines().is_empty());
    let model = Some("demo".to_owned());
    handle
        .set(SessionPatch {
            model,
            ..SessionPatch::default()
        })
        .await
        .unwrap();
    settled(&home, &handle, 1).await;
    assert_eq!(home.events.told(), ["t1 begins by Task: a"]);

    // The configuration can't be read.
    let broken = Broken {
        file: "/c/config.toml".into(),
        line: 3,
        column: 1,
        message: "no".into(),
    };
    let home = Home::with(Config {
        broken: Some(broken),
        ..Config::default()
    });
    let (handle, _) = home.create(SAYS_OK).await;
    handle.door().wake(task("a"));
    quiet(&handle).await;
    assert!(home.events.lines().is_empty());
    handle.close().await.unwrap();
    handle.door().wake(task("b"));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_closes_begins_nothing() {
    let home = Home::new();
    let (handle, _) = home.create(HANGS_FIRST).await;
    start(&handle, "first", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    let door = handle.door().clone();
    home.events.at_each(move |line| {
        if line.starts_with("turn/ended") {
            door.wake(task("b"));
        }
    });
    handle.door().wake(task("a"));
    within(handle.close()).await.unwrap();
    assert!(home.events.told().is_empty());
    assert_eq!(home.events.inputs(), ["t1 first"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_full_disk_did_not_take_is_told_once_there_is_space() {
    let mut n_failed = 0;
    for n in 1.. {
        let home = Home::new();
        let (first, mut session) = home.create(CALLS).await;
        first.close().await.unwrap();
        session.session_id = format!("full{n}").into();
        let disk =
            Arc::new(FaultyDisk::new().fail_from(Op::Write, n, DiskFault::Errno(libc::ENOSPC)));
        let handle = on_disk(&home, &session, CALLS, &disk);
        let door = handle.door().clone();
        home.events.at_each(move |line| {
            if line == "tool/started call_1" {
                door.wake(task("b"));
            }
        });
        handle.door().wake(task("a"));
        settled(&home, &handle, 1).await;
        let n_turns = home.events.only(&["turn/ended"]).len();
        assert!(n_turns <= 2, "write {n}: it is not tried again and again");
        let whole = home.events.only(&["turn/ended t1 completed"]).len() == 1;
        n_failed += usize::from(!whole);
        disk.heal();
        handle.door().look();
        quiet(&handle).await;
        let told = home.events.told().join(" ");
        let count = |id: &str| told.split(' ').filter(|word| *word == id).count();
        assert_eq!(count("a"), 1, "write {n}: {told}");
        let n_wanted = usize::from(home.events.lines().contains(&"tool/started call_1".into()));
        assert_eq!(count("b"), n_wanted, "write {n}: {told}");
        handle.close().await.unwrap();
        let loaded = home.sessions.view(&session.session_id).await.unwrap();
        assert_eq!(loaded.running, None);
        if whole {
            break;
        }
    }
    assert!(n_failed > 10, "{n_failed}");
}
