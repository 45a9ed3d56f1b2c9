//! The system's process table, read from `/proc`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;

use super::TASK_MARK;
use super::command::value_in_block;

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProcessKey {
    pub(super) pid: i32,
    /// Start time in clock ticks since boot.
    pub(super) start: u64,
}

/// One live process.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: ProcessKey,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// The session of the system that it belongs to.
    pub(super) session: i32,
    /// Its environment block, kept only when it holds a task mark.
    marked_env: Option<Vec<u8>>,
}

impl Entry {
    /// Whether it bears the mark of a task.
    pub(super) fn is_marked(&self) -> bool {
        self.marked_env.is_some()
    }

    /// Whether its environment has this value.
    pub(super) fn has_env(&self, name: &str, value: &str) -> bool {
        self.marked_env
            .as_deref()
            .and_then(|block| value_in_block(block, OsStr::new(name)))
            .is_some_and(|found| found == value.as_bytes())
    }
}

/// All live processes at one moment. Zombies are left out: they do not count as alive.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    entries: HashMap<i32, Entry>,
    /// Whether the system has a table that we can read.
    pub(super) is_supported: bool,
}

impl Snapshot {
    /// Reads the table. Blocking: some 20 µs per process.
    #[cfg(target_os = "linux")]
    pub(super) fn take() -> Self {
        if !is_of_this_namespace() {
            return Self::default();
        }
        let Ok(names) = std::fs::read_dir("/proc") else {
            return Self::default();
        };
        let pids = names
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let entries = pids
            .filter_map(read_entry)
            .map(|entry| (entry.key.pid, entry))
            .collect();
        Self {
            entries,
            is_supported: true,
        }
    }

    /// This system has no such table.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn take() -> Self {
        Self::default()
    }

    /// The live members of a group.
    pub(super) fn group(&self, group: i32) -> Vec<ProcessKey> {
        self.select(|entry| entry.group == group)
    }

    /// A process seen in this snapshot.
    pub(super) fn entry(&self, pid: i32) -> Option<&Entry> {
        self.entries.get(&pid)
    }

    /// Processes for which `belongs` holds, and all their descendants; never this process itself.
    pub(super) fn trees(&self, belongs: impl Fn(&Entry) -> bool) -> Vec<ProcessKey> {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for entry in self.entries.values() {
            children
                .entry(entry.parent)
                .or_default()
                .push(entry.key.pid);
        }
        let own = std::process::id() as i32;
        let mut found = HashSet::new();
        let mut pending: Vec<i32> = self
            .entries
            .values()
            .filter(|entry| belongs(entry))
            .map(|entry| entry.key.pid)
            .collect();
        while let Some(pid) = pending.pop() {
            if pid != own && pid > 1 && found.insert(pid) {
                pending.extend(children.get(&pid).into_iter().flatten());
            }
        }
        found
            .into_iter()
            .filter_map(|pid| self.entries.get(&pid).map(|entry| entry.key))
            .collect()
    }

    /// All processes seen, but this one itself.
    pub(super) fn all(&self) -> Vec<ProcessKey> {
        self.select(|_| true)
    }

    /// The group of a process seen in this snapshot.
    pub(super) fn group_of(&self, key: ProcessKey) -> Option<i32> {
        self.entries.get(&key.pid).map(|entry| entry.group)
    }

    fn select(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<ProcessKey> {
        let own = std::process::id() as i32;
        self.entries
            .values()
            .filter(|entry| wanted(entry) && entry.key.pid != own)
            .map(|entry| entry.key)
            .collect()
    }
}

#[cfg(target_os = "linux")]
fn read_entry(pid: i32) -> Option<Entry> {
    let (state, mut entry) = read_stat(pid)?;
    if is_dead(state) {
        return None;
    }
    let env = read_env(pid);
    entry.marked_env = env.filter(|block| value_in_block(block, OsStr::new(TASK_MARK)).is_some());
    Some(entry)
}

