//! Commands that outlive the server, under a supervisor that is the real binary. The server's side is the library here,
//! so that it can end at any point without taking the test with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore::background::{
    ProcessSpec, StopOptions, TaskLimits, TaskSink, TaskSlots, Tasks, TasksParts, Which, Whose,
    end_supervised,
};
use longshore::kernel::task::{TaskInfo, TaskStatus};
use longshore::os::clock::SystemClock;
use longshore::os::fs::Durability;
use longshore::os::ids::RandomIds;
use longshore::os::process::{Command, Processes};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::Scratch;
use crate::support::processes::Mark;

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl TaskSink for Heard {
    fn started(&self, info: &TaskInfo) {
        self.0.lock().unwrap().push(format!("started {}", info.id));
    }

    fn updated(&self, _: &TaskInfo) {}

    fn ended(&self, info: &TaskInfo, tail: &str) {
        let line = format!("ended {} {} {tail:?}", info.id, info.status.as_str());
        self.0.lock().unwrap().push(line);
    }
}

struct Server {
    tasks: Tasks,
    heard: Arc<Heard>,
    processes: Processes,
}

impl Server {
    /// One that knows what an earlier one has left.
    async fn start(dir: &Path) -> Self {
        let heard = Arc::new(Heard::default());
        let processes = Processes::new(None);
        let tasks = Tasks::open(TasksParts {
            dir: dir.to_owned(),
            limits: TaskLimits {
                grace: Duration::from_millis(300),
                ..TaskLimits::default()
            },
            slots: TaskSlots::new(64),
            processes: processes.clone(),
            clock: SystemClock::shared(),
            ids: RandomIds::shared(),
            sink: heard.clone(),
            tracker: TaskTracker::new(),
            durability: Durability::Disk,
            supervisor: Some(PathBuf::from(env!("CARGO_BIN_EXE_longshore"))),
        });
        tasks.reconcile().await;
        Self {
            tasks,
            heard,
            processes,
        }
    }

    async fn run(&self, scratch: &Scratch, script: &str) -> TaskInfo {
        let command = Command::new("/bin/bash", scratch.repository())
            .args(["-c", script])
            .env([
                ("PATH", "/usr/local/bin:/usr/bin:/bin"),
                (Mark::NAME, scratch.mark.value()),
            ]);
        let spec = ProcessSpec {
            command,
            command_line: script.to_owned(),
            cwd: scratch.repository(),
            description: "a test".to_owned(),
            owner: "main".into(),
            time_limit: None,
            detach_at_limit: false,
            time_limit_detached: None,
            output_kill_bytes: None,
            keep_survivors: true,
        };
        self.tasks.start_process(spec).await.unwrap()
    }

    async fn end_of(&self, task: &TaskInfo) -> TaskInfo {
        let never = CancellationToken::new();
        let wait = self.tasks.wait(Whose::Anyones, &task.id, PATIENCE, &never);
        let info = wait.await.unwrap();
        assert!(info.status.is_terminal(), "{info:?}");
        info
    }

    /// Ends as a server does: all that is not meant to stay goes.
    async fn end(self) {
        self.tasks.close("session closed", PATIENCE).await;
        self.processes.kill_all(Duration::ZERO).await;
    }

