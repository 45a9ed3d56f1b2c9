//! Real children, in real groups. Nothing is waited for by sleeping: a child tells what it is by output, and ends are
//! seen through descriptors of the processes themselves.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tokio::time::Instant;

use super::*;

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(20);

fn sh(script: &str) -> Command {
    sh_in(Path::new("/"), script)
}

fn sh_in(dir: &Path, script: &str) -> Command {
    Command::new("/bin/sh", dir)
        .args(["-c", script])
        .env([("PATH", "/usr/local/bin:/usr/bin:/bin")])
}

async fn run(script: &str) -> Collected {
    let processes = Processes::new(None);
    let running = processes.spawn(sh(script)).await.unwrap();
    tokio::time::timeout(PATIENCE, running.collect(1 << 20))
        .await
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Reads output until a line has come, and gives its words as process ids.
async fn first_line_pids(running: &mut Running) -> Vec<Pid> {
    let mut seen = Vec::new();
    while !seen.contains(&b'\n') {
        let chunk = tokio::time::timeout(PATIENCE, running.next_output())
            .await
            .unwrap();
        seen.extend_from_slice(&chunk.expect("a line of process ids").bytes);
    }
    let line = text(&seen).lines().next().unwrap();
    line.split_whitespace()
        .map(|word| Pid::from_raw(word.parse().unwrap()).unwrap())
        .collect()
}

/// Waits until a process is dead (a zombie that nobody took the status of is), which must come soon.
async fn assert_dies(pid: Pid) {
    let Ok(watch) = ExitWatch::open(pid) else {
        return;
    };
    let died = tokio::time::timeout(PATIENCE, watch.exited()).await;
    assert!(died.is_ok(), "process {pid:?} lives on");
}

#[tokio::test]
async fn ends_are_told_apart() {
    for (script, status) in [
        ("exit 0", Status::Code(0)),
        ("exit 7", Status::Code(7)),
        ("kill -9 $$", Status::Signal(9)),
        ("kill -TERM $$", Status::Signal(15)),
    ] {
        let done = run(script).await;
        assert_eq!(
            done.exit,
            Exit {
                status,
                stopped: false,
                left_running: 0
            },
            "{script}"
        );
    }
}

#[tokio::test]
async fn both_streams_are_captured() {
    let done = run("echo out; echo err >&2; exit 7").await;
    assert_eq!((text(&done.stdout), text(&done.stderr)), ("out\n", "err\n"));
    assert!(!done.truncated);
}

#[tokio::test]
async fn stdin_is_at_its_end() {
    let done = run("cat; read x; echo \"[$x]\"").await;
    assert_eq!(text(&done.stdout), "[]\n");
}

#[tokio::test]
async fn a_piped_stdin_reaches_the_child() {
    use tokio::io::AsyncWriteExt;
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("cat").stdin(Stdin::Piped))
        .await
        .unwrap();
    let mut stdin = running.take_stdin().unwrap();
    stdin.write_all(b"hello").await.unwrap();
    drop(stdin);
    assert_eq!(running.collect(100).await.stdout, b"hello");
}

#[tokio::test]
async fn an_output_can_be_taken_as_a_byte_stream() {
    use tokio::io::AsyncReadExt;
    let processes = Processes::new(None);
    let mut running = processes.spawn(sh("echo out; echo err >&2")).await.unwrap();
    let mut stdout = running.take_output(Stream::Stdout).unwrap();
    assert!(running.take_output(Stream::Stdout).is_none());
    let mut taken = String::new();
    stdout.read_to_string(&mut taken).await.unwrap();
    let rest = running.collect(100).await;
    assert_eq!(
        (taken.as_str(), text(&rest.stdout), text(&rest.stderr)),
        ("out\n", "", "err\n")
    );
}

#[tokio::test]
async fn environment_directory_and_group_are_as_given() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("a 'b\" c");
    crate::os::fs::create_dirs(&odd).unwrap();
    let processes = Processes::new(None);
    let script = "/bin/pwd; echo $A; echo ${HOME-unset}; ps -o pgid= -p $$ || echo";
    let command = sh_in(&odd, script)
        .env([("A", "1"), ("A", "2")])
        .mark("bash-1");
    let running = processes.spawn(command).await.unwrap();
    let pid = running.pid();
    let done = running.collect(1000).await;
    let lines: Vec<_> = text(&done.stdout).lines().map(str::trim).collect();
    assert_eq!(Path::new(lines[0]), crate::os::fs::real_path(&odd).unwrap());
    assert_eq!(lines[1..3], ["2", "unset"]);
    if !lines[3].is_empty() {
        assert_eq!(lines[3], pid.to_string());
    }
    let marked = processes
        .spawn(sh("echo $LONGSHORE_TASK_ID").mark("bash-1"))
        .await
        .unwrap();
    assert_eq!(marked.collect(100).await.stdout, b"bash-1\n");
}

