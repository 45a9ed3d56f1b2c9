//! Whether a process was started by this program, directly or not.

#[cfg(target_os = "linux")]
use std::net::IpAddr;
use std::net::SocketAddr;

use super::identity::Identity;

/// No real chain of parents is longer.
#[cfg(target_os = "linux")]
const MOST: usize = 512;

/// What a process is to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    /// Nothing says that this program started it.
    Stranger,
    /// Its chain of parents leads to this process.
    Descendant,
    /// It or one of its parents bears the mark of a task, be it one of this process or of another of this program.
    Marked,
    /// It has ended, or can't be looked at.
    Unknown,
}

/// Tells what a process is to this one. Best effort: a process can shed both its parents and its environment. Blocking,
/// some 50 µs for each of its parents. Where the system has no table of processes everybody is a stranger.
#[cfg(target_os = "linux")]
pub fn kin_of(pid: u32) -> Kin {
    /// A parent that ends during the look leaves its children to another: then they are looked at again.
    const TRIES: usize = 5;
    (0..TRIES).find_map(|_| walk(pid)).unwrap_or(Kin::Unknown)
}

/// Where there is no table of processes, everybody is a stranger.
#[cfg(not(target_os = "linux"))]
pub fn kin_of(_pid: u32) -> Kin {
    Kin::Stranger
}

/// Whether this very process is a command that this program runs for a model, or was started by one: it or one of its
/// parents bears the mark of a task. Best effort, likewise.
#[cfg(target_os = "linux")]
pub fn is_in_a_task() -> bool {
    own_line().any(|pid| super::table::bears_any(pid, super::TASK_MARK))
}

/// This process and its parents, the nearest first, as far as they can be seen.
#[cfg(target_os = "linux")]
fn own_line() -> impl Iterator<Item = i32> {
    let own = std::process::id() as i32;
    let parent = |pid: &i32| super::table::parent_of(*pid).filter(|pid| *pid > 0);
    std::iter::successors(Some(own), parent).take(MOST)
}

/// Where there is no table of processes, that is not known.
#[cfg(not(target_os = "linux"))]
pub fn is_in_a_task() -> bool {
    false
}

/// The parents of this process, the nearest first, as far as they can be seen.
#[cfg(target_os = "linux")]
pub fn own_parents() -> Vec<Identity> {
    let identity = |pid: i32| {
        Some(Identity {
            pid: pid.try_into().ok()?,
            start: super::table::start_of(pid)?,
        })
    };
    own_line().skip(1).filter_map(identity).collect()
}

/// Where there is no table of processes, none can be seen.
#[cfg(not(target_os = "linux"))]
pub fn own_parents() -> Vec<Identity> {
    Vec::new()
}

/// As [`kin_of`], of the process at the other end of a TCP connection on this machine: `theirs` and `ours` are the
/// addresses of the two ends. Whoever is elsewhere is a stranger. Blocking: some 20 µs for each process of the machine.
#[cfg(target_os = "linux")]
pub fn kin_of_tcp(theirs: SocketAddr, ours: SocketAddr) -> Kin {
    use super::table::{Snapshot, has_open};
    if !theirs.ip().to_canonical().is_loopback() && theirs.ip() != ours.ip() {
        return Kin::Stranger;
    }
    let Some(socket) = socket_of(theirs, ours) else {
        return Kin::Unknown;
    };
    let own = std::process::id() as i32;
    let family = Snapshot::take().trees(|entry| entry.parent == own || entry.is_marked());
    let name = format!("socket:[{socket}]");
    if family.iter().any(|key| has_open(key.pid, &name)) {
        return Kin::Descendant;
    }
    Kin::Stranger
}

/// Where there is no table of processes, everybody is a stranger.
#[cfg(not(target_os = "linux"))]
pub fn kin_of_tcp(_theirs: SocketAddr, _ours: SocketAddr) -> Kin {
    Kin::Stranger
}

/// The system's number of the socket that is bound to one address and connected to another.
#[cfg(target_os = "linux")]
fn socket_of(bound: SocketAddr, connected: SocketAddr) -> Option<u64> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| crate::os::fs::read_to_string(table.as_ref()).ok())
        .find_map(|table| {
            table.lines().skip(1).find_map(|line| {
                let fields: Vec<&str> = line.split_ascii_whitespace().collect();
                let is_it = address(fields.get(1)?)? == canonical(bound)
                    && address(fields.get(2)?)? == canonical(connected);
                let socket: u64 = fields.get(9)?.parse().ok()?;
                (is_it && socket != 0).then_some(socket)
            })
        })
}

