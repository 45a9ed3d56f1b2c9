#![expect(
    clippy::disallowed_methods,
    reason = "the tests look at files behind the streams"
)]

use std::io::Write;
use std::os::unix::net::UnixStream;

use rustix::fs::{OFlags, fcntl_getfl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::os::process::{Command, Processes, Stdin};
use crate::os::test_copy;

fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = io::pipe().unwrap();
    (reader.into(), writer.into())
}

fn socket_pair() -> (OwnedFd, OwnedFd) {
    let (a, b) = UnixStream::pair().unwrap();
    (a.into(), b.into())
}

fn temp_file(content: &[u8]) -> OwnedFd {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, content).unwrap();
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
        .into()
}

fn is_nonblocking(fd: &OwnedFd) -> bool {
    fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

/// Messages pass one by one as they are written, the end is an end, and nobody else's descriptor changes.
#[tokio::test]
async fn input_from_whatever_can_be_written_to() {
    for make in [pipe, socket_pair] {
        let (reader, writer) = make();
        let shared = reader.try_clone().unwrap();
        let mut input = Input::from_fd(reader).unwrap();
        let mut writer = std::fs::File::from(writer);
        let mut buf = [0; 64];
        for message in ["one\n", "two\n"] {
            writer.write_all(message.as_bytes()).unwrap();
            let n = input.read(&mut buf).await.unwrap();
            assert_eq!(&buf[..n], message.as_bytes());
        }
        assert!(!is_nonblocking(&shared));
        drop(writer);
        for _ in 0..2 {
            assert_eq!(input.read(&mut buf).await.unwrap(), 0);
        }
    }
}

#[tokio::test]
async fn input_from_files_and_devices() {
    let content = vec![b'x'; 200_000];
    let mut read = Vec::new();
    Input::from_fd(temp_file(&content))
        .unwrap()
        .read_to_end(&mut read)
        .await
        .unwrap();
    assert_eq!(read, content);
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut input = Input::from_fd(null.into()).unwrap();
    assert_eq!(input.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_read_error_is_final() {
    let dir = std::fs::File::open("/").unwrap();
    let mut input = Input::from_fd(dir.into()).unwrap();
    assert_eq!(
        input.read(&mut [0; 8]).await.unwrap_err().raw_os_error(),
        Some(libc::EISDIR)
    );
    assert_eq!(input.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test]
async fn output_to_whatever_can_be_read_from() {
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    for make in [pipe, socket_pair] {
        let (reader, writer) = make();
        let shared = writer.try_clone().unwrap();
        let mut output = Output::from_fd(writer).unwrap();
        let mut input = Input::from_fd(reader).unwrap();
        let mut read = vec![0; content.len()];
        let write = async {
            output.write_all(&content).await.unwrap();
            output.flush().await.unwrap();
        };
        let ((), n_read) = tokio::join!(write, input.read_exact(&mut read));
        assert_eq!(n_read.unwrap(), content.len());
        assert!(read == content);
        assert!(!is_nonblocking(&shared));
    }
}

#[tokio::test]
async fn output_to_files() {
    let file = temp_file(b"");
    let shared = file.try_clone().unwrap();
    let mut output = Output::from_fd(file).unwrap();
    let content = vec![b'x'; 200_000];
    output.write_all(&content).await.unwrap();
    output.write_all(b"end").await.unwrap();
    output.flush().await.unwrap();
    assert_eq!(
        std::fs::File::from(shared).metadata().unwrap().len(),
        200_003
    );
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    if let Ok(full) = full {
        let mut output = Output::from_fd(full.into()).unwrap();
        output.write_all(b"x").await.unwrap();
        assert_eq!(
            output.flush().await.unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
    }
}

/// Also when the other end was closed before we looked.
#[tokio::test]
async fn a_closed_reader_is_an_error() {
    for make in [pipe, socket_pair] {
        for closed_before in [true, false] {
            let (reader, writer) = make();
            let mut reader = Some(reader);
            if closed_before {
                reader = None;
            }
            let mut output = Output::from_fd(writer).unwrap();
            drop(reader);
            let write = async {
                output.write_all(b"x").await?;
                output.flush().await
            };
            let error: io::Error = write.await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}

/// In a copy of this binary: after the take-over only the protocol reaches standard output and reads standard input.
#[tokio::test]
async fn decoys_are_left_behind() {
    const TEST: &str = "os::stdio::tests::decoys_are_left_behind";
    if test_copy::is_copy() {
        let (mut input, mut output) = take().unwrap();
        writeln!(io::stdout(), "stray print").unwrap();
        let child = Command::new("/bin/sh", "/")
            .args(["-c", "cat <&0; echo stray child >&2; echo told"])
            .stderr(crate::os::process::Stderr::Inherited);
        let done = Processes::new(None)
            .spawn(child)
            .await
            .unwrap()
            .collect(100)
            .await;
        assert_eq!(done.stdout, b"told\n");
        let mut line = String::new();
        input.read_to_string(&mut line).await.unwrap();
        output
            .write_all(format!("<<{line}>>").as_bytes())
            .await
            .unwrap();
        output.flush().await.unwrap();
        return;
    }
    let processes = Processes::new(None);
    let command = test_copy::command(TEST).stdin(Stdin::Piped);
    let mut running = processes.spawn(command).await.unwrap();
    running
        .take_stdin()
        .unwrap()
        .write_all(b"hello")
        .await
        .unwrap();
    let done = running.collect(1 << 20).await;
    let (stdout, stderr) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(done.exit.status.is_success(), "{stderr}");
    assert!(
        stdout.contains("<<hello>>") && !stdout.contains("stray"),
        "{stdout}"
    );
    assert!(
        stderr.contains("stray print") && stderr.contains("stray child"),
        "{stderr}"
    );
    // The harness prints its verdict after the take-over, so that goes astray too.
    assert!(
        stderr.contains("1 passed") && !stdout.contains("1 passed"),
        "{stderr}"
    );
}

/// In a copy of this binary, so that no other test's children get the open descriptor.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn inherited_descriptors_are_sealed() {
    const TEST: &str = "os::stdio::tests::inherited_descriptors_are_sealed";
    let processes = Processes::new(None);
    if !test_copy::is_copy() {
        let running = processes.spawn(test_copy::command(TEST)).await.unwrap();
        let done = running.collect(1 << 20).await;
        let output = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.exit.status.is_success() && output.contains("1 passed"),
            "{output}"
        );
        return;
    }
    let file = temp_file(b"");
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let count = || async {
        let command = Command::new("ls", "/")
            .arg("/proc/self/fd")
            .env([("PATH", "/usr/bin:/bin")]);
        let done = processes.spawn(command).await.unwrap().collect(100).await;
        // One of them is the listing's own.
        String::from_utf8(done.stdout).unwrap().lines().count() - 1
    };
    assert!(count().await > 3);
    seal_inherited();
    assert_eq!(count().await, 3, "only descriptors 0, 1 and 2");
    assert!(!rustix::io::fcntl_getfd(&file).unwrap().is_empty());
}
