//! Tasks over real processes. Nothing is waited for by sleeping.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use longshore_protocol::id::TaskId;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::testing::{Heard, Told, parts};
use super::*;
use crate::kernel::task::{TaskDetail, TaskInfo, TaskStatus};
use crate::os::process::{Chunk, Command};

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    dir: TempDir,
    heard: Arc<Heard>,
    tasks: Tasks,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut TasksParts)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let heard = Arc::new(Heard::default());
        let mut parts = parts(&dir.path().join("tasks"), heard.clone());
        change(&mut parts);
        Self {
            dir,
            heard,
            tasks: Tasks::open(parts),
        }
    }

    fn dir(&self) -> PathBuf {
        self.dir.path().join("tasks")
    }

    async fn start(&self, script: &str) -> TaskInfo {
        self.tasks.start_process(spec(script)).await.unwrap()
    }

    async fn end_of(&self, id: &TaskId) -> TaskInfo {
        let never = CancellationToken::new();
        let wait = self.tasks.wait(Whose::Anyones, id, PATIENCE, &never);
        let info = wait.await.unwrap();
        assert!(info.status.is_terminal(), "{info:?}");
        info
    }

    /// Waits until a task has written this.
    async fn wrote(&self, id: &TaskId, text: &str) {
        let never = CancellationToken::new();
        let mut seen = 0;
        loop {
            let slice = self
                .tasks
                .output(Whose::Anyones, id, Window::From(0), 1 << 20);
            let slice = slice.await.unwrap();
            if String::from_utf8_lossy(&slice.bytes).contains(text) {
                return;
            }
            assert!(slice.total_bytes >= seen);
            seen = slice.total_bytes;
            let more = self
                .tasks
                .wait_output(Whose::Anyones, id, seen, PATIENCE, &never);
            let info = more.await.unwrap();
            assert!(info.output.size_bytes > seen, "{info:?} never wrote {text}");
        }
    }
}

