//! Commands and tasks, through the library: the server's own process is what is measured.

use std::fs;
use std::path::PathBuf;
use std::process::{Command as OsCommand, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore::background::{
    ProcessSpec, TaskLimits, TaskSlots, Tasks, TasksParts, Unheard, Whose,
};
use longshore::config::values::{ShellConfig, TaskConfig};
use longshore::kernel::access::RealAccess;
use longshore::os::clock::SystemClock;
use longshore::os::env::Env;
use longshore::os::fs::Durability;
use longshore::os::ids::RandomIds;
use longshore::os::process::{Command, Processes};
use longshore::path::Workspace;
use longshore::tool::shell::{Bash, Shell};
use longshore::tool::{CallCx, ExecCx, Outcome, Progress, Tool};
use longshore_protocol::value::tool::ProgressStream;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Size;
use super::figures::median;
use super::table::{Bar, Table};

/// Measures every row.
pub(crate) fn measure(size: Size, table: &mut Table) {
    let bench = Bench::new();
    bench.thousand_tasks(size, table);
    bench.calls(size, table);
    bench.throughput(size, table);
    let overhead = bench.overhead(size);
    table.row(
        "starting a command, over a bare `bash -c true`, median",
        "ms",
        Bar::AtMost(2.0),
        overhead,
    );
    let ballast = vec![1u8; size.of(1 << 30, 1 << 20)];
    let overhead = bench.overhead(size);
    table.row(
        "the same with 1 GiB resident",
        "ms",
        Bar::AtMost(2.0),
        overhead,
    );
    assert_eq!(std::hint::black_box(&ballast).first(), Some(&1));
}

struct Bench {
    runtime: Runtime,
    dir: TempDir,
    tasks: Tasks,
    bash: Bash,
}

struct Unseen;

impl Progress for Unseen {
    fn output(&self, _: ProgressStream, _: &str) {}

    fn status(&self, _: &str) {}
}

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let dir = TempDir::new().unwrap();
        let inside = runtime.enter();
        let tasks = Tasks::open(TasksParts {
            dir: dir.path().join("tasks"),
            limits: TaskLimits {
                max_running: 1000,
                ..TaskLimits::default()
            },
            slots: TaskSlots::new(1024),
            processes: Processes::new(None),
            clock: SystemClock::shared(),
            ids: RandomIds::shared(),
            sink: Arc::new(Unheard),
            tracker: TaskTracker::new(),
            durability: Durability::Disk,
            supervisor: None,
        });
        let config = ShellConfig {
            output_kill_bytes: 0,
            ..ShellConfig::default()
        };
        let env = Env::of([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        let shell = Arc::new(Shell::new(&env, &config, &TaskConfig::default()));
        let bash = Bash::new(shell, tasks.clone(), true);
        drop(inside);
        Self {
            runtime,
            dir,
            tasks,
            bash,
        }
    }

    fn call(&self, args: Value) -> Outcome {
        let cx = CallCx {
            session: "bench".into(),
            agent: "main".into(),
            workspace: Arc::new(Workspace::of_dir(self.dir.path())),
            todos: Arc::default(),
            host_files: None,
        };
        let call = self.bash.resolve(args, &cx);
        let call = call.unwrap_or_else(|refusal| panic!("{}", refusal.message));
        let cx = ExecCx {
            call: "call_1".into(),
            cancel: CancellationToken::new(),
            accesses: vec![RealAccess::all()],
            progress: Arc::new(Unseen),
            ask_user: None,
            results_dir: self.dir.path().join("results"),
        };
        self.runtime.block_on((call.execute)(cx))
    }

    fn thousand_tasks(&self, size: Size, table: &mut Table) {
        let n = size.of(1000, 20);
        let never = CancellationToken::new();
        let begun = Instant::now();
        let ended = self.runtime.block_on(async {
            let mut ids = Vec::new();
            for _ in 0..n {
                let started = self
                    .tasks
                    .start_process(spec("sleep 0.01; echo done"))
                    .await;
                ids.push(started.unwrap().id);
            }
            let all_ended = self
                .tasks
                .wait_all(Whose::Anyones, Duration::from_secs(600), &never);
            assert!(all_ended.await);
            self.tasks.list_ended(Whose::Anyones).len()
        });
        let took = begun.elapsed().as_secs_f64();
        assert_eq!(ended, n);
        table.row(
            "1,000 tasks of 10 ms, one after another started, all ended and on the disk",
            "s",
            Bar::AtMost(15.0),
            took,
        );
    }

    fn calls(&self, size: Size, table: &mut Table) {
        self.call(json!({"command": "true"}));
        let figures = (0..size.of(200, 3)).map(|_| {
            let begun = Instant::now();
            let outcome = self.call(json!({"command": "true"}));
            assert!(!outcome.is_error);
            begun.elapsed().as_secs_f64() * 1e3
        });
        table.row(
            "Bash `true`, call → result, median",
            "ms",
            Bar::AtMost(4.0),
            median(figures.collect()),
        );
    }

    fn throughput(&self, size: Size, table: &mut Table) {
        let n_bytes = size.of(1 << 30, 8 << 20);
        let command = format!("yes 'twenty bytes of text' | head -c {n_bytes}");
        let before = resident("VmRSS:");
        // Writing 5 there lets the peak begin anew.
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let begun = Instant::now();
        let outcome = self.call(json!({"command": command, "timeout": 300}));
        let took = begun.elapsed().as_secs_f64();
        assert!(!outcome.is_error && outcome.truncated);
        table.row(
            "1 GiB of output through Bash, log included",
            "MB/s",
            Bar::AtLeast(500.0),
            n_bytes as f64 / 1e6 / took,
        );
        table.row(
            "resident memory it adds at most",
            "MiB",
            Bar::AtMost(8.0),
            (resident("VmHWM:") - before).max(0.0),
        );
    }

    /// Median milliseconds of a command over those of the same without us.
    fn overhead(&self, size: Size) -> f64 {
        let n = size.of(200, 3);
        let ours = (0..n).map(|_| {
            let begun = Instant::now();
            self.call(json!({"command": "true"}));
            begun.elapsed().as_secs_f64() * 1e3
        });
        let ours = median(ours.collect());
        let bare = (0..n).map(|_| {
            let begun = Instant::now();
            let status = OsCommand::new("/bin/bash")
                .args(["-c", "true"])
                .stdin(Stdio::null())
                .status();
            assert!(status.unwrap().success());
            begun.elapsed().as_secs_f64() * 1e3
        });
        ours - median(bare.collect())
    }
}

fn spec(script: &str) -> ProcessSpec {
    let command = Command::new("/bin/bash", "/")
        .args(["-c", script])
        .env([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    ProcessSpec {
        command,
        command_line: script.to_owned(),
        cwd: PathBuf::from("/"),
        description: "bench".to_owned(),
        owner: "main".into(),
        time_limit: None,
        detach_at_limit: false,
        time_limit_detached: None,
        output_kill_bytes: None,
        keep_survivors: true,
    }
}

/// What the system says of this process's memory, in MiB.
fn resident(name: &str) -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib: f64 = line
        .unwrap()
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .unwrap();
    kib / 1024.0
}