#[tokio::test]
async fn a_broken_pipe_ends_the_writer() {
    // Ignored here, but a child must have the default or `yes | head` never ends well.
    let done = run("yes | head -n 1; kill -PIPE $$").await;
    assert_eq!(text(&done.stdout), "y\n");
    assert_eq!(done.exit.status.signal_name().as_deref(), Some("SIGPIPE"));
}

#[tokio::test]
async fn what_cannot_be_started_says_why_and_runs_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    crate::os::fs::write_private(&file, b"").unwrap();
    let processes = Processes::new(None);
    let marker = dir.path().join("marker");
    let touch = format!("false || touch {}; touch marker", marker.display());
    for cwd in [missing.as_path(), &file, Path::new("relative")] {
        let error = processes.spawn(sh_in(cwd, &touch)).await.unwrap_err();
        assert!(
            matches!(&error, SpawnError::Cwd { cwd: told, .. } if told == cwd),
            "{error}"
        );
    }
    assert!(!marker.exists() && !Path::new("marker").exists());
    for program in [
        "/no/such/program",
        "no-such-program-here",
        file.to_str().unwrap(),
    ] {
        let command = Command::new(program, "/").env([("PATH", "/usr/bin:/bin")]);
        let error = processes.spawn(command).await.unwrap_err();
        assert!(matches!(&error, SpawnError::Program { .. }), "{error}");
        assert!(error.to_string().contains(program), "{error}");
    }
    let huge = "x".repeat(4 << 20);
    let error = processes.spawn(sh(&huge)).await.unwrap_err();
    assert!(matches!(error, SpawnError::System { .. }), "{error}");
    assert_eq!(processes.n_running(), 0);
}

#[tokio::test]
async fn bare_names_are_found_in_the_given_path() {
    let processes = Processes::new(None);
    let command = Command::new("sh", "/")
        .args(["-c", "echo found"])
        .env([("PATH", "/usr/bin:/bin")]);
    assert_eq!(
        processes
            .spawn(command)
            .await
            .unwrap()
            .collect(100)
            .await
            .stdout,
        b"found\n"
    );
}

#[tokio::test]
async fn order_is_kept() {
    let done = run("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done").await;
    let mut expected = String::new();
    for n in 0..20_000 {
        writeln!(expected, "{n}").unwrap();
    }
    assert!(
        text(&done.stdout) == expected,
        "lines are out of order or missing"
    );
}

/// Each piece is written only once the one before was taken, so the order between streams is certain.
#[tokio::test]
async fn streams_come_in_order_of_arrival() {
    use tokio::io::AsyncWriteExt;
    let script =
        "while read line; do case $line in e*) echo $line >&2;; *) echo $line;; esac; done";
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh(script).stdin(Stdin::Piped))
        .await
        .unwrap();
    let mut stdin = running.take_stdin().unwrap();
    for (line, stream) in [
        ("e1", Stream::Stderr),
        ("o2", Stream::Stdout),
        ("e3", Stream::Stderr),
    ] {
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        let chunk = running.next_output().await.unwrap();
        assert_eq!(
            (chunk.stream, text(&chunk.bytes)),
            (stream, format!("{line}\n").as_str())
        );
    }
}

/// Both pipes are readable before anything is read; the one written first still comes first.
#[tokio::test]
async fn the_stream_that_was_ready_first_comes_first() {
    for (script, first) in [
        ("echo out; echo err >&2", Stream::Stdout),
        ("echo err >&2; echo out", Stream::Stderr),
    ] {
        let processes = Processes::new(None);
        let mut running = processes.spawn(sh(script)).await.unwrap();
        // The exit is seen by the supervisor; no output was taken meanwhile.
        let pid = Pid::from_raw(running.pid() as i32).unwrap();
        assert_dies(pid).await;
        assert_eq!(
            running.next_output().await.unwrap().stream,
            first,
            "{script}"
        );
    }
}