/// Reads the environment block of a process; `None` when it has none, or none for us.
///
/// For a moment within `exec` a process shows no environment. A descendant seen just then must not pass for a
/// stranger, so this moment is waited out.
#[cfg(target_os = "linux")]
fn read_env(pid: i32) -> Option<Vec<u8>> {
    const TRIES: usize = 40;
    const PAUSE: std::time::Duration = std::time::Duration::from_micros(250);
    for _ in 0..TRIES {
        let env = read_proc(pid, "environ").ok()?;
        if !env.is_empty() {
            return Some(env);
        }
        if !is_within_exec(pid)? {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
    None
}

/// Whether a process with an empty environment only has not got it yet.
#[cfg(target_os = "linux")]
fn is_within_exec(pid: i32) -> Option<bool> {
    const IS_KERNEL_THREAD: u64 = 0x0020_0000;
    let stat = read_proc(pid, "stat").ok()?;
    let mut fields = fields_after_name(&stat)?;
    let is_alive = !is_dead(*fields.next()?.as_bytes().first()?);
    // `flags` is field 9, `env_end` field 51; the iterator stands before field 4.
    let flags: u64 = fields.nth(9 - 4)?.parse().ok()?;
    let env_end: u64 = fields.nth(51 - 10)?.parse().ok()?;
    Some(is_alive && flags & IS_KERNEL_THREAD == 0 && env_end == 0)
}

/// Whether the ids in `/proc` are those that `kill` takes: in a pid namespace of our own `/proc` may still be mounted
/// for the outer one, where the same number is somebody else.
#[cfg(target_os = "linux")]
pub(super) fn is_of_this_namespace() -> bool {
    static ANSWER: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        crate::os::fs::read_link(std::path::Path::new("/proc/self"))
            .is_ok_and(|own| own.to_str() == Some(&std::process::id().to_string()))
    });
    *ANSWER
}

/// This process's own group; `None` when its leader lives outside this process's pid namespace.
#[cfg(target_os = "linux")]
pub(super) fn own_group() -> Option<i32> {
    own_entry().map(|own| own.group).filter(|group| *group > 0)
}

/// The session of the system that this process belongs to, as other processes show it in the table: 0 when its leader
/// lives outside this process's pid namespace.
#[cfg(target_os = "linux")]
pub(super) fn own_session() -> Option<i32> {
    own_entry().map(|own| own.session)
}

/// Not asked of the system's calls: these answer 0 for a leader outside, which their wrapper takes for impossible.
#[cfg(target_os = "linux")]
fn own_entry() -> Option<Entry> {
    read_stat(std::process::id() as i32).map(|(_, entry)| entry)
}

/// There is no table.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_of_this_namespace() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn own_group() -> Option<i32> {
    Some(rustix::process::getpgrp().as_raw_nonzero().get())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn own_session() -> Option<i32> {
    let session = rustix::process::getsid(None).ok()?;
    Some(session.as_raw_nonzero().get())
}

#[cfg(target_os = "linux")]
fn is_dead(state: u8) -> bool {
    matches!(state, b'Z' | b'X' | b'x')
}

/// Reads the state letter and the entry of a process, zombies included.
#[cfg(target_os = "linux")]
fn read_stat(pid: i32) -> Option<(u8, Entry)> {
    let stat = read_proc(pid, "stat").ok()?;
    let mut fields = fields_after_name(&stat)?;
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    // `starttime` is field 22 of the line, the state field 3.
    let start = fields.nth(22 - 3 - 4)?.parse().ok()?;
    let entry = Entry {
        key: ProcessKey { pid, start },
        parent,
        group,
        session,
        marked_env: None,
    };
    Some((state, entry))
}

