#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use std::time::Duration;

use futures::FutureExt;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::TaskId;
use longshore_protocol::value::session::Session;
use longshore_protocol::value::task::Status;
use longshore_protocol::value::turn::{CancelTasks, WhenBusy};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::testing::{Home, run, start, within};
use super::{SessionHandle, store, tasks};
use crate::agent::testing::{said, valid_for_provider};
use crate::background::{Whose, Window, WorkerEnd, WorkerSpec};
use crate::kernel::event::DomainEvent;
use crate::kernel::task::TaskDetail;
use crate::kernel::wake::WakeKey;

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";
const WAITS: &str = "turns: [{steps: [{tool_call: {name: WaitFor, args: {timeout: 600}}}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";
const HANGS_FIRST: &str = "turns: [{steps: [{text: Hel}, {hang: true}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";

/// A piece of work in the background that shows a line and ends as it is told to.
async fn work(handle: &SessionHandle, description: &str) -> (TaskId, oneshot::Sender<WorkerEnd>) {
    let (end, ended) = oneshot::channel();
    let spec = WorkerSpec {
        detail: TaskDetail::Question {
            question_count: 1,
            tool_call_id: None,
        },
        description: description.to_owned(),
        owner: "main".into(),
        time_limit: None,
    };
    let started = handle.tasks().start_worker(spec, move |cx| {
        async move {
            cx.show("at it\n");
            tokio::select! {
                Ok(end) = ended => end,
                () = cx.cancel.cancelled() => WorkerEnd::Cancelled { output: String::new() },
            }
        }
        .boxed()
    });
    (started.await.unwrap().id, end)
}

fn completed(output: &str) -> WorkerEnd {
    WorkerEnd::Completed(output.to_owned())
}

async fn until_ended(handle: &SessionHandle, id: &TaskId) {
    let cancel = CancellationToken::new();
    let hour = Duration::from_secs(3600);
    let waiting = handle.tasks().wait(Whose::Anyones, id, hour, &cancel);
    assert!(within(waiting).await.unwrap().status.is_terminal());
}

/// Longer than any gather; time is paused.
async fn quiet(handle: &SessionHandle) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(handle.view().await.unwrap().running, None);
}