#[tokio::test]
async fn bytes_are_raw() {
    let done = run(r"printf 'a\342'; printf '\202\254b\377\376\000'").await;
    assert_eq!(done.stdout, b"a\xe2\x82\xacb\xff\xfe\0");
}

#[tokio::test]
async fn a_flood_is_taken_in_bounded_pieces() {
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("head -c 20000000 /dev/zero"))
        .await
        .unwrap();
    let mut n_bytes = 0;
    while let Some(chunk) = running.next_output().await {
        assert!(!chunk.bytes.is_empty() && chunk.bytes.len() <= 64 * 1024);
        n_bytes += chunk.bytes.len();
    }
    assert_eq!(n_bytes, 20_000_000);
    assert!(running.wait().await.status.is_success());
    assert!(running.take_read_error().is_none());
}

#[tokio::test]
async fn collecting_keeps_the_beginning() {
    let processes = Processes::new(None);
    let running = processes
        .spawn(sh("yes | head -c 1000000; echo abc >&2"))
        .await
        .unwrap();
    let done = running.collect(4).await;
    assert_eq!(
        (text(&done.stdout), text(&done.stderr), done.truncated),
        ("y\ny\n", "abc\n", true)
    );
    assert!(done.exit.status.is_success());
    assert!(done.success_text().is_some());
}

/// The end of the shell decides; what it left is told and ended.
#[tokio::test]
async fn a_background_process_does_not_hold_the_result() {
    let began = Instant::now();
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("sleep 60 & echo $!; echo hi"))
        .await
        .unwrap();
    let pids = first_line_pids(&mut running).await;
    let exit = running.wait().await;
    assert_eq!((exit.status, exit.left_running), (Status::Code(0), 1));
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_dies(pids[0]).await;
}

#[tokio::test]
async fn endless_output_of_a_leftover_does_not_hold_the_result() {
    let began = Instant::now();
    let done = run("yes & echo fg").await;
    assert_eq!(
        (done.exit.status, done.exit.left_running),
        (Status::Code(0), 1)
    );
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_leftover_that_ignores_term_is_killed() {
    let processes = Processes::new(None);
    let script = "(trap '' TERM; echo ready; while :; do sleep 1; done) & echo $! >&2; read x";
    let mut running = processes
        .spawn(sh(script).stdin(Stdin::Piped))
        .await
        .unwrap();
    let mut pid = None;
    let mut is_ready = false;
    while pid.is_none() || !is_ready {
        let chunk = running.next_output().await.unwrap();
        match chunk.stream {
            Stream::Stdout => is_ready = true,
            Stream::Stderr => pid = Pid::from_raw(text(&chunk.bytes).trim().parse().unwrap()),
        }
    }
    // End of input ends the shell.
    drop(running.take_stdin());
    let exit = running.wait().await;
    assert!(exit.left_running >= 1, "{exit:?}");
    assert!(!exit.stopped);
    assert_dies(pid.unwrap()).await;
}

/// What the leader wrote before its end is there, even if nobody takes it until the drain is over.
#[tokio::test]
async fn a_late_reader_loses_nothing() {
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("head -c 60000 /dev/zero; sleep 60 &"))
        .await
        .unwrap();
    running.stopper().ended().await;
    let mut n_bytes = 0;
    while let Some(chunk) = running.next_output().await {
        n_bytes += chunk.bytes.len();
    }
    assert_eq!(n_bytes, 60_000);
}

#[tokio::test]
async fn a_stop_ends_the_whole_group() {
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("sleep 60 & sleep 60 & echo $! $$; wait"))
        .await
        .unwrap();
    let pids = first_line_pids(&mut running).await;
    running.stop(PATIENCE);
    let exit = running.wait().await;
    assert_eq!((exit.status, exit.stopped), (Status::Signal(15), true));
    for pid in pids {
        assert_dies(pid).await;
    }
    assert_eq!(processes.n_running(), 0);
}

#[tokio::test]
async fn output_goes_on_until_the_end_of_a_stop() {
    let processes = Processes::new(None);
    let script = "trap 'echo bye; exit 0' TERM; echo $$; while :; do sleep 0.05; done";
    let mut running = processes.spawn(sh(script)).await.unwrap();
    first_line_pids(&mut running).await;
    running.stop(PATIENCE);
    let done = running.collect(100).await;
    assert_eq!(text(&done.stdout), "bye\n");
    assert_eq!(
        done.exit,
        Exit {
            status: Status::Code(0),
            stopped: true,
            left_running: 0
        }
    );
}