fn spec(script: &str) -> ProcessSpec {
    let command = Command::new("/bin/sh", "/")
        .args(["-c", script])
        .env([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    ProcessSpec {
        command,
        command_line: script.to_owned(),
        cwd: "/".into(),
        description: "a test".to_owned(),
        owner: "main".into(),
        time_limit: None,
        detach_at_limit: false,
        time_limit_detached: None,
        output_kill_bytes: None,
        keep_survivors: true,
    }
}

/// Sees everything a command writes.
struct WholeTap {
    seen: Vec<u8>,
    wants_log: bool,
    needs_log: bool,
    done: oneshot::Sender<(Vec<u8>, Released)>,
}

fn tap(wants_log: bool) -> (Box<WholeTap>, oneshot::Receiver<(Vec<u8>, Released)>) {
    let (done, released) = oneshot::channel();
    let tap = WholeTap {
        seen: Vec::new(),
        wants_log,
        needs_log: wants_log,
        done,
    };
    (Box::new(tap), released)
}

impl Tap for WholeTap {
    fn output(&mut self, chunk: &Chunk) {
        self.seen.extend_from_slice(&chunk.bytes);
    }

    fn wants_log(&self) -> bool {
        self.wants_log
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    fn flush(&mut self) {}

    fn stopping(&mut self) {}

    fn settle(&mut self, _: &mut Ring) -> bool {
        self.needs_log
    }

    fn release(self: Box<Self>, released: Released) {
        let _ = self.done.send((self.seen, released));
    }
}

async fn released(done: oneshot::Receiver<(Vec<u8>, Released)>) -> (String, Released) {
    let (seen, released) = tokio::time::timeout(PATIENCE, done).await.unwrap().unwrap();
    (String::from_utf8(seen).unwrap(), released)
}

fn read(path: &Path) -> String {
    crate::os::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn ends_of_background_commands() {
    let bench = Bench::new();
    for (script, status, code, signal) in [
        ("echo hi", TaskStatus::Completed, Some(0), None),
        ("echo hi; exit 3", TaskStatus::Failed, Some(3), None),
        (
            "echo hi; kill -9 $$",
            TaskStatus::Failed,
            None,
            Some("SIGKILL"),
        ),
    ] {
        let started = bench.start(script).await;
        assert_eq!(started.status, TaskStatus::Running);
        assert!(started.detached && started.process().unwrap().pid.is_some());
        let ended = bench.end_of(&started.id).await;
        assert_eq!(ended.status, status, "{script}");
        let detail = ended.process().unwrap();
        assert_eq!((detail.exit_code, detail.signal.as_deref()), (code, signal));
        assert_eq!(ended.output.size_bytes, 3);
        assert_eq!(read(ended.output.log_path.as_ref().unwrap()), "hi\n");
        let told = bench.heard.told();
        let told: Vec<_> = told
            .iter()
            .filter(|told| match told {
                Told::Started(info) | Told::Updated(info) | Told::Ended(info, _) => {
                    info.id == started.id
                }
            })
            .collect();
        assert_eq!(
            told,
            [
                &Told::Started(started.clone()),
                &Told::Ended(ended.clone(), "hi\n".to_owned())
            ]
        );
    }
    let all = bench.tasks.list(Whose::Anyones, Which::All);
    assert_eq!(all.len(), 3);
    assert!(all.is_sorted_by(|newer, older| newer.started_at >= older.started_at));
    assert!(bench.tasks.list(Whose::Anyones, Which::Active).is_empty());
    assert_eq!(bench.tasks.n_running(), 0);
}

#[tokio::test]
async fn a_stop_is_joined_and_keeps_its_first_reason() {
    let bench = Bench::new();
    let task = bench.start("echo up; sleep 600").await;
    bench.wrote(&task.id, "up").await;
    let stop = |reason: &str| StopOptions {
        reason: Some(reason.to_owned()),
        suppress: true,
    };
    let first = bench.tasks.stop(Whose::Anyones, &task.id, stop("one"));
    let second = bench.tasks.stop(Whose::Anyones, &task.id, stop(" "));
    let (first, second) = tokio::join!(first, second);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first, second);
    assert_eq!(first.status, TaskStatus::Killed);
    assert_eq!(first.stop_reason.as_deref(), Some("one"));
    assert!(first.suppressed);
    let again = bench.tasks.stop(Whose::Anyones, &task.id, stop("late"));
    assert_eq!(again.await.unwrap(), first);
    let unknown = TaskId::from("bash-00000000");
    let none = bench.tasks.stop(Whose::Anyones, &unknown, stop("x")).await;
    assert_eq!(none, Err(TaskError::NotFound(unknown)));
    assert_eq!(bench.heard.ended(1).await.len(), 1);
}

#[tokio::test]
async fn the_last_slot_goes_to_one_start() {
    let bench = Bench::with(|parts| parts.limits.max_running = 1);
    let marker = bench.dir.path().join("started");
    let script = format!("echo >> {}; sleep 600", marker.display());
    let starts =
        futures::future::join_all((0..5).map(|_| bench.tasks.start_process(spec(&script))));
    let (ok, refused): (Vec<_>, Vec<_>) = starts.await.into_iter().partition(Result::is_ok);
    assert_eq!((ok.len(), refused.len()), (1, 4));
    for error in refused {
        let error = error.unwrap_err();
        assert!(
            matches!(error, StartError::LimitExceeded { running: 1, max: 1 }),
            "{error}"
        );
    }
    // Attached ones are not counted.
    let (tap, done) = tap(false);
    let attached = bench
        .tasks
        .run_process(spec("echo free"), tap)
        .await
        .unwrap();
    assert_eq!(released(done).await.0, "free\n");
    drop(attached);
    let id = ok[0].as_ref().unwrap().id.clone();
    let stopped = bench
        .tasks
        .stop(Whose::Anyones, &id, StopOptions::default());
    assert_eq!(stopped.await.unwrap().status, TaskStatus::Killed);
    bench.start("true").await;
}

#[tokio::test]
async fn an_attached_command_leaves_nothing_behind() {
    let bench = Bench::new();
    let (tap, done) = tap(false);
    let attached = bench
        .tasks
        .run_process(spec("echo a; exit 4"), tap)
        .await
        .unwrap();
    let id = attached.id().clone();
    let (seen, released) = released(done).await;
    assert_eq!((seen.as_str(), released.why), ("a\n", Why::Ended));
    assert_eq!(released.info.status, TaskStatus::Failed);
    drop(attached);
    assert!(bench.heard.told().is_empty() && !bench.dir().exists());
    assert!(bench.tasks.get(Whose::Anyones, &id).is_err());
}

#[tokio::test]
async fn an_attached_command_whose_output_is_not_shown_whole_keeps_its_log() {
    let bench = Bench::new();
    let (tap, done) = tap(true);
    let attached = bench.tasks.run_process(spec("echo a"), tap).await.unwrap();
    let (_, released) = released(done).await;
    let path = released.info.output.log_path.unwrap();
    assert_eq!(read(&path), "a\n");
    let kept = bench.tasks.get(Whose::Anyones, attached.id()).unwrap();
    assert!(!kept.detached && bench.heard.told().is_empty());
    assert!(bench.tasks.list(Whose::Anyones, Which::All).is_empty());
}

#[tokio::test]
async fn detaching_keeps_output_whole_and_in_order() {
    let bench = Bench::new();
    let gate = bench.dir.path().join("gate");
    let script = format!(
        "echo A; while [ ! -e {0} ]; do sleep 0.05; done; echo B",
        gate.display()
    );
    let (tap, done) = tap(false);
    let limited = ProcessSpec {
        time_limit: Some(Duration::from_secs(3600)),
        time_limit_detached: Some(Duration::from_secs(7200)),
        ..spec(&script)
    };
    let attached = bench.tasks.run_process(limited, tap).await.unwrap();
    bench.wrote(attached.id(), "A").await;
    assert_eq!(bench.tasks.n_running(), 0);
    let detached = bench
        .tasks
        .detach(Whose::Anyones, attached.id())
        .await
        .unwrap();
    assert_eq!(
        (detached.detached, detached.timeout_ms),
        (true, Some(7_200_000))
    );
    let (seen, released) = released(done).await;
    assert_eq!(seen, "A\n");
    assert_eq!(released.why, Why::Detached(DetachCause::Host));
    assert_eq!(bench.tasks.n_running(), 1);
    // Its call is gone, and it goes on.
    let id = attached.id().clone();
    drop(attached);
    let again = bench.tasks.detach(Whose::Anyones, &id).await.unwrap();
    assert_eq!(again.status, TaskStatus::Running);
    crate::os::fs::write_private(&gate, b"").unwrap();
    let ended = bench.end_of(&id).await;
    assert_eq!(ended.status, TaskStatus::Completed);
    assert_eq!(read(ended.output.log_path.as_ref().unwrap()), "A\nB\n");
    let told = bench.heard.told();
    assert!(matches!(told.first(), Some(Told::Started(_))));
    assert_eq!(bench.heard.ended(1).await[0].1, "A\nB\n");
}

#[tokio::test]
async fn time_limits_detach_or_end() {
    let bench = Bench::new();
    let limited = |detach_at_limit| ProcessSpec {
        time_limit: Some(Duration::from_millis(100)),
        detach_at_limit,
        ..spec("echo A; sleep 600")
    };
    let (first, done) = tap(false);
    let ended = bench
        .tasks
        .run_process(limited(false), first)
        .await
        .unwrap();
    let (_, seen) = released(done).await;
    assert_eq!(
        (seen.why, seen.info.status),
        (Why::Ended, TaskStatus::TimedOut)
    );
    drop(ended);
    let (second, done) = tap(false);
    let going = bench
        .tasks
        .run_process(limited(true), second)
        .await
        .unwrap();
    let (_, seen) = released(done).await;
    assert_eq!(seen.why, Why::Detached(DetachCause::TimeLimit));
    assert_eq!(
        (seen.info.status, seen.info.timeout_ms),
        (TaskStatus::Running, None)
    );
    drop(going);
    let task = bench.tasks.start_process(limited(true)).await.unwrap();
    assert_eq!(bench.end_of(&task.id).await.status, TaskStatus::TimedOut);
    bench.tasks.close("over", PATIENCE).await;
}

#[tokio::test]
async fn a_dropped_call_ends_its_command() {
    let bench = Bench::new();
    let (tap, done) = tap(false);
    let attached = bench
        .tasks
        .run_process(spec("echo up; sleep 600"), tap)
        .await
        .unwrap();
    bench.wrote(attached.id(), "up").await;
    drop(attached);
    let (_, released) = released(done).await;
    assert_eq!(released.cause, Some(StopCause::Asked));
    bench.tasks.close("over", PATIENCE).await;
    assert!(bench.tasks.list(Whose::Anyones, Which::Active).is_empty());
}

#[tokio::test]
async fn what_a_command_leaves_running_is_a_task() {
    let bench = Bench::new();
    let gate = bench.dir.path().join("gate");
    let script = format!(
        "(while [ ! -e {0} ]; do sleep 0.05; done; echo late) & echo now",
        gate.display()
    );
    let (tap, done) = tap(false);
    let attached = bench.tasks.run_process(spec(&script), tap).await.unwrap();
    let id = attached.id().clone();
    let (seen, released) = released(done).await;
    assert_eq!(seen, "now\n");
    assert_eq!(released.info.status, TaskStatus::Completed);
    let residual = released.residual.unwrap();
    assert_eq!(residual.parent, Some(id));
    drop(attached);
    let listed = bench.tasks.list(Whose::Anyones, Which::Active);
    assert_eq!(
        listed.iter().map(|info| &info.id).collect::<Vec<_>>(),
        [&residual.id]
    );
    crate::os::fs::write_private(&gate, b"").unwrap();
    let ended = bench.end_of(&residual.id).await;
    assert_eq!(
        (ended.status, ended.process().unwrap().exit_code),
        (TaskStatus::Completed, None)
    );
    assert_eq!(read(ended.output.log_path.as_ref().unwrap()), "late\n");

    let left = bench.start("sleep 600 & echo done").await;
    bench.end_of(&left.id).await;
    let [residual] = &bench.tasks.list(Whose::Anyones, Which::Active)[..] else {
        panic!("one is left")
    };
    let stopped = bench
        .tasks
        .stop(Whose::Anyones, &residual.id, StopOptions::default());
    assert_eq!(stopped.await.unwrap().status, TaskStatus::Killed);
}

#[tokio::test]
async fn agents_see_their_own() {
    let bench = Bench::new();
    let task = bench.start("sleep 600").await;
    let (main, child) = ("main".into(), "sub-1".into());
    let foreign = Whose::Of(&child);
    assert!(bench.tasks.list(foreign, Which::All).is_empty());
    assert!(bench.tasks.get(foreign, &task.id).is_err());
    assert!(bench.tasks.detach(foreign, &task.id).await.is_err());
    let stop = bench.tasks.stop(foreign, &task.id, StopOptions::default());
    assert!(stop.await.is_err());
    let never = CancellationToken::new();
    assert!(
        bench
            .tasks
            .wait(foreign, &task.id, PATIENCE, &never)
            .await
            .is_err()
    );
    assert_eq!(bench.tasks.wait_any(foreign, PATIENCE, &never).await, None);
    assert!(bench.tasks.wait_all(foreign, PATIENCE, &never).await);
    assert_eq!(bench.tasks.hand_over(&main, &child).len(), 1);
    assert_eq!(bench.tasks.get(foreign, &task.id).unwrap().owner, child);
    bench.tasks.close("over", PATIENCE).await;
    let closed = bench.tasks.get(foreign, &task.id).unwrap();
    assert_eq!(
        (closed.status, closed.suppressed),
        (TaskStatus::Killed, true)
    );
    assert_eq!(closed.stop_reason.as_deref(), Some("over"));
    let refused = bench.tasks.start_process(spec("true")).await;
    assert!(matches!(refused, Err(StartError::Closed)));
}

#[tokio::test]
async fn outputs_are_read_by_offset() {
    let bench = Bench::new();
    let task = bench.start("seq 1 300000").await;
    let ended = bench.end_of(&task.id).await;
    let expected: String = (1..=300_000).map(|n| n.to_string() + "\n").collect();
    assert_eq!(ended.output.size_bytes, expected.len() as u64);
    let (mut offset, mut seen) = (0, Vec::new());
    loop {
        let part = bench
            .tasks
            .output(Whose::Anyones, &task.id, Window::From(offset), 300_000)
            .await
            .unwrap();
        assert_eq!(part.start, offset);
        offset = part.next_offset();
        let is_end = part.is_at_end();
        seen.extend(part.bytes);
        if is_end {
            break;
        }
    }
    assert!(seen == expected.as_bytes());
    let tail = bench
        .tasks
        .output(Whose::Anyones, &task.id, Window::Tail, 10);
    assert_eq!(tail.await.unwrap().bytes, b"99\n300000\n"[..].to_vec());
    let past = bench
        .tasks
        .output(Whose::Anyones, &task.id, Window::From(1 << 40), 10);
    let past = past.await.unwrap();
    assert!(past.bytes.is_empty() && past.is_at_end());
}

#[tokio::test]
async fn a_log_beyond_its_cap_keeps_both_ends_while_it_grows() {
    let bench = Bench::with(|parts| parts.limits.log_max_bytes = 4 << 20);
    let gate = bench.dir.path().join("gate");
    let script = format!(
        "yes 0123456 | head -c 12000000; echo; echo full; while [ ! -e {0} ]; do sleep 0.05; done",
        gate.display()
    );
    let task = bench.start(&script).await;
    let never = CancellationToken::new();
    let total = 12_000_000 + 6;
    bench
        .tasks
        .wait_output(Whose::Anyones, &task.id, total - 1, PATIENCE, &never)
        .await
        .unwrap();
    let check = async || {
        for (from, expected) in [(0, 0), (1 << 20, total - (3 << 20)), (total - 6, total - 6)] {
            let part = bench
                .tasks
                .output(Whose::Anyones, &task.id, Window::From(from), 4096);
            let part = part.await.unwrap();
            // While it runs the log may lag behind by what is queued.
            assert!(
                part.start <= expected && part.start + (1 << 20) > expected,
                "{from}: {}",
                part.start
            );
            let line = b"0123456\n";
            let wanted: Vec<u8> = (part.start..part.next_offset())
                .map(|at| match total - 6 - at.min(total - 6) {
                    0 => b"\nfull\n"[(at - (total - 6)) as usize],
                    _ => line[(at % 8) as usize],
                })
                .collect();
            assert!(part.bytes == wanted, "from {from}");
        }
    };
    check().await;
    crate::os::fs::write_private(&gate, b"").unwrap();
    let ended = bench.end_of(&task.id).await;
    assert_eq!(ended.output.log_gap_bytes, total - (4 << 20));
    let file = crate::os::fs::metadata(ended.output.log_path.as_ref().unwrap()).unwrap();
    assert_eq!(file.len(), 4 << 20);
    check().await;
}

#[tokio::test]
async fn the_oldest_logs_make_room() {
    let bench = Bench::with(|parts| parts.limits.session_log_budget = 3 << 20);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let task = bench.start("head -c 1500000 /dev/zero").await;
        bench.end_of(&task.id).await;
        ids.push(task.id);
    }
    let removed: Vec<_> = ids
        .iter()
        .map(|id| {
            bench
                .tasks
                .get(Whose::Anyones, id)
                .unwrap()
                .output
                .log_removed
        })
        .collect();
    assert_eq!(removed, [true, false, false]);
    assert!(
        !bench
            .dir()
            .join(ids[0].as_str())
            .join("output.log")
            .exists()
    );
    let greedy = bench.start("head -c 5000000 /dev/zero").await;
    let greedy = bench.end_of(&greedy.id).await;
    let problem = greedy.output.log_problem.unwrap();
    assert!(
        problem.contains("have used up their 3145728 bytes"),
        "{problem}"
    );
    assert_eq!(
        (greedy.status, greedy.output.size_bytes),
        (TaskStatus::Completed, 5_000_000)
    );
}

#[tokio::test]
async fn work_that_is_no_process() {
    let bench = Bench::with(|parts| parts.limits.grace = Duration::from_millis(50));
    let spec = |time_limit| WorkerSpec {
        detail: TaskDetail::Question {
            question_count: 1,
            tool_call_id: None,
        },
        description: "ask".to_owned(),
        owner: "main".into(),
        time_limit,
    };
    let short = Some(Duration::from_millis(20));
    let start = |limit, work: fn(WorkerCx) -> futures::future::BoxFuture<'static, WorkerEnd>| {
        bench.tasks.start_worker(spec(limit), work)
    };
    let stop = async |id: &TaskId| {
        let options = StopOptions::default();
        bench.tasks.stop(Whose::Anyones, id, options).await.unwrap()
    };
    let done = start(None, |cx| {
        async move {
            cx.show("thinking");
            WorkerEnd::Completed("yes".to_owned())
        }
        .boxed()
    });
    let done = bench.end_of(&done.await.unwrap().id).await;
    assert_eq!(done.status, TaskStatus::Completed);
    assert_eq!(read(done.output.log_path.as_ref().unwrap()), "yes");
    let failed = start(None, |_| {
        let message = "no".to_owned();
        let output = String::new();
        std::future::ready(WorkerEnd::Failed { message, output }).boxed()
    });
    let failed = bench.end_of(&failed.await.unwrap().id).await;
    assert_eq!(
        (failed.status, failed.stop_reason.as_deref()),
        (TaskStatus::Failed, Some("no"))
    );
    let panicked = start(None, |_| async { panic!("oh") }.boxed());
    let panicked = bench.end_of(&panicked.await.unwrap().id).await;
    assert_eq!(panicked.stop_reason.as_deref(), Some("internal error: oh"));
    let late = start(short, |_| std::future::pending().boxed());
    assert_eq!(
        bench.end_of(&late.await.unwrap().id).await.status,
        TaskStatus::TimedOut
    );
    let obeys = start(None, |cx| {
        async move {
            cx.cancel.cancelled().await;
            WorkerEnd::Cancelled {
                output: "half".to_owned(),
            }
        }
        .boxed()
    });
    let obeyed = stop(&obeys.await.unwrap().id).await;
    assert_eq!(obeyed.status, TaskStatus::Killed);
    assert_eq!(read(obeyed.output.log_path.as_ref().unwrap()), "half");
    let finishes = start(None, |cx| {
        async move {
            cx.cancel.cancelled().await;
            WorkerEnd::Completed("all the same".to_owned())
        }
        .boxed()
    });
    assert_eq!(
        stop(&finishes.await.unwrap().id).await.status,
        TaskStatus::Completed
    );
    let stubborn = start(None, |_| std::future::pending().boxed());
    assert_eq!(
        stop(&stubborn.await.unwrap().id).await.status,
        TaskStatus::Killed
    );
    assert_eq!(bench.heard.ended(7).await.len(), 7);
}

/// A copy of what a manager has left on the disk, for one that comes after it.
fn copied(bench: &Bench) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("tasks");
    crate::os::fs::create_private_dirs(&to).unwrap();
    for entry in crate::os::fs::list_dir(&bench.dir()).unwrap() {
        let (from, to) = (bench.dir().join(&entry.name), to.join(&entry.name));
        let bytes = crate::os::fs::read(&from.join("output.log"));
        if let Ok(bytes) = bytes {
            crate::os::fs::create_private_dirs(&to).unwrap();
            crate::os::fs::write_private(&to.join("output.log"), &bytes).unwrap();
        } else if let Ok(bytes) = crate::os::fs::read(&from) {
            crate::os::fs::write_private(&to, &bytes).unwrap();
        }
    }
    dir
}