#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "this is part of the module those rules point to"
)]
fn read_proc(pid: i32, name: &str) -> std::io::Result<Vec<u8>> {
    if !is_of_this_namespace() {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    std::fs::read(format!("/proc/{pid}/{name}"))
}

/// The fields of a `stat` line from the third on.
#[cfg(target_os = "linux")]
fn fields_after_name(stat: &[u8]) -> Option<impl Iterator<Item = &str>> {
    // The command name stands in parentheses and may itself hold anything, parentheses and spaces too.
    let after_name = &stat[memchr::memrchr(b')', stat)? + 1..];
    Some(
        std::str::from_utf8(after_name)
            .ok()?
            .split_ascii_whitespace(),
    )
}

/// The live process with this id.
#[cfg(target_os = "linux")]
pub(super) fn live(pid: i32) -> Option<ProcessKey> {
    let (state, entry) = read_stat(pid)?;
    (!is_dead(state)).then_some(entry.key)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn live(_pid: i32) -> Option<ProcessKey> {
    None
}

/// Whether a process has this value in its environment.
#[cfg(target_os = "linux")]
pub(super) fn bears(pid: i32, name: &str, value: &str) -> bool {
    let env = read_env(pid).unwrap_or_default();
    value_in_block(&env, OsStr::new(name)).is_some_and(|found| found == value.as_bytes())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn bears(_pid: i32, _name: &str, _value: &str) -> bool {
    false
}

/// Whether a process has a variable of this name in its environment.
#[cfg(target_os = "linux")]
pub(super) fn bears_any(pid: i32, name: &str) -> bool {
    let env = read_env(pid).unwrap_or_default();
    value_in_block(&env, OsStr::new(name)).is_some()
}

/// Whether a process has something open that the system calls so, such as `socket:[123]`.
#[cfg(target_os = "linux")]
pub(super) fn has_open(pid: i32, name: &str) -> bool {
    let dir = format!("/proc/{pid}/fd");
    let entries = crate::os::fs::list_dir(dir.as_ref()).unwrap_or_default();
    entries.iter().any(|entry| {
        crate::os::fs::read_link(&entry.path).is_ok_and(|target| target.as_os_str() == name)
    })
}

/// The parent of a process; 0 where it has none here.
#[cfg(target_os = "linux")]
pub(super) fn parent_of(pid: i32) -> Option<i32> {
    read_stat(pid).map(|(_, entry)| entry.parent)
}

/// When a process started, in clock ticks since boot. A zombie counts.
#[cfg(target_os = "linux")]
pub(super) fn start_of(pid: i32) -> Option<u64> {
    read_stat(pid).map(|(_, entry)| entry.key.start)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn start_of(_pid: i32) -> Option<u64> {
    None
}

/// Whether the process with this id is still the one meant. A zombie counts.
#[cfg(target_os = "linux")]
pub(super) fn is_current(key: ProcessKey) -> bool {
    read_stat(key.pid).is_some_and(|(_, entry)| entry.key == key)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_current(_key: ProcessKey) -> bool {
    false
}

/// The ids of a process's children, zombies included. Empty where the system does not list them.
#[cfg(target_os = "linux")]
pub(super) fn children_of(pid: i32) -> Vec<i32> {
    let mut children = Vec::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return children;
    };
    for thread in threads.flatten() {
        let path = thread.path().join("children");
        // A thread that just ended has left its children to another, which may have been read before.
        let Ok(list) = crate::os::fs::read_to_string(&path) else {
            continue;
        };
        children.extend(
            list.split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    children
}

/// A live process and its live descendants, found by walking from parent to child: some 50 µs for each of them,
/// however many others there are. Walks past no more than a few hundred.
#[cfg(target_os = "linux")]
pub(super) fn walk_tree(root: i32) -> Snapshot {
    const MOST: usize = 512;
    let mut entries = HashMap::new();
    let mut pending = vec![root];
    while let Some(pid) = pending.pop() {
        if entries.len() >= MOST || entries.contains_key(&pid) {
            continue;
        }
        if let Some((_, entry)) = read_stat(pid).filter(|(state, _)| !is_dead(*state)) {
            entries.insert(pid, entry);
            pending.extend(children_of(pid));
        }
    }
    Snapshot {
        entries,
        is_supported: true,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn walk_tree(_root: i32) -> Snapshot {
    Snapshot::default()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_the_table() {
        let own = std::process::id() as i32;
        let snapshot = Snapshot::take();
        let entry = &snapshot.entries[&own];
        assert_eq!(
            entry.parent,
            rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
        );
        assert_eq!(own_group().unwrap_or_default(), entry.group);
        assert_eq!(own_session(), Some(entry.session));
        assert!(is_current(entry.key));
        let later = ProcessKey {
            start: entry.key.start + 1,
            ..entry.key
        };
        assert!(!is_current(later));
        assert!(
            !snapshot.group(entry.group).contains(&entry.key),
            "never this process itself"
        );
    }

    #[test]
    fn trees_hold_all_descendants() {
        let entry = |pid, parent| Entry {
            key: ProcessKey { pid, start: 0 },
            parent,
            group: 0,
            session: 0,
            marked_env: None,
        };
        let entries = [(10, 2), (11, 10), (12, 11), (13, 2), (14, 13)];
        let snapshot = Snapshot {
            entries: entries
                .iter()
                .map(|(pid, parent)| (*pid, entry(*pid, *parent)))
                .collect(),
            is_supported: true,
        };
        let mut pids: Vec<_> = snapshot
            .trees(|entry| entry.key.pid == 10)
            .iter()
            .map(|key| key.pid)
            .collect();
        pids.sort_unstable();
        assert_eq!(pids, [10, 11, 12]);
    }

    #[test]
    fn environment_values() {
        let entry = Entry {
            key: ProcessKey { pid: 1, start: 0 },
            parent: 0,
            group: 0,
            session: 0,
            marked_env: Some(b"AA=1\0A=2=3\0B".to_vec()),
        };
        for (name, value, expected) in [
            ("A", "2=3", true),
            ("A", "1", false),
            ("B", "", false),
            ("AA", "1", true),
        ] {
            assert_eq!(entry.has_env(name, value), expected, "{name}={value}");
        }
    }
}
