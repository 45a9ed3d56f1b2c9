#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;

use super::super::testing::Bench;
use super::*;

async fn paths(bench: &Bench, query: &str, limit: usize) -> Vec<String> {
    let found = complete(
        &bench.deps.search,
        Arc::clone(&bench.workspace),
        query,
        limit,
    )
    .await
    .unwrap();
    assert!(found.is_complete);
    found.items.into_iter().map(|item| item.path).collect()
}

fn bench(files: &[&str]) -> Bench {
    let bench = Bench::new();
    for file in files {
        bench.put(file, "x");
    }
    bench
}

#[tokio::test]
async fn the_best_fit_comes_first() {
    let bench = bench(&[
        "src/session/actor.rs",
        "src/session/mod.rs",
        "src/store/mod.rs",
        "src/Main.rs",
        "docs/manual.md",
        "s/e/s/s.txt",
    ]);
    for (query, expected) in [
        ("main", "src/Main.rs"),
        ("Main", "src/Main.rs"),
        ("sessmod", "src/session/mod.rs"),
        ("store mod", "src/store/mod.rs"),
        ("actor", "src/session/actor.rs"),
        ("./docs/man", "docs/manual.md"),
        ("src/store", "src/store"),
    ] {
        assert_eq!(
            paths(&bench, query, 10).await.first().map(String::as_str),
            Some(expected),
            "{query}"
        );
    }
    assert_eq!(
        paths(&bench, "MAIN", 10).await,
        [""; 0],
        "capital letters count"
    );
    assert_eq!(paths(&bench, "mod", 1).await.len(), 1);
    assert_eq!(paths(&bench, "mod", 0).await.len(), 0);
    let (once, again) = (paths(&bench, "s", 20).await, paths(&bench, "s", 20).await);
    assert!(once.len() > 5 && once == again);
}

#[tokio::test]
async fn what_fits_is_pointed_at() {
    let bench = bench(&["über/größe.rs"]);
    let found = complete(&bench.deps.search, Arc::clone(&bench.workspace), "größe", 5)
        .await
        .unwrap();
    let item = &found.items[0];
    assert_eq!(
        (item.path.as_str(), item.is_dir, &item.positions[..]),
        ("über/größe.rs", false, &[5, 6, 7, 8, 9][..])
    );
    assert!(item.score > 0);
}

#[tokio::test]
async fn an_empty_query_gives_what_is_highest_and_newest() {
    let bench = bench(&["deep/er/x", "old", "new", "deep/y"]);
    for (name, seconds) in [
        ("old", 10),
        ("new", 30),
        ("deep", 20),
        ("deep/y", 50),
        ("deep/er", 40),
    ] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = disk::File::open(bench.path(name)).unwrap();
        file.set_modified(time).unwrap();
    }
    let all = ["new", "deep", "old", "deep/y", "deep/er", "deep/er/x"];
    for limit in [6, 3, 4] {
        assert_eq!(paths(&bench, "", limit).await, all[..limit]);
    }
    assert_eq!(paths(&bench, "  ", 2).await, all[..2]);
}

#[tokio::test]
async fn what_a_search_does_not_see_is_not_offered() {
    let bench = bench(&[
        "a/x",
        ".env",
        "a/id_rsa",
        ".git/x",
        "ignored/x",
        ".hidden/x",
    ]);
    bench.put(".gitignore", "ignored/\n");
    disk::create_dir(bench.path("empty")).unwrap();
    std::os::unix::fs::symlink("a", bench.path("link")).unwrap();
    let mut found = paths(&bench, "", 100).await;
    found.sort();
    assert_eq!(
        found,
        [".gitignore", ".hidden", ".hidden/x", "a", "a/x", "empty"]
    );
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_error() {
    let bench = Bench::new();
    disk::remove_dir(&bench.ws).unwrap();
    let found = complete(&bench.deps.search, Arc::clone(&bench.workspace), "x", 5);
    assert!(found.await.is_err());
}
