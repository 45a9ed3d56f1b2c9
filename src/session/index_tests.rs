#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use std::path::PathBuf;

use longshore_protocol::value::session::Status;

use super::super::list::ListFilter;
use super::super::testing::{Home, run};

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";

fn index(home: &Home) -> PathBuf {
    home.home().join("sessions/index.jsonl")
}

async fn listed(home: &Home, text: Option<&str>) -> Vec<String> {
    let filter = ListFilter {
        text: text.map(str::to_owned),
        ..ListFilter::default()
    };
    let page = home.sessions.list(filter).await.unwrap();
    assert!(
        page.items
            .iter()
            .all(|session| session.status != Status::Running)
    );
    let mut titles: Vec<String> = page
        .items
        .into_iter()
        .map(|session| format!("{}:{}", session.title, session.turn_count))
        .collect();
    titles.sort();
    titles
}

async fn made(home: &Home, title: &str, prompts: &[&str]) -> super::super::SessionHandle {
    let mut options = home.options(SAYS_OK);
    options.title = Some(title.to_owned());
    let (handle, _) = home.sessions.create(options).await.unwrap();
    for prompt in prompts {
        run(&handle, prompt).await;
    }
    handle
}

/// Whatever becomes of the index, the list is the same.
#[tokio::test(start_paused = true)]
async fn the_index_is_only_a_cache() {
    type Damage = fn(&std::path::Path);
    let damages: [(&str, Damage); 6] = [
        ("none", |_| {}),
        ("gone", |path| std::fs::remove_file(path).unwrap()),
        ("empty", |path| std::fs::write(path, "").unwrap()),
        ("a directory", |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }),
        ("glued and torn", |path| {
            let text = std::fs::read_to_string(path).unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
            let (last, others) = lines.split_last().unwrap();
            let torn = &last[..last.len() / 2];
            std::fs::write(path, format!("{}{torn}", others.concat())).unwrap();
        }),
        ("garbage between", |path| {
            let text = std::fs::read_to_string(path).unwrap();
            std::fs::write(path, text.replace('\n', "\n\0\0{bad\n")).unwrap();
        }),
    ];
    for (what, damage) in damages {
        let home = Home::new();
        for (title, prompts) in [
            ("a", vec!["one", "two"]),
            ("b", vec![]),
            ("c", vec!["three"]),
        ] {
            made(&home, title, &prompts).await.close().await.unwrap();
        }
        damage(&index(&home));
        for _ in 0..2 {
            assert_eq!(
                listed(&home.again(), None).await,
                ["a:2", "b:0", "c:1"],
                "{what}"
            );
        }
        assert_eq!(listed(&home.again(), Some("ONE")).await, ["a:2"], "{what}");
    }
}

/// A process that died could not note how far it had come.
#[tokio::test(start_paused = true)]
async fn a_session_of_a_dead_process_is_read_again() {
    let home = Home::new();
    let handle = made(&home, "a", &["first", "second"]).await;
    let copy = home.copy();
    assert_eq!(
        listed(&copy, None).await,
        ["a:2"],
        "its journal says more than its cache"
    );
    assert_eq!(listed(&copy, Some("second")).await, ["a:2"]);
    assert_eq!(
        listed(&home, None).await,
        ["a:2"],
        "loaded ones are as they are"
    );
    handle.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_is_not_listed_and_what_is_copied_in_is() {
    let home = Home::new();
    let (a, b) = (
        made(&home, "a", &["x"]).await,
        made(&home, "b", &["y"]).await,
    );
    for handle in [&a, &b] {
        handle.close().await.unwrap();
    }
    assert_eq!(listed(&home, None).await, ["a:1", "b:1"]);
    home.sessions.delete(a.id()).await.unwrap();
    assert_eq!(listed(&home, None).await, ["b:1"]);
    assert_eq!(listed(&home, Some("x")).await, Vec::<String>::new());
    // Ids are counted, so the third session of the other home is one that this home never had.
    let other = Home::new();
    for title in ["first", "second"] {
        let handle = made(&other, title, &[]).await;
        other.sessions.delete(handle.id()).await.unwrap();
    }
    made(&other, "c", &["z"]).await.close().await.unwrap();
    home.take_sessions_of(&other);
    assert_eq!(listed(&home, None).await, ["b:1", "c:1"]);
    assert_eq!(listed(&home, Some("z")).await, ["c:1"]);
}

#[tokio::test(start_paused = true)]
async fn the_index_does_not_grow_for_ever() {
    let home = Home::new();
    let handle = made(&home, "a", &["x"]).await;
    handle.close().await.unwrap();
    let line = std::fs::read_to_string(index(&home)).unwrap();
    std::fs::write(index(&home), line.repeat(2000)).unwrap();
    assert_eq!(listed(&home, None).await, ["a:1"]);
    let lines = std::fs::read_to_string(index(&home)).unwrap();
    assert_eq!(lines.lines().count(), 1);
    assert_eq!(listed(&home, None).await, ["a:1"]);
}

#[tokio::test(start_paused = true)]
async fn prompts_that_were_taken_back_are_not_found() {
    let home = Home::new();
    let handle = made(&home, "a", &["apple", "pear", "plum"]).await;
    // What was noted before does not come back.
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(listed(&home, Some("pear")).await, ["a:3"]);
    handle.undo(2).await.unwrap();
    run(&handle, "fig").await;
    handle.close().await.unwrap();
    let prompts = home.home().join("sessions/prompts.jsonl");
    let filler = format!("{{\"id\":\"gone\",\"text\":\"{}\"}}\n", "x".repeat(8 << 20));
    for rewritten in [false, true] {
        for (text, found) in [("apple", 1), ("pear", 0), ("plum", 0), ("fig", 1)] {
            let n = listed(&home.again(), Some(text)).await.len();
            assert_eq!(n, found, "{text}, {rewritten}");
        }
        let whole = std::fs::read_to_string(&prompts).unwrap();
        std::fs::write(&prompts, filler.clone() + &whole).unwrap();
        let line = std::fs::read_to_string(index(&home)).unwrap();
        std::fs::write(index(&home), line.repeat(2000)).unwrap();
    }
    assert!(std::fs::metadata(&prompts).unwrap().len() > 8 << 20);
    listed(&home.again(), None).await;
    assert!(std::fs::metadata(&prompts).unwrap().len() < 1 << 10);
    assert!(listed(&home.again(), Some("pear")).await.is_empty());
    assert_eq!(listed(&home.again(), Some("fig")).await, ["a:2"]);
}
