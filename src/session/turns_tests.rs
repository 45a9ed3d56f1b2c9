#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::approval::OptionId;
use longshore_protocol::value::session::{Mode, Session, SessionPatch, Status};
use longshore_protocol::value::turn::{StartState, TurnReason, WhenBusy, WhenIdle};

use super::testing::{Home, input, run, start, within};
use crate::agent::testing::{Reply, valid_for_provider};
use crate::config::values::{Broken, Config, LimitsConfig};
use crate::kernel::port::Ability;
use crate::os::clock::Clock;
use crate::session::{CreateOptions, store};

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";
/// The first answer never ends, the others do at once.
const HANGS_FIRST: &str = "turns: [{steps: [{text: Hel}, {hang: true}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";

#[tokio::test(start_paused = true)]
async fn a_turn_runs_and_is_remembered() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    let end = run(&handle, "Mend  the\nroof").await;
    assert_eq!(
        (end.reason, end.text.as_str()),
        (TurnReason::Completed, "ok")
    );
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
    let view = handle.view().await.unwrap();
    assert_eq!(
        (
            view.session.title.as_str(),
            view.session.last_prompt.as_deref()
        ),
        ("Mend the roof", Some("Mend the roof"))
    );
    assert_eq!(
        (view.session.turn_count, view.session.status, view.running),
        (1, Status::Idle, None)
    );
    assert!(view.context.0 > 0 && view.context.1 > 0);
    assert_eq!(
        view.last_seq,
        home.events
            .events()
            .iter()
            .filter_map(|event| event.seq)
            .max()
            .unwrap()
    );
    // Ended turns can be waited for, also after a restart.
    assert_eq!(handle.wait(end.turn.clone()).await.unwrap(), end);
    handle.close().await.unwrap();
    let again = home.again();
    let handle = again.sessions.open(&session.session_id).await.unwrap();
    assert_eq!(handle.wait(end.turn.clone()).await.unwrap(), end);
    assert_eq!(
        handle.wait("t9".into()).await.unwrap_err().kind,
        ErrorKind::TurnNotFound
    );
    assert_eq!(run(&handle, "on").await.turn.as_str(), "t2");
}