#[tokio::test]
async fn what_ran_when_the_server_died_is_lost_once() {
    let first = Bench::new();
    let task = first.start("echo out; sleep 600").await;
    first.wrote(&task.id, "out").await;
    // What is in no group of a marked leader any more, and has wiped its mark.
    let parent = first.start("env -i /bin/sleep 600 & echo left").await;
    first.end_of(&parent.id).await;
    let running = first.tasks.list(Whose::Anyones, Which::Active);
    assert_eq!(running.len(), 2, "{running:?}");
    let log = first.dir().join(task.id.as_str()).join("output.log");
    while crate::os::fs::read(&log).unwrap_or_default() != b"out\n" {
        tokio::task::yield_now().await;
    }

    let dir = copied(&first);
    let foreign = dir.path().join("tasks");
    for (name, content) in [
        ("bash-badjson0.json", "{"),
        ("bash-foreign0.json", r#"{"id":"bash-other000"}"#),
        ("..-0000000x.json", "{}"),
        ("notes.txt", "mine"),
    ] {
        crate::os::fs::write_private(&foreign.join(name), content.as_bytes()).unwrap();
    }
    let heard = Arc::new(Heard::default());
    let second = Tasks::open(parts(&foreign, heard.clone()));
    let lost = second.reconcile().await;
    assert_eq!(lost.len(), 2, "{lost:?}");
    for info in &lost {
        assert_eq!(info.status, TaskStatus::Lost);
        assert!(info.ended_at.is_some() && info.detached);
        // Their processes are gone, as their first manager sees too.
        first.end_of(&info.id).await;
    }
    let ended = heard.ended(2).await;
    assert_eq!(ended[0].1, "out\n");
    assert_eq!(read(ended[0].0.output.log_path.as_ref().unwrap()), "out\n");
    assert!(second.reconcile().await.is_empty());
    let heard = Arc::new(Heard::default());
    let third = Tasks::open(parts(&foreign, heard.clone()));
    assert!(third.reconcile().await.is_empty() && heard.told().is_empty());
    let all = third.list(Whose::Anyones, Which::All);
    assert_eq!(all.len(), 3);
    let known = third.get(Whose::Anyones, &task.id).unwrap();
    assert_eq!(
        (known.status, known.stop_reason.as_deref()),
        (TaskStatus::Lost, Some("the server ended while it ran"))
    );
    let tail = third.output(Whose::Anyones, &task.id, Window::Tail, 100);
    assert_eq!(tail.await.unwrap().bytes, b"out\n");
}

#[tokio::test]
async fn a_thousand_short_tasks_end_once_each() {
    let n: usize = crate::os::env::Env::of_process()
        .get("LONGSHORE_TEST_SCALE")
        .map_or(60, |_| 1000);
    let bench = Bench::with(|parts| parts.limits.max_running = 1000);
    let script = "sleep 0.01; echo done";
    let starts = (0..n).map(|_| bench.tasks.start_process(spec(script)));
    let started = futures::future::join_all(starts).await;
    let ids: std::collections::HashSet<_> =
        started.into_iter().map(|info| info.unwrap().id).collect();
    let ended = bench.heard.ended(n).await;
    assert_eq!((ids.len(), ended.len()), (n, n));
    for (info, tail) in ended {
        assert_eq!(
            (info.status, tail.as_str()),
            (TaskStatus::Completed, "done\n")
        );
        assert!(ids.contains(&info.id));
        // Whoever is told finds the output where it is said to be.
        assert_eq!(read(info.output.log_path.as_ref().unwrap()), "done\n");
    }
}

#[tokio::test]
async fn a_process_killed_by_others_has_failed() {
    let bench = Bench::new();
    let task = bench.start("sleep 600").await;
    let pid = task.process().unwrap().pid.unwrap();
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let ended = bench.end_of(&task.id).await;
    let detail = ended.process().unwrap();
    assert_eq!(
        (ended.status, detail.signal.as_deref()),
        (TaskStatus::Failed, Some("SIGKILL"))
    );
    let stop = bench
        .tasks
        .stop(Whose::Anyones, &task.id, StopOptions::default());
    assert_eq!(stop.await.unwrap(), ended);
}