/// The notices in the history of a session that is closed.
fn notices(home: &Home, session: &Session) -> Vec<String> {
    let loaded = store::load(&session.session_id, &home.dir_of(session)).unwrap();
    let messages = loaded.agent.context.messages();
    valid_for_provider(&messages).unwrap();
    messages
        .iter()
        .map(|message| said(message))
        .filter(|line| line.starts_with("notice"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_ends_while_idle_begins_one_turn() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    let mut works = Vec::new();
    for name in ["one", "two", "three"] {
        works.push(work(&handle, name).await);
    }
    let ids: Vec<TaskId> = works.iter().map(|(id, _)| id.clone()).collect();
    for (_, end) in works {
        end.send(completed("made it\n")).unwrap();
    }
    home.events.until("turn/ended t1 completed").await;
    quiet(&handle).await;
    let told = home.events.told();
    assert_eq!(told.len(), 1, "{told:?}");
    for id in &ids {
        assert!(told[0].contains(id.as_str()), "{told:?}");
    }
    let lines = home.events.only(&["task/"]);
    for id in &ids {
        let of_it: Vec<_> = lines
            .iter()
            .filter(|line| line.contains(id.as_str()))
            .collect();
        assert_eq!(
            of_it,
            [
                &format!("task/started {id}"),
                &format!("task/ended {id} completed")
            ]
        );
    }
    handle.close().await.unwrap();
    let notices = notices(&home, &session);
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].matches("made it").count(), 3, "{notices:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_wait_told_is_not_told_again() {
    let home = Home::new();
    let (handle, session) = home.create(WAITS).await;
    let (id, end) = work(&handle, "build").await;
    let (other, other_end) = work(&handle, "other").await;
    let started = start(&handle, "go", WhenBusy::Reject).await;
    home.events.until("tool/running call_1").await;
    end.send(completed("made it\n")).unwrap();
    within(handle.wait(started.turn)).await.unwrap();
    quiet(&handle).await;
    assert!(home.events.told().is_empty(), "{:?}", home.events.told());
    assert_eq!(
        home.events.only(&["step/started"]).len(),
        2,
        "no further request"
    );
    let told: Vec<WakeKey> = home
        .events
        .events()
        .iter()
        .flat_map(|stamped| match &stamped.event {
            DomainEvent::ToolCompleted { told, .. } => told.clone(),
            _ => vec![],
        })
        .collect();
    assert_eq!(told, [WakeKey::Task { task: id.clone() }]);
    other_end.send(completed("")).unwrap();
    home.events.until("turn/ended t2 completed").await;
    quiet(&handle).await;
    assert_eq!(home.events.told(), [format!("t2 begins by Task: {other}")]);
    // Nor after a restart.
    handle.close().await.unwrap();
    let again = home.again();
    let handle = again.sessions.open(&session.session_id).await.unwrap();
    run(&handle, "on").await;
    assert!(again.events.told().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_line_loses_nothing_and_doubles_nothing() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    run(&handle, "first").await;
    let (id, end) = work(&handle, "build").await;
    end.send(completed("made it\n")).unwrap();
    home.events.until("turn/ended t2 completed").await;
    run(&handle, "last").await;
    handle.close().await.unwrap();
    let path = home.dir_of(&session).join("journal.jsonl");
    let journal = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let begun = lines
        .iter()
        .position(|line| line.contains("task_started"))
        .unwrap();
    assert!(lines.len() > begun + 8, "{journal}");
    for n in begun + 1..=lines.len() {
        std::fs::write(&path, lines[..n].concat()).unwrap();
        let again = home.again();
        let handle = again.sessions.open(&session.session_id).await.unwrap();
        quiet(&handle).await;
        assert!(
            again.events.only(&["turn/started"]).is_empty(),
            "{n}: a restart begins no turn"
        );
        run(&handle, "on").await;
        run(&handle, "and on").await;
        handle.close().await.unwrap();
        let notices = notices(&home, &session);
        assert_eq!(notices.len(), 1, "{n}: {notices:?}");
        assert!(notices[0].contains(id.as_str()), "{n}: {notices:?}");
        let ends = std::fs::read_to_string(&path).unwrap();
        assert_eq!(ends.matches("task_ended").count(), 1, "{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_close_stopped_is_told_with_the_next_turn() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    let (_, _end) = work(&handle, "server").await;
    let (_, _other_end) = work(&handle, "watcher").await;
    handle.close().await.unwrap();
    assert!(home.events.told().is_empty());
    let again = home.again();
    let handle = again.sessions.open(&session.session_id).await.unwrap();
    quiet(&handle).await;
    assert!(again.events.only(&["turn/"]).is_empty());
    run(&handle, "on").await;
    handle.close().await.unwrap();
    let once = notices(&home, &session);
    assert_eq!(once.len(), 1, "one message for all: {once:?}");
    assert_eq!(
        once[0].matches("the session was closed").count(),
        2,
        "{once:?}"
    );
    let again = home.again();
    let handle = again.sessions.open(&session.session_id).await.unwrap();
    run(&handle, "on").await;
    handle.close().await.unwrap();
    assert_eq!(
        notices(&home, &session),
        once,
        "a second restart adds nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_record_is_lost_once() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    let (id, _end) = work(&handle, "server").await;
    handle.close().await.unwrap();
    let path = home.dir_of(&session).join("journal.jsonl");
    let journal = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let n = lines
        .iter()
        .position(|line| line.contains("task_ended"))
        .unwrap();
    std::fs::write(&path, lines[..n].concat()).unwrap();
    std::fs::remove_dir_all(home.dir_of(&session).join("tasks")).unwrap();
    for n_turns in 1..3 {
        let again = home.again();
        let handle = again.sessions.open(&session.session_id).await.unwrap();
        run(&handle, "on").await;
        let lost = again.events.only(&["task/"]);
        if n_turns == 1 {
            assert_eq!(lost, [format!("task/ended {id} lost")]);
        } else {
            assert!(lost.is_empty(), "{lost:?}");
        }
        handle.close().await.unwrap();
        let notices = notices(&home, &session);
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert!(notices[0].contains("type=\"task.lost\""), "{notices:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_can_end_the_tasks_too() {
    let home = Home::new();
    let (handle, session) = home.create(HANGS_FIRST).await;
    let (kept, _kept_end) = work(&handle, "kept").await;
    start(&handle, "go", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    assert!(handle.cancel(None).await.unwrap());
    home.events.until("turn/ended t1 cancelled").await;
    let running = handle.tasks().get(Whose::Anyones, &kept).unwrap();
    assert!(!running.status.is_terminal(), "a cancel leaves tasks alone");
    assert!(!handle.cancel_with(None, CancelTasks::Stop).await.unwrap());
    home.events
        .until(&format!("task/ended {kept} killed"))
        .await;
    quiet(&handle).await;
    assert!(
        home.events.told().is_empty(),
        "whoever ends everything wants quiet"
    );
    run(&handle, "on").await;
    handle.close().await.unwrap();
    let notices = notices(&home, &session);
    assert_eq!(notices.len(), 1);
    assert!(
        notices[0].contains("reason: stopped by user"),
        "{notices:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn hosts_end_tasks_and_read_them() {
    let home = Home::new();
    let (handle, _) = home.create(SAYS_OK).await;
    let (id, end) = work(&handle, "build").await;
    let hour = Duration::from_secs(3600);
    let read = |offset, wait| tasks::output(handle.tasks(), &id, Window::From(offset), 1000, wait);
    let first = within(read(0, hour)).await.unwrap();
    assert_eq!((first.text.as_str(), first.is_eof), ("at it\n", false));
    let none = within(read(first.next_offset, Duration::ZERO))
        .await
        .unwrap();
    assert_eq!((none.text.as_str(), none.is_eof), ("", false));
    let (rest, ()) = tokio::join!(within(read(first.next_offset, hour)), async {
        tokio::task::yield_now().await;
        end.send(completed("at it\nmade it\n")).unwrap();
    });
    // The output is there before the end is.
    assert_eq!(rest.unwrap().text, "made it\n");
    until_ended(&handle, &id).await;
    let rest = within(read(first.next_offset, hour)).await.unwrap();
    assert!(rest.is_eof && rest.text == "made it\n", "{rest:?}");
    let over = tasks::stop(handle.tasks(), &id, None).await.unwrap_err();
    assert_eq!(over.kind, ErrorKind::TaskFinished);
    let (id, _end) = work(&handle, "server").await;
    let stopped = tasks::stop(handle.tasks(), &id, Some(" ".into()))
        .await
        .unwrap();
    assert_eq!(
        (stopped.status, stopped.stop_reason.as_deref()),
        (Status::Killed, Some("stopped by user"))
    );
    let none = tasks::stop(handle.tasks(), &"bash-00000000".into(), None).await;
    assert_eq!(none.unwrap_err().kind, ErrorKind::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_was_undone_is_told_again_once() {
    let home = Home::new();
    let (handle, session) = home.create(SAYS_OK).await;
    run(&handle, "go").await;
    let (id, end) = work(&handle, "one").await;
    end.send(completed("made it\n")).unwrap();
    home.events.until("turn/ended t2 completed").await;
    quiet(&handle).await;
    assert_eq!(home.events.told().len(), 1);
    let undone = handle.undo(1).await.unwrap();
    assert_eq!(undone.turns, ["t1".into(), "t2".into()]);
    quiet(&handle).await;
    assert_eq!(home.events.told().len(), 1, "an undo begins no turn");
    run(&handle, "again").await;
    run(&handle, "more").await;
    let lines = home.events.told();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("t3 is steered by Task"), "{lines:?}");
    handle.undo(2).await.unwrap();
    handle.close().await.unwrap();
    assert!(notices(&home, &session).is_empty());

    // So it is in another process.
    let again = home.again();
    let handle = again.sessions.open(&session.session_id).await.unwrap();
    run(&handle, "there").await;
    run(&handle, "more").await;
    let lines = again.events.told();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(id.as_str()), "{lines:?}");
    handle.close().await.unwrap();
    assert_eq!(notices(&again, &session).len(), 1);
}