#[tokio::test(start_paused = true)]
async fn no_event_comes_before_the_gate_is_released() {
    for released in [true, false] {
        let home = Home::new();
        let (handle, _) = home.create(HANGS_FIRST).await;
        let started = handle.start(input("a"), WhenBusy::Reject).await.unwrap();
        assert_eq!(
            handle.view().await.unwrap().running,
            Some(started.turn.clone())
        );
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        assert!(home.events.lines().is_empty());
        if released {
            started.gate.release();
        } else {
            drop(started.gate);
        }
        home.events.until("message/delta i1 Hel").await;

        let queued = handle.start(input("b"), WhenBusy::Queue).await.unwrap();
        assert_eq!(queued.state, StartState::Queued);
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        assert!(home.events.only(&["turn/queued"]).is_empty());
        // Neither its own start nor its end overtakes the reply.
        assert!(handle.cancel(None).await.unwrap());
        home.events.until("turn/ended t1 cancelled").await;
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        assert!(
            home.events
                .only(&["turn/started t2", "turn/queued"])
                .is_empty()
        );
        if released {
            queued.gate.release();
        } else {
            drop(queued.gate);
        }
        within(handle.wait(queued.turn)).await.unwrap();
        let order = home
            .events
            .only(&["turn/queued", "turn/started t2", "turn/ended t2"]);
        assert_eq!(
            order,
            [
                "turn/queued t2",
                "turn/started t2",
                "turn/ended t2 completed"
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_input_while_a_turn_runs() {
    let home = Home::new();
    let (handle, _) = home.create(HANGS_FIRST).await;
    start(&handle, "first", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    let busy = handle
        .start(input("x"), WhenBusy::Reject)
        .await
        .unwrap_err();
    assert_eq!(busy.kind, ErrorKind::SessionBusy);
    let steered = start(&handle, "steered", WhenBusy::Steer).await;
    assert_eq!(
        (steered.turn.as_str(), steered.state),
        ("t1", StartState::Steered)
    );
    let queued = [
        start(&handle, "second", WhenBusy::Queue).await,
        start(&handle, "third", WhenBusy::Queue).await,
    ];
    assert_eq!(queued[1].turn.as_str(), "t3");
    let withdrawn = start(&handle, "never", WhenBusy::Queue).await;
    assert!(handle.cancel(Some(withdrawn.turn.clone())).await.unwrap());
    assert!(
        !handle.cancel(Some(withdrawn.turn.clone())).await.unwrap(),
        "twice is once"
    );
    assert_eq!(
        within(handle.wait(withdrawn.turn)).await.unwrap().reason,
        TurnReason::Cancelled
    );
    assert_eq!(
        handle.cancel(Some("t77".into())).await.unwrap_err().kind,
        ErrorKind::TurnNotFound
    );

    // What comes while it is being cancelled is meant for after it, whatever it says.
    let (cancelled, late) = tokio::join!(
        handle.cancel(Some("t1".into())),
        start(&handle, "fourth", WhenBusy::Reject)
    );
    assert!(cancelled.unwrap());
    assert_eq!((late.turn.as_str(), late.state), ("t5", StartState::Queued));
    within(handle.wait(late.turn)).await.unwrap();
    assert_eq!(
        home.events.inputs(),
        ["t1 first", "t2 steered|second", "t3 third", "t5 fourth"],
        "the steer of a cancelled turn comes before the next input"
    );
    assert!(!handle.cancel(None).await.unwrap(), "nothing runs");
    assert_eq!(
        home.events.only(&["session/status"]).last().unwrap(),
        "session/status idle"
    );
}

#[tokio::test(start_paused = true)]
async fn a_steer_that_came_too_late_is_the_next_turn() {
    let home = Home::new();
    // The turn fails once it is steered, so that the steer is left over.
    let script = "turns: [{steps: [{delay_ms: 1000}, {error: {kind: auth}}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";
    let (handle, _) = home.create(script).await;
    start(&handle, "first", WhenBusy::Reject).await;
    home.events.until("step/started 1").await;
    let queued = start(&handle, "second", WhenBusy::Queue).await;
    start(&handle, "x", WhenBusy::Steer).await;
    handle.steer(input("y"), WhenIdle::Reject).await.unwrap();
    within(handle.wait(queued.turn)).await.unwrap();
    assert_eq!(home.events.inputs(), ["t1 first", "t3 x|y", "t2 second"]);
}

#[tokio::test(start_paused = true)]
async fn a_steer_of_an_idle_session_starts_a_turn_or_is_refused() {
    let home = Home::new();
    let (handle, _) = home.create(HANGS_FIRST).await;
    assert_eq!(
        handle
            .steer(input("a"), WhenIdle::Reject)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::NoActiveTurn
    );
    start(&handle, "first", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    start(&handle, "left", WhenBusy::Steer).await;
    handle.cancel(None).await.unwrap();
    within(handle.wait("t1".into())).await.unwrap();
    let started = handle.steer(input("then"), WhenIdle::Start).await.unwrap();
    assert_eq!(started.state, StartState::Running);
    drop(started.gate);
    within(handle.wait(started.turn)).await.unwrap();
    assert_eq!(
        home.events.inputs(),
        ["t1 first", "t2 left|then"],
        "what was steered before comes first"
    );
}

#[tokio::test(start_paused = true)]
async fn input_and_queue_have_limits() {
    let limits = LimitsConfig {
        max_queued_turns: 2,
        ..LimitsConfig::default()
    };
    let home = Home::with(Config {
        limits,
        ..Config::default()
    });
    let (handle, _) = home.create(HANGS_FIRST).await;
    assert_eq!(
        handle
            .start(vec![], WhenBusy::Reject)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::InvalidParams
    );
    assert_eq!(
        handle
            .steer(input(" "), WhenIdle::Start)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::InvalidParams
    );
    for text in ["a", "b", "c"] {
        start(&handle, text, WhenBusy::Queue).await;
    }
    let full = handle.start(input("d"), WhenBusy::Queue).await.unwrap_err();
    assert_eq!(
        (full.kind, full.data["value"].as_u64()),
        (ErrorKind::LimitExceeded, Some(2))
    );
    handle.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn turns_need_a_model_and_a_readable_configuration() {
    let broken = Broken {
        file: "/c/config.toml".into(),
        line: 3,
        column: 1,
        message: "no".into(),
    };
    for (config, kind) in [
        (Config::default(), ErrorKind::ModelNotConfigured),
        (
            Config {
                broken: Some(broken),
                ..Config::default()
            },
            ErrorKind::ConfigInvalid,
        ),
    ] {
        let home = Home::with(config);
        let options = CreateOptions {
            cwd: home.ws.clone(),
            ..CreateOptions::default()
        };
        let (handle, _) = home.sessions.create(options).await.unwrap();
        assert_eq!(
            handle
                .start(input("a"), WhenBusy::Reject)
                .await
                .unwrap_err()
                .kind,
            kind
        );
        assert!(home.events.lines().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn settings_change_all_or_none() {
    let home = Home::new();
    let (handle, _) = home.create(SAYS_OK).await;
    let before = handle.view().await.unwrap().session;
    let dirs = |dir: &str| Some(vec![dir.to_owned()]);
    for (patch, kind) in [
        (
            SessionPatch {
                model: Some("none".into()),
                title: Some("t".into()),
                ..SessionPatch::default()
            },
            ErrorKind::ModelUnknown,
        ),
        (
            SessionPatch {
                title: Some("  ".into()),
                mode: Some(Mode::Auto),
                ..SessionPatch::default()
            },
            ErrorKind::InvalidParams,
        ),
        (
            SessionPatch {
                additional_dirs: dirs("/none/such"),
                title: Some("t".into()),
                ..SessionPatch::default()
            },
            ErrorKind::InvalidParams,
        ),
        (
            SessionPatch {
                additional_dirs: dirs("relative"),
                ..SessionPatch::default()
            },
            ErrorKind::InvalidParams,
        ),
    ] {
        assert_eq!(handle.set(patch).await.unwrap_err().kind, kind);
        assert_eq!(handle.view().await.unwrap().session, before);
    }
    handle.set(SessionPatch::default()).await.unwrap();
    assert!(
        home.events.lines().is_empty(),
        "nothing changed, nothing is said"
    );
    let patch = SessionPatch {
        title: Some("Roof".into()),
        mode: Some(Mode::Auto),
        additional_dirs: dirs(home.ws.to_str().unwrap()),
        ..SessionPatch::default()
    };
    let set = handle.set(patch).await.unwrap();
    assert_eq!((set.title.as_str(), set.mode), ("Roof", Mode::Auto));
    assert_eq!(home.events.lines(), ["session/updated"]);
    run(&handle, "the title stays").await;
    handle.close().await.unwrap();
    let again = home.again();
    let view = again.sessions.view(&before.session_id).await.unwrap();
    assert_eq!(
        (
            view.session.title,
            view.session.mode,
            view.session.additional_dirs.len()
        ),
        ("Roof".into(), Mode::Auto, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_mode_holds_for_the_running_turn() {
    let home = Home::new();
    let script = "turns: [{steps: [{tool_call: {name: Write, args: {path: a, content: x}}}]}, {steps: [{text: ok}]}]";
    let options = CreateOptions {
        mode: Some(Mode::Manual),
        ..home.options(script)
    };
    let (handle, _) = home.sessions.create(options).await.unwrap();
    home.asks.will([Reply::Never]);
    let started = start(&handle, "go", WhenBusy::Reject).await;
    home.events.until("session/status waiting").await;
    assert_eq!(handle.view().await.unwrap().session.status, Status::Waiting);
    handle
        .set(SessionPatch {
            mode: Some(Mode::Yolo),
            ..SessionPatch::default()
        })
        .await
        .unwrap();
    assert_eq!(
        within(handle.wait(started.turn)).await.unwrap().reason,
        TurnReason::Completed
    );
    assert_eq!(std::fs::read_to_string(home.ws.join("a")).unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_frees_the_session_at_once_while_an_approval_is_open() {
    let home = Home::new();
    let script = "turns: [{steps: [{tool_call: {name: Write, args: {path: a, content: x}}}]}, {steps: [{text: ok}]}]";
    let options = CreateOptions {
        mode: Some(Mode::Manual),
        ..home.options(script)
    };
    let (handle, _) = home.sessions.create(options).await.unwrap();
    home.asks.will([Reply::Never]);
    start(&handle, "go", WhenBusy::Reject).await;
    home.events.until("approval/requested a1").await;
    let asked_at = tokio::time::Instant::now();
    handle.cancel(None).await.unwrap();
    let next = start(&handle, "next", WhenBusy::Reject).await;
    assert_eq!(
        within(handle.wait(next.turn)).await.unwrap().reason,
        TurnReason::Completed
    );
    assert_eq!(asked_at.elapsed().as_millis(), 0);
    assert!(
        home.events
            .lines()
            .contains(&"approval/resolved a1 withdrawn".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_panics_takes_only_itself_down() {
    let home = Home::new();
    let script = "turns: [{steps: [{text: Hm}, {tool_call: {name: TodoList, args: {todos: [{title: t, status: done}]}}}]}, {steps: \
                  [{tool_call: {name: Write, args: {path: a, content: x}}}]}, {steps: [{text: \
                  ok}]}]";
    let options = CreateOptions {
        mode: Some(Mode::Manual),
        ..home.options(script)
    };
    let (handle, session) = home.sessions.create(options).await.unwrap();
    // Nobody is scripted to answer, so the ask panics in the middle of the turn.
    let end = run(&handle, "go").await;
    assert_eq!(
        (end.reason, end.error.unwrap().kind),
        (TurnReason::Failed, ErrorKind::InternalError)
    );
    let calls = home.events.only(&[
        "tool/completed",
        "approval/",
        "step/interrupted",
        "turn/ended",
    ]);
    assert_eq!(
        calls,
        [
            "tool/completed call_1 ok",
            "approval/requested a1",
            "approval/resolved a1 withdrawn",
            "tool/completed call_2 error",
            "step/interrupted 2 interrupted",
            "turn/ended t1 failed"
        ]
    );
    assert_eq!(
        handle.todos().await.unwrap().len(),
        1,
        "what was recorded is still known"
    );
    home.asks.will([Reply::option(OptionId::AllowOnce)]);
    assert_eq!(run(&handle, "again").await.text, "ok");
    handle.close().await.unwrap();
    let loaded = store::load(&session.session_id, &home.dir_of(&session)).unwrap();
    valid_for_provider(&loaded.agent.context.messages()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn tools_and_checklist_can_be_seen() {
    let home = Home::new();
    let script = "turns: [{steps: [{tool_call: {name: TodoList, args: {todos: [{title: t, status: pending}]}}}]}, {steps: [{text: ok}]}]";
    let (handle, _) = home.create(script).await;
    let names: Vec<String> = handle
        .tools()
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    for name in ["Read", "Write", "Edit", "TodoList", "AskUserQuestion"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    *home.asks.ability.lock().unwrap() = crate::kernel::port::Ability::Unable;
    assert!(
        !handle
            .tools()
            .await
            .unwrap()
            .iter()
            .any(|tool| tool.name == "AskUserQuestion")
    );
    assert!(handle.todos().await.unwrap().is_empty());
    run(&handle, "go").await;
    assert_eq!(handle.todos().await.unwrap()[0].title, "t");
}

#[tokio::test(start_paused = true)]
async fn what_was_read_stays_read_when_the_directories_change() {
    let home = Home::new();
    std::fs::write(home.ws.join("a"), "old\n").unwrap();
    let script = "turns: [{steps: [{tool_call: {name: Read, args: {path: a}}}]}, {steps: [{text: ok}]}, {steps: [{tool_call: {name: Write, \
                  args: {path: a, content: new}}}]}, {steps: [{text: ok}]}]";
    let (handle, _) = home.create(script).await;
    run(&handle, "look").await;
    let additional_dirs = Some(vec![home.ws.display().to_string()]);
    handle
        .set(SessionPatch {
            additional_dirs,
            ..SessionPatch::default()
        })
        .await
        .unwrap();
    run(&handle, "write").await;
    assert_eq!(std::fs::read_to_string(home.ws.join("a")).unwrap(), "new");
}

/// Asks before it runs a command, and then says what it was told.
const ASKS: &str = "turns: [{steps: [{text: Let me}, {tool_call: {name: Bash, args: {command: 'echo one >> ran.txt', \
    description: d}}}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";

/// A session in which a turn waits for an approval that nobody gives.
async fn waiting(home: &Home) -> (crate::session::SessionHandle, Session) {
    let options = CreateOptions {
        mode: Some(Mode::Manual),
        ..home.options(ASKS)
    };
    let (handle, session) = home.sessions.create(options).await.unwrap();
    home.asks.will([Reply::Never]);
    start(&handle, "go", WhenBusy::Reject).await;
    home.events.until("approval/requested a1").await;
    (handle, session)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_leaves_a_waiting_turn_to_the_next() {
    let home = Home::new().again_detached(Config::default());
    let (handle, session) = waiting(&home).await;
    start(&handle, "then", WhenBusy::Queue).await;
    home.events.until("turn/queued t2").await;
    handle.steer(input("mind"), WhenIdle::Reject).await.unwrap();
    within(home.sessions.shutdown(std::time::Duration::from_secs(5))).await;
    assert_eq!(
        home.events
            .only(&["approval/", "tool/", "turn/", "session/closed"]),
        [
            "turn/started t1",
            "tool/delta call_1 ",
            "tool/delta call_1 {\"command\":\"echo one >> ran.txt\",\"description\":\"d\"}",
            "tool/started call_1",
            "approval/requested a1",
            "turn/queued t2",
            "session/closed",
        ]
    );

    let next = home.again_detached(Config::default());
    next.asks.will([Reply::option(OptionId::AllowOnce)]);
    let handle = next.sessions.open(&session.session_id).await.unwrap();
    for turn in ["t1", "t2"] {
        let end = within(handle.wait(turn.into())).await.unwrap();
        assert_eq!(end.reason, TurnReason::Completed);
    }
    assert_eq!(
        next.events.only(&["approval/", "tool/running", "turn/"]),
        [
            "approval/resolved a1 answered",
            "tool/running call_1",
            "turn/steered",
            "turn/ended t1 completed",
            "turn/started t2",
            "turn/ended t2 completed"
        ]
    );
    assert_eq!(
        std::fs::read_to_string(home.ws.join("ran.txt")).unwrap(),
        "one\n"
    );
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_waited_too_long_ends_with_its_turn() {
    let home = Home::new();
    let (_, session) = waiting(&home).await;
    for (ms, goes_on) in [(86_399_000, true), (86_400_000, false)] {
        let later = home.copy();
        later.clock.set_wall(home.clock.now().plus_ms(ms));
        later.asks.will([Reply::Never]);
        let handle = later.sessions.open(&session.session_id).await.unwrap();
        let running = handle.view().await.unwrap().running;
        assert_eq!(running.is_some(), goes_on, "{ms}");
        if !goes_on {
            assert_eq!(
                later.events.only(&["approval/", "tool/", "turn/"]),
                [
                    "approval/resolved a1 withdrawn",
                    "tool/completed call_1 error",
                    "turn/ended t1 failed"
                ]
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_cannot_go_on_ends_when_it_is_loaded() {
    let home = Home::new();
    let (_, session) = waiting(&home).await;
    let broken = Config {
        broken: Some(Broken {
            file: "config.toml".into(),
            line: 3,
            column: 1,
            message: "no".into(),
        }),
        ..Config::default()
    };
    let copy = home.copy();
    let home = copy.again_with(broken);
    let handle = home.sessions.open(&session.session_id).await.unwrap();
    let end = within(handle.wait("t1".into())).await.unwrap();
    assert_eq!(
        (end.reason, end.error.unwrap().kind),
        (TurnReason::Failed, ErrorKind::ConfigInvalid)
    );
}

/// A home as it would be found had its server died right after the first line of the journal that says this.
fn died_after(home: &Home, session: &Session, word: &str) -> Home {
    let died = home.copy();
    let path = super::journal::write::path(&died.dir_of(session));
    let journal = std::fs::read_to_string(&path).unwrap();
    let at = journal.find(word).unwrap();
    let end = at + journal[at..].find('\n').unwrap() + 1;
    std::fs::write(path, &journal[..end]).unwrap();
    died
}

#[tokio::test(start_paused = true)]
async fn what_was_allowed_and_had_not_begun_is_asked_about_again() {
    let home = Home::new();
    let options = CreateOptions {
        mode: Some(Mode::Manual),
        ..home.options(ASKS)
    };
    let (handle, session) = home.sessions.create(options).await.unwrap();
    home.asks.will([Reply::option(OptionId::AllowSession)]);
    run(&handle, "go").await;

    let died = died_after(&home, &session, "\"type\":\"approval_resolved\"");
    died.asks.will([Reply::option(OptionId::Reject)]);
    let handle = died.sessions.open(&session.session_id).await.unwrap();
    let end = within(handle.wait("t1".into())).await.unwrap();
    assert_eq!(end.reason, TurnReason::Completed);
    assert_eq!(
        died.events.only(&["approval/", "tool/"]),
        [
            "approval/requested a2",
            "approval/resolved a2 answered",
            "tool/completed call_1 error"
        ]
    );
    assert!(!died.ws.join("ran.txt").exists());

    // What had begun is not asked about and not run again: its turn is over.
    let died = died_after(&home, &session, "\"type\":\"tool_running\"");
    let handle = died.sessions.open(&session.session_id).await.unwrap();
    assert_eq!(handle.view().await.unwrap().running, None);
    assert_eq!(
        died.events.only(&["approval/", "tool/", "turn/"]),
        ["tool/completed call_1 error", "turn/ended t1 failed"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_allows_ends_an_ask_of_a_dead_server() {
    let home = Home::new();
    let (_, session) = waiting(&home).await;
    let next = home.copy();
    next.asks.will([Reply::Never]);
    let handle = next.sessions.open(&session.session_id).await.unwrap();
    let view = handle.view().await.unwrap();
    assert_eq!(view.session.status, Status::Waiting);
    let mode = SessionPatch {
        mode: Some(Mode::Yolo),
        ..SessionPatch::default()
    };
    handle.set(mode).await.unwrap();
    let end = within(handle.wait("t1".into())).await.unwrap();
    assert_eq!(end.reason, TurnReason::Completed);
    assert_eq!(
        next.events.only(&["approval/", "tool/running"]),
        ["approval/resolved a1 modechanged", "tool/running call_1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_taken_in_is_kept_before_anybody_is_told() {
    let home = Home::new();
    let (handle, session) = home.create(HANGS_FIRST).await;
    start(&handle, "go", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    let queued = handle.start(input("b"), WhenBusy::Queue).await.unwrap();
    // Its event waits for the reply, which is not out.
    let died = home.copy();
    drop(queued);
    // It begins once a host is there.
    let again = died.again();
    *again.asks.ability.lock().unwrap() = Ability::Nobody;
    let handle = again.sessions.open(&session.session_id).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let view = handle.view().await.unwrap();
    assert_eq!((view.queued.len(), view.running), (1, None));
    assert!(again.events.only(&["turn/started"]).is_empty());
    *again.asks.ability.lock().unwrap() = Ability::Able;
    handle.door().look();
    again.events.until("turn/started t2").await;
}
