//! Adoption changes the whole process, so each case runs in a copy of this test binary.

#![cfg(target_os = "linux")]

use std::time::Duration;

use super::*;
use crate::os::test_copy;

#[tokio::test]
async fn orphans_are_reaped_and_statuses_are_not_stolen() {
    if test_copy::is_copy() {
        return in_the_copy().await;
    }
    let processes = Processes::new(None);
    let test = "os::process::orphans_tests::orphans_are_reaped_and_statuses_are_not_stolen";
    let running = processes.spawn(test_copy::command(test)).await.unwrap();
    let done = running.collect(1 << 20).await;
    let output =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.exit.status.is_success(), "{output}");
    assert!(output.contains("1 passed"), "{output}");
}

fn own_children() -> Vec<i32> {
    super::table::children_of(std::process::id() as i32)
}

async fn in_the_copy() {
    let processes = Processes::new(None);
    processes.adopt_orphans().unwrap();
    let sh = |script: String| {
        Command::new("/bin/sh", "/")
            .args(["-c".to_owned(), script])
            .env([("PATH", "/usr/bin:/bin")])
    };
    // Orphans that end at once, among children whose statuses matter.
    for n in 0..30 {
        let script = format!("setsid true & setsid sh -c 'sleep 0.01' & exit {n}");
        let done = processes
            .spawn(sh(script))
            .await
            .unwrap()
            .collect(100)
            .await;
        assert_eq!(done.exit.status, Status::Code(n));
    }
    // Each exit wakes the reaper, so the zombies go as soon as they are seen; waiting for it is waiting for messages
    // that the kernel sends.
    let mut exits = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child()).unwrap();
    let patience = tokio::time::Instant::now() + Duration::from_secs(10);
    while !own_children().is_empty() {
        let look_again = tokio::time::Instant::now() + Duration::from_millis(30);
        drop(tokio::time::timeout_at(look_again, exits.recv()).await);
        assert!(tokio::time::Instant::now() < patience, "zombies are left");
    }
    // One that left its group, dropped its environment and lost its parents is ours nevertheless.
    let script = "env -i /usr/bin/setsid /bin/sh -c '(echo alive; exec sleep 60) & exit' & wait";
    let done = processes
        .spawn(sh(script.to_owned()))
        .await
        .unwrap()
        .collect(100)
        .await;
    assert_eq!(
        (done.stdout.as_slice(), done.exit.left_running),
        (b"alive\n".as_slice(), 0)
    );
    assert_eq!(own_children().len(), 1);
    processes.kill_all(Duration::from_secs(5)).await;
    assert!(
        super::table::Snapshot::take()
            .trees(|entry| entry.parent == std::process::id() as i32)
            .is_empty()
    );
}