    fn told(&self) -> Vec<String> {
        self.heard.0.lock().unwrap().clone()
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < end, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn log(dir: &Path, task: &TaskInfo) -> String {
    fs::read_to_string(dir.join(task.id.as_str()).join("output.log")).unwrap_or_default()
}

#[tokio::test]
async fn a_command_goes_on_when_its_server_ends() {
    let scratch = Scratch::new();
    let dir = scratch.root().join("tasks");
    let script = "echo a; while [ ! -e gate ]; do sleep 0.05; done; echo b; exit 3";
    let first = Server::start(&dir).await;
    let task = first.run(&scratch, script).await;
    assert_eq!(first.told(), [format!("started {}", task.id)]);
    until("its first line", || log(&dir, &task) == "a\n").await;
    first.end().await;

    let second = Server::start(&dir).await;
    let [same] = &second.tasks.list(Whose::Anyones, Which::Active)[..] else {
        panic!("it still runs")
    };
    assert_eq!((&same.id, same.status), (&task.id, TaskStatus::Running));
    assert!(second.told().is_empty(), "its start was told already");
    assert_eq!(second.tasks.n_running(), 1);
    scratch.write("gate", "");
    let ended = second.end_of(&task).await;
    let detail = ended.process().unwrap();
    assert_eq!(
        (ended.status, detail.exit_code),
        (TaskStatus::Failed, Some(3))
    );
    assert_eq!(ended.output.size_bytes, 4);
    assert_eq!(log(&dir, &task), "a\nb\n");
    assert_eq!(
        second.told(),
        [format!("ended {} failed \"a\\nb\\n\"", task.id)]
    );
    second.end().await;
    scratch.mark.assert_gone(&[], PATIENCE);
}

#[tokio::test]
async fn an_end_that_no_server_saw_is_known_later() {
    let scratch = Scratch::new();
    let dir = scratch.root().join("tasks");
    let first = Server::start(&dir).await;
    let script = "while [ ! -e gate ]; do sleep 0.05; done; echo done";
    let task = first.run(&scratch, script).await;
    first.end().await;
    scratch.write("gate", "");
    scratch.mark.assert_gone(&[], PATIENCE);
    let second = Server::start(&dir).await;
    let ended = second.end_of(&task).await;
    let exit_code = ended.process().unwrap().exit_code;
    assert_eq!((ended.status, exit_code), (TaskStatus::Completed, Some(0)));
    assert_eq!(
        second.told(),
        [format!("ended {} completed \"done\\n\"", task.id)]
    );
    let third = Server::start(&dir).await;
    assert!(third.told().is_empty());
}

#[tokio::test]
async fn it_is_stopped_whole_by_a_later_server() {
    let scratch = Scratch::new();
    let dir = scratch.root().join("tasks");
    let first = Server::start(&dir).await;
    let script = "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 600; sleep 600\" & (setsid sleep 600 > /dev/null &); \
                  echo up; sleep 600; sleep 600";
    let task = first.run(&scratch, script).await;
    until("its first line", || log(&dir, &task) == "up\n").await;
    first.end().await;
    let second = Server::start(&dir).await;
    let stop = StopOptions {
        reason: Some("enough".to_owned()),
        suppress: false,
    };
    let stopped = second
        .tasks
        .stop(Whose::Anyones, &task.id, stop)
        .await
        .unwrap();
    assert_eq!(
        (stopped.status, stopped.stop_reason.as_deref()),
        (TaskStatus::Killed, Some("enough"))
    );
    scratch.mark.assert_gone(&[], PATIENCE);
}

#[tokio::test]
async fn without_its_supervisor_it_is_lost_and_ended() {
    let scratch = Scratch::new();
    let dir = scratch.root().join("tasks");
    let first = Server::start(&dir).await;
    let task = first.run(&scratch, "sleep 600").await;
    first.end().await;
    let runtime = fs::read_to_string(dir.join(task.id.as_str()).join("runtime.json")).unwrap();
    let runtime: serde_json::Value = serde_json::from_str(&runtime).unwrap();
    let supervisor = Pid::from_raw(runtime["supervisor_pid"].as_i64().unwrap() as i32).unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    let second = Server::start(&dir).await;
    assert_eq!(second.end_of(&task).await.status, TaskStatus::Lost);
    assert_eq!(second.told(), [format!("ended {} lost \"\"", task.id)]);
    scratch.mark.assert_gone(&[], PATIENCE);
}

#[tokio::test]
async fn a_removed_session_takes_it_along() {
    let scratch = Scratch::new();
    let dir = scratch.root().join("tasks");
    let server = Server::start(&dir).await;
    server.run(&scratch, "sleep 600").await;
    server.end().await;
    let processes = Processes::new(None);
    let now = SystemClock::shared().now();
    end_supervised(dir, &processes, now, Duration::from_millis(300)).await;
    scratch.mark.assert_gone(&[], PATIENCE);
}