/// The shell dies of TERM at once; the grandchild that ignores it must not outlive the grace.
#[tokio::test]
async fn kill_reaches_the_group_when_the_leader_is_gone() {
    let processes = Processes::new(None);
    let script = "sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 1; done\" & wait";
    let mut running = processes.spawn(sh(script)).await.unwrap();
    let pids = first_line_pids(&mut running).await;
    let leader = Pid::from_raw(running.pid() as i32).unwrap();
    let began = Instant::now();
    running.stop(Duration::from_millis(300));
    assert_dies(leader).await;
    let exit = running.wait().await;
    assert!(
        began.elapsed() >= Duration::from_millis(300),
        "the grace is given"
    );
    assert_eq!((exit.status, exit.stopped), (Status::Signal(15), true));
    assert_dies(pids[0]).await;
}

#[tokio::test]
async fn who_ignores_term_is_killed_at_the_grace() {
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("trap '' TERM; echo $$; while :; do sleep 1; done"))
        .await
        .unwrap();
    first_line_pids(&mut running).await;
    running.stop(Duration::from_millis(100));
    assert_eq!(running.wait().await.status, Status::Signal(9));
}

#[tokio::test]
async fn a_second_stop_can_only_hasten() {
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("trap '' TERM; echo $$; while :; do sleep 1; done"))
        .await
        .unwrap();
    first_line_pids(&mut running).await;
    running.stop(Duration::from_secs(3600));
    running.stopper().stop(Duration::from_millis(50));
    running.stop(Duration::from_secs(3600));
    let exit = tokio::time::timeout(PATIENCE, running.wait())
        .await
        .unwrap();
    assert_eq!(exit.status, Status::Signal(9));
}

