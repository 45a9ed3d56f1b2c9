#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;
use std::os::unix::fs::symlink;

use longshore_protocol::error::ErrorKind;
use serde_json::json;

use super::super::testing::{Bench, failed, note, ok};
use super::*;

async fn read_file(bytes: impl AsRef<[u8]>, args: Value) -> Outcome {
    let bench = Bench::new();
    bench.put("f", bytes);
    let mut args = args;
    args["path"] = "f".into();
    bench.run(&Read::new(bench.deps.clone()), args).await
}

#[tokio::test]
async fn text_and_notes() {
    let numbers: String = (1..=5).map(|n| n.to_string() + "\n").collect();
    for (bytes, args, text, said) in [
        (
            "alpha\nbeta\n",
            json!({}),
            "1\talpha\n2\tbeta",
            "2 lines read, from line 1. Total: 2 lines. End of file reached.",
        ),
        (
            "alpha\r\nbeta\r\n",
            json!({}),
            "1\talpha\n2\tbeta",
            "2 lines read, from line 1. Total: 2 lines. End of file reached.",
        ),
        (
            &numbers,
            json!({"line_offset": 2, "n_lines": 2}),
            "2\t2\n3\t3",
            "2 lines read, from line 2. Total: 5 lines.",
        ),
        (
            &numbers,
            json!({"line_offset": -1}),
            "5\t5",
            "1 line read, line 5. Total: 5 lines. End of file reached.",
        ),
        (
            "a\nb\n",
            json!({"line_offset": 20}),
            "",
            "No lines read. Total: 2 lines. End of file reached.",
        ),
        (
            "",
            json!({"line_offset": -10}),
            "",
            "No lines read. Total: 0 lines. End of file reached.",
        ),
        (
            "\u{FEFF}hello\n",
            json!({"n_lines": 1}),
            "1\thello",
            "1 line read, line 1. Total: 1 line.",
        ),
    ] {
        let outcome = read_file(bytes, args).await;
        assert_eq!(
            (ok(&outcome).as_str(), note(&outcome).as_str()),
            (text, said),
            "{bytes:?}"
        );
    }
    let mixed = read_file("a\\r\r\nb\n", json!({})).await;
    assert!(note(&mixed).contains("stands for a carriage return. These lines also hold a backslash and an r in the file itself: 1."));
    let many = read_file("x\n".repeat(1001), json!({})).await;
    assert!(
        note(&many).ends_with("Stopped at the limit of 1,000 lines."),
        "{}",
        note(&many)
    );
    let exact = read_file("x\n".repeat(1000), json!({})).await;
    assert!(
        note(&exact).ends_with("Total: 1000 lines."),
        "{}",
        note(&exact)
    );
    let wide = read_file(("y".repeat(2000) + "\n").repeat(80), json!({})).await;
    assert!(wide.truncated && note(&wide).contains("limit of 102,400 bytes; further lines"));
    let tail = read_file(
        ("y".repeat(2000) + "\n").repeat(500),
        json!({"line_offset": -200, "n_lines": 1}),
    )
    .await;
    assert_eq!(note(&tail), "1 line read, line 301. Total: 500 lines.");
    let long = read_file(format!("{0}\nshort\n{0}\n", "z".repeat(2010)), json!({})).await;
    assert!(note(&long).contains("Lines cut at 2,000 characters: 1, 3."));
}

#[tokio::test]
async fn arguments_out_of_range_are_named() {
    for (args, name) in [
        (json!({"line_offset": 0}), "line_offset can't be 0"),
        (json!({"line_offset": -1001}), "/line_offset"),
        (json!({"n_lines": 0}), "/n_lines"),
        (json!({"bogus": 1}), "`bogus`"),
    ] {
        assert!(failed(&read_file("x", args).await).contains(name));
    }
    ok(&read_file("x", json!({"line_offset": null, "n_lines": 2.0})).await);
}