/// An address as the kernel's tables write it: the bytes of each 32 bits in the machine's order, then the port.
#[cfg(target_os = "linux")]
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..ip.len()).step_by(8) {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(target_os = "linux")]
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Goes from a process to its parents; `None` where one of them vanished on the way.
#[cfg(target_os = "linux")]
fn walk(pid: u32) -> Option<Kin> {
    use super::TASK_MARK;
    use super::table::{bears_any, live, parent_of};
    let own = std::process::id() as i32;
    let Some(first) = i32::try_from(pid).ok().and_then(live) else {
        return Some(Kin::Unknown);
    };
    let mut next = first.pid;
    for depth in 0..MOST {
        if next == own && depth > 0 {
            return Some(Kin::Descendant);
        }
        if bears_any(next, TASK_MARK) {
            return Some(Kin::Marked);
        }
        match parent_of(next)? {
            parent if parent > 0 && next != own => next = parent,
            _ => return Some(Kin::Stranger),
        }
    }
    Some(Kin::Unknown)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::os::process::{Command, Processes, Running, TASK_MARK};

    async fn spawn(processes: &Processes, script: &str, env: &[(&str, &str)]) -> Running {
        let command = Command::new("/bin/sh", "/")
            .args(["-c", script])
            .env([("PATH", "/usr/local/bin:/usr/bin:/bin")])
            .env(env.iter().copied());
        processes.spawn(command).await.unwrap()
    }

    async fn told_pid(running: &mut Running) -> u32 {
        let mut seen = String::new();
        while !seen.ends_with('\n') {
            let chunk = running.next_output().await.expect("a process id");
            seen.push_str(&String::from_utf8_lossy(&chunk.bytes));
        }
        seen.trim().parse().unwrap()
    }

    #[tokio::test]
    async fn descendants_and_bearers_are_known() {
        let processes = Processes::new(None);
        let plain = spawn(&processes, "exec sleep 60", &[]).await;
        assert_eq!(kin_of(plain.pid()), Kin::Descendant);
        // Shed by the one, borne by its parent: nearer marks are met before this process is.
        let marked = &[(TASK_MARK, "bash-01234567")];
        let script = format!("env -u {TASK_MARK} sleep 60 & echo $!; wait");
        let mut outer = spawn(&processes, &script, marked).await;
        let inner = told_pid(&mut outer).await;
        assert_eq!(kin_of(outer.pid()), Kin::Marked);
        assert_eq!(kin_of(inner), Kin::Marked);
        for mut running in [plain, outer] {
            let pid = running.pid();
            running.stop(std::time::Duration::ZERO);
            running.wait().await;
            assert_eq!(kin_of(pid), Kin::Unknown);
        }
    }

    #[test]
    fn addresses_of_the_kernel() {
        let expected = |text: &str| Some(text.parse::<SocketAddr>().unwrap());
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:1F90"), expected("127.0.0.1:8080"));
            let mapped = "0000000000000000FFFF00000100007F:0050";
            assert_eq!(address(mapped), expected("127.0.0.1:80"));
            let v6 = "00000000000000000000000001000000:0050";
            assert_eq!(address(v6), expected("[::1]:80"));
        }
        for wrong in ["", "0100007F", "0100007:1", "x:1", "0100007F:10000"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_child_is_known_by_its_connection() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = listener.local_addr().unwrap();
        let own_end = tokio::net::TcpStream::connect(ours).await.unwrap();
        let (other_end, theirs) = listener.accept().await.unwrap();
        // This process is no child of its own.
        assert_eq!(kin_of_tcp(theirs, ours), Kin::Stranger);
        drop((own_end, other_end));

        let processes = Processes::new(None);
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; exec sleep 60", ours.port());
        let command = Command::new("/bin/bash", "/")
            .args(["-c", &script])
            .env([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        let mut child = processes.spawn(command).await.unwrap();
        let (_accepted, theirs) = listener.accept().await.unwrap();
        assert_eq!(kin_of_tcp(theirs, ours), Kin::Descendant);
        child.stop(std::time::Duration::ZERO);
        child.wait().await;
        let elsewhere = "192.0.2.1:1".parse().unwrap();
        assert_eq!(kin_of_tcp(elsewhere, ours), Kin::Stranger);
        let nowhere = SocketAddr::new(theirs.ip(), 1);
        assert_eq!(kin_of_tcp(nowhere, ours), Kin::Unknown);
    }

    #[test]
    fn this_process_and_the_first_one_are_no_descendants() {
        assert_ne!(kin_of(std::process::id()), Kin::Descendant);
        assert_ne!(kin_of(1), Kin::Descendant);
        assert_eq!(kin_of(u32::MAX), Kin::Unknown);
    }
}