#[tokio::test]
async fn a_stopped_process_is_woken_to_end() {
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("echo $$; kill -STOP $$; echo never"))
        .await
        .unwrap();
    first_line_pids(&mut running).await;
    running.stop(Duration::from_secs(3600));
    let exit = tokio::time::timeout(PATIENCE, running.wait())
        .await
        .unwrap();
    assert_eq!(exit.status, Status::Signal(15));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn escapees_are_found_by_their_mark() {
    let processes = Processes::new(None);
    // Neither the group nor the chain of parents leads to the second one.
    let script = "setsid sh -c 'echo $$; setsid sleep 60 & exec sleep 60' & wait; exit";
    let command = sh(&format!("({script}) & sleep 60")).mark("bash-escape-1");
    let mut running = processes.spawn(command).await.unwrap();
    let pids = first_line_pids(&mut running).await;
    running.stop(PATIENCE);
    assert!(running.wait().await.stopped);
    assert_dies(pids[0]).await;
    assert_eq!(
        processes
            .end_marked(TASK_MARK, "bash-escape-1", Duration::ZERO)
            .await,
        0
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn escapees_without_a_mark_are_found_by_their_parents() {
    let processes = Processes::new(None);
    let script = "env -i setsid sh -c 'echo $$; exec sleep 60' & wait";
    let mut running = processes
        .spawn(sh(script).mark("bash-escape-2"))
        .await
        .unwrap();
    let pids = first_line_pids(&mut running).await;
    running.stop(PATIENCE);
    running.wait().await;
    assert_dies(pids[0]).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn escapees_that_outlived_their_task_are_ended_later() {
    let processes = Processes::new(None);
    let command = sh("setsid sh -c 'echo $$; exec sleep 60' & read x")
        .env([("LONGSHORE_SESSION_ID", "session-escape")])
        .mark("bash-escape-3")
        .stdin(Stdin::Piped);
    let mut running = processes.spawn(command).await.unwrap();
    let pids = first_line_pids(&mut running).await;
    drop(running.take_stdin());
    let exit = running.wait().await;
    assert_eq!((exit.stopped, exit.left_running), (false, 0));
    test_kill_process(pids[0]).unwrap();
    let n_ended = processes
        .end_marked("LONGSHORE_SESSION_ID", "session-escape", PATIENCE)
        .await;
    assert_eq!(n_ended, 1);
    assert_dies(pids[0]).await;
}

/// The leader is gone and its output still awaited when the stop comes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stop_during_the_drain_ends_escapees_too() {
    for grace in [Duration::ZERO, PATIENCE] {
        let processes = Processes::new(None);
        let script = "setsid sh -c 'echo $$; exec sleep 60' & read x";
        let mark = format!("bash-drain-{}", grace.as_secs());
        let command = sh(script).mark(&mark).stdin(Stdin::Piped);
        let mut running = processes.spawn(command).await.unwrap();
        let pids = first_line_pids(&mut running).await;
        drop(running.take_stdin());
        assert_dies(Pid::from_raw(running.pid() as i32).unwrap()).await;
        running.stop(grace);
        assert_eq!(
            running.wait().await.status,
            Status::Code(1),
            "end of file fails the read"
        );
        assert_dies(pids[0]).await;
    }
}

#[tokio::test]
async fn dropping_the_owner_ends_the_child() {
    let processes = Processes::new(None);
    let command = sh("sleep 60 & echo $! $$; wait").drop_grace(Duration::ZERO);
    let mut running = processes.spawn(command).await.unwrap();
    let pids = first_line_pids(&mut running).await;
    let stopper = running.stopper();
    drop(running);
    assert!(stopper.ended().await.stopped);
    for pid in pids {
        assert_dies(pid).await;
    }
}

#[tokio::test]
async fn kill_all_ends_everyone_and_starts_no_more() {
    let processes = Processes::new(None);
    let mut pids = Vec::new();
    let mut owners = Vec::new();
    for script in [
        "echo $$; sleep 60",
        "trap '' TERM; echo $$; while :; do sleep 1; done",
    ] {
        let mut running = processes.spawn(sh(script)).await.unwrap();
        pids.extend(first_line_pids(&mut running).await);
        owners.push(running);
    }
    let began = Instant::now();
    processes.kill_all(Duration::from_millis(200)).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    for pid in pids {
        assert_dies(pid).await;
    }
    assert_eq!(owners[0].wait().await.status, Status::Signal(15));
    assert_eq!(owners[1].wait().await.status, Status::Signal(9));
    let error = processes.spawn(sh("true")).await.unwrap_err();
    assert!(matches!(error, SpawnError::Closed), "{error}");
}

#[tokio::test]
async fn kill_now_does_not_wait() {
    let processes = Processes::new(None);
    let mut running = processes
        .spawn(sh("sleep 60 & echo $! $$; wait"))
        .await
        .unwrap();
    let pids = first_line_pids(&mut running).await;
    processes.kill_now();
    for pid in pids {
        assert_dies(pid).await;
    }
    assert_eq!(running.wait().await.status, Status::Signal(9));
}

#[test]
fn the_end_of_the_runtime_ends_children() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let processes = Processes::new(None);
    let (mut running, pids) = runtime.block_on(async {
        let mut running = processes
            .spawn(sh("sleep 60 & echo $! $$; wait"))
            .await
            .unwrap();
        let pids = first_line_pids(&mut running).await;
        (running, pids)
    });
    running.take_stdin();
    drop(runtime);
    drop(running);
    drop(processes);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for pid in pids {
            assert_dies(pid).await;
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_children_at_once() {
    let processes = Processes::new(None);
    let mut set = tokio::task::JoinSet::new();
    for n in 0..60 {
        let processes = processes.clone();
        set.spawn(async move {
            let running = processes
                .spawn(sh(&format!("echo {n}; exit {n}")))
                .await
                .unwrap();
            let done = running.collect(100).await;
            assert_eq!(text(&done.stdout), format!("{n}\n"));
            assert_eq!(done.exit.status, Status::Code(n));
        });
    }
    while let Some(joined) = set.join_next().await {
        joined.unwrap();
    }
    assert_eq!(processes.n_running(), 0);
}

#[tokio::test]
async fn a_childs_file_limit_is_the_original_one() {
    use rustix::process::{Resource, getrlimit};
    let now = getrlimit(Resource::Nofile);
    let original = rustix::process::Rlimit {
        current: Some(123),
        maximum: now.maximum,
    };
    let processes = Processes::new(Some(crate::os::nofile::OriginalLimit(original)));
    // The limit is set just after the start, so the child waits before it looks.
    let command = sh("read x; ulimit -Sn").stdin(Stdin::Piped);
    let mut running = processes.spawn(command).await.unwrap();
    drop(running.take_stdin());
    if cfg!(target_os = "linux") {
        assert_eq!(text(&running.collect(100).await.stdout), "123\n");
    }
}

#[test]
fn names_of_directories_are_told() {
    let path = PathBuf::from("/nowhere/at/all");
    assert_eq!(
        super::command::check_dir(&path).unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
}