#[tokio::test]
async fn what_is_not_text_is_refused() {
    for (name, bytes, expected) in [
        ("f", &b"abc\0def"[..], "NUL byte at offset 3"),
        (
            "f",
            b"\xEF\xBB\xBFab\xFF",
            "not valid UTF-8 (first bad byte at offset 5)",
        ),
        ("x.png", b"just text", "bytes are not one"),
        (
            "f",
            b"\xFF\xFEa",
            "begins as UTF-16 (little endian) text but is not valid",
        ),
        (
            "f",
            b"caf\xE9 ",
            "though it may be windows-1252. Convert a copy",
        ),
    ] {
        let bench = Bench::new();
        bench.put(name, bytes);
        let text = failed(
            &bench
                .run(&Read::new(bench.deps.clone()), json!({"path": name}))
                .await,
        );
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn two_byte_text_is_decoded() {
    let bytes: Vec<u8> = "\u{FEFF}中文\r\n字\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let outcome = read_file(bytes, json!({})).await;
    assert_eq!(ok(&outcome), "1\t中文\n2\t字");
    assert!(note(&outcome).contains("UTF-16 (little endian)"));
}

#[tokio::test]
async fn media_are_no_text_whatever_their_name_says() {
    let bench = Bench::new();
    let read = Read::new(bench.deps.clone());
    bench.put(
        "notes.txt",
        [b"\x89PNG\r\n\x1A\n".as_slice(), &[0; 20]].concat(),
    );
    bench.put("x.png", "text");
    bench.put("x.pdf", "%PDF-1.4\n");
    bench.put("x.key", "text");
    for (name, words) in [
        (
            "notes.txt",
            "is a PNG image (image/png), not text; use ReadMediaFile.",
        ),
        ("x.png", "is named like an image, but its bytes are not one"),
        ("x.pdf", "is a PDF document (application/pdf), not text"),
    ] {
        let outcome = bench.run(&read, json!({"path": name})).await;
        assert!(failed(&outcome).contains(words), "{}", failed(&outcome));
    }
    let outcome = bench.run(&read, json!({"path": "x.key"})).await;
    assert_eq!(ok(&outcome), "1\ttext");

    let blind = Read::new(FileDeps {
        image_input: false,
        ..bench.deps.clone()
    });
    let outcome = bench.run(&blind, json!({"path": "notes.txt"})).await;
    assert!(failed(&outcome).ends_with("not text; the model in use takes none."));
    assert!(!blind.spec().description.contains("ReadMediaFile"));
    assert!(read.spec().description.contains("ReadMediaFile"));
}

#[tokio::test]
async fn paths() {
    let bench = Bench::new();
    let read = Read::new(bench.deps.clone());
    let refused = [
        ("../../etc/passwd", ErrorKind::PathOutsideWorkspace),
        (".ENV.Local", ErrorKind::PathSensitive),
        (".aws/credentials/x", ErrorKind::PathSensitive),
        ("ok.txt", ErrorKind::PathSensitive),
    ];
    bench.put(".env", "KEY=1");
    symlink(".env", bench.path("ok.txt")).unwrap();
    for (path, kind) in refused {
        assert_eq!(
            bench.refused(&read, json!({"path": path})).await,
            Some(kind),
            "{path}"
        );
    }
    for name in [".env.example", ".envrc", "credentials.json", "id_rsa.pub"] {
        bench.put(name, "open");
        assert_eq!(
            ok(&bench.run(&read, json!({"path": name})).await),
            "1\topen"
        );
    }
    bench.put("../out.txt", "far");
    symlink(bench.path("../out.txt"), bench.path("link")).unwrap();
    let (_, accesses) = bench.judge(&read, json!({"path": "link"})).await.unwrap();
    assert!(accesses[0].inside && !accesses[0].real_inside && accesses[0].crosses_link);

    disk::create_dir(bench.path("dir")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("fifo"), 0o600.into()).unwrap();
    bench.put("src/lib.rs", "x");
    for (path, expected) in [
        ("dir", "Use Glob"),
        ("fifo", "a named pipe"),
        ("src/Lib.rs", "Did you mean src/lib.rs?"),
        ("src/lib.rs/x", "does not exist"),
    ] {
        let text = failed(&bench.run(&read, json!({"path": path})).await);
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn calls_say_what_they_touch() {
    let bench = Bench::new();
    let read = Read::new(bench.deps.clone());
    let call = bench
        .resolve(&read, json!({"path": "a/f", "line_offset": -5}))
        .unwrap();
    let path = bench.path("a/f");
    assert_eq!(call.accesses, [Access::read(&path)]);
    assert_eq!(call.title, "Read a/f");
    assert_eq!(
        call.display,
        Display::FileRead {
            path: path.display().to_string(),
            line: Some(-5)
        }
    );
    let outside = bench.resolve(&read, json!({"path": "/etc/hosts"})).unwrap();
    assert_eq!(outside.title, "Read /etc/hosts");
}

#[tokio::test]
async fn a_large_log_is_read_from_either_end() {
    let bench = Bench::new();
    let path = bench.put("log", "first\nsecond\n");
    let file = disk::OpenOptions::new().write(true).open(&path).unwrap();
    // A hole of NULs in the middle, far from both windows, that a whole read would refuse.
    let mut line = vec![b'x'; 9 << 20];
    line.push(b'\n');
    use std::os::unix::fs::FileExt;
    file.write_all_at(&line, 13).unwrap();
    let end = 80 << 20;
    file.write_all_at(b"\nlast but one\nlast\n", end).unwrap();
    let read = Read::new(bench.deps.clone());
    let head = bench.run(&read, json!({"path": "log", "n_lines": 2})).await;
    assert_eq!(ok(&head), "1\tfirst\n2\tsecond");
    assert!(note(&head).contains("Total: at least"), "{}", note(&head));
    let tail = bench
        .run(&read, json!({"path": "log", "line_offset": -2}))
        .await;
    assert_eq!(ok(&tail), "-2\tlast but one\n-1\tlast");
}
