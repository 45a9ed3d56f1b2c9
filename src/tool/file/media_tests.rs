use std::os::unix::fs::symlink;

use longshore_protocol::error::ErrorKind;
use serde_json::json;

use super::super::testing::{Bench, failed, note};
use super::*;
use crate::kernel::limits::IMAGE_READ_BYTES;
use crate::media::header::Header;
use crate::media::testing::{gif, gradient, jpeg, noise, png, promising_png, turned_jpeg};

/// The file shown, and its note.
fn shown(outcome: &Outcome) -> (Vec<u8>, String) {
    assert!(!outcome.is_error, "{outcome:?}");
    match outcome.output.as_slice() {
        [
            Part::Text(open),
            Part::Image { mime, data },
            Part::Text(close),
        ] => {
            assert!(open.starts_with("<image path=\"") && open.ends_with("\">"));
            assert_eq!(&**close, "</image>");
            let bytes = STANDARD.decode(data.as_bytes()).unwrap();
            assert_eq!(Header::read(&bytes).unwrap().kind.mime(), &**mime);
            let note = note(outcome);
            let said = format!("Image, {mime}, {} bytes.", bytes.len());
            assert!(note.starts_with(&said), "{note}");
            (bytes, note)
        }
        other => panic!("{other:?}"),
    }
}

async fn look(bench: &Bench, args: Value) -> Outcome {
    bench
        .run(&ReadMediaFile::new(bench.deps.clone()), args)
        .await
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[tokio::test]
async fn small_images_are_shown_as_they_are() {
    let bench = Bench::new();
    let photo = noise(60, 40);
    for (name, bytes) in [
        ("a.png", png(&photo)),
        ("b.jpg", jpeg(&photo)),
        ("c.gif", gif(60, 40, 2)),
        ("no-extension", png(&photo)),
    ] {
        bench.put(name, &bytes);
        for full_resolution in [false, true] {
            let args = json!({"path": name, "full_resolution": full_resolution});
            let (given, note) = shown(&look(&bench, args).await);
            assert_eq!(given, bytes, "{name}");
            says(
                &note,
                &["Shown as it is: 60 × 40 pixels.", "fractions of width"],
            );
        }
    }
}

#[tokio::test]
async fn large_images_are_downsampled_and_said_to_be() {
    let bench = Bench::new();
    let bytes = png(&noise(2400, 1800));
    bench.put("shot.png", &bytes);
    let (given, note) = shown(&look(&bench, json!({"path": "shot.png"})).await);
    let header = Header::read(&given).unwrap();
    assert!(given.len() <= IMAGE_READ_BYTES && header.edge() <= 2000);
    let (width, height) = header.size;
    says(
        &note,
        &[
            &format!("Downsampled to {width} × {height} pixels"),
            "the original has 2400 × 1800 pixels (image/png,",
            &format!("{} bytes)", bytes.len()),
            "Use `region`",
            "look at it again",
        ],
    );
}

#[tokio::test]
async fn a_region_reaches_to_the_border() {
    let bench = Bench::new();
    bench.put("wide.png", png(&gradient(3000, 1500)));
    let region = json!({"x": 2500, "y": 1000, "width": 1000, "height": 1000});
    let args = json!({"path": "wide.png", "region": region});
    let (given, note) = shown(&look(&bench, args).await);
    assert_eq!(Header::read(&given).unwrap().size, (500, 500));
    says(
        &note,
        &[
            "A crop of 500 × 500 pixels whose corner lies at (2500, 1000)",
            "3000 × 1500 pixels",
            "Add (2500, 1000)",
        ],
    );
    assert!(!note.contains("fractions"), "{note}");
    let region = json!({"x": 0, "y": 0, "width": 3000, "height": 750});
    let args = json!({"path": "wide.png", "region": region});
    let (given, note) = shown(&look(&bench, args).await);
    assert_eq!(Header::read(&given).unwrap().size, (2000, 500));
    says(&note, &["shown at 2000 × 500 pixels: multiply by 1.5000"]);
    let outside = json!({"x": 3000, "y": 0, "width": 5, "height": 5});
    let outcome = look(&bench, json!({"path": "wide.png", "region": outside})).await;
    says(&failed(&outcome), &["3000 × 1500 pixels", "outside"]);
}

#[tokio::test]
async fn photographs_are_as_displayed() {
    let bench = Bench::new();
    bench.put("photo.jpg", turned_jpeg(&gradient(400, 300), 6));
    let (_, note) = shown(&look(&bench, json!({"path": "photo.jpg"})).await);
    says(&note, &["300 × 400 pixels"]);
    bench.put("large.jpg", turned_jpeg(&gradient(4000, 3000), 6));
    let (given, note) = shown(&look(&bench, json!({"path": "large.jpg"})).await);
    assert_eq!(Header::read(&given).unwrap().size, (1500, 2000));
    says(&note, &["the original has 3000 × 4000 pixels"]);
}

#[tokio::test]
async fn bombs_and_wrecks_are_refused() {
    let bench = Bench::new();
    bench.put("bomb.png", promising_png(30_000, 30_000, b"x"));
    let whole = png(&noise(60, 40));
    bench.put("cut.png", &whole[..whole.len() / 2]);
    bench.put("long.gif", gif(3000, 2, 2));
    bench.put("empty.png", "");
    for (name, words) in [
        (
            "bomb.png",
            &["30000 × 30000 pixels", "the same call would fail again"][..],
        ),
        ("cut.png", &["it ends in the middle of the image"]),
        ("long.gif", &["a GIF", "smaller copy"]),
        ("empty.png", &["empty.png is empty."]),
    ] {
        let outcome = look(&bench, json!({"path": name})).await;
        says(&failed(&outcome), words);
    }
}

#[tokio::test]
async fn other_formats_are_refused_with_the_way_out() {
    let bench = Bench::new();
    bench.put("a.png", b"\0\0\0\x18ftypavif\0\0\0\0");
    bench.put("a.heic", b"\0\0\0\x18ftypheic\0\0\0\0");
    bench.put("a.pdf", "%PDF-1.7\n");
    bench.put("a.mp4", b"\0\0\0\x18ftypisom\0\0\0\0");
    bench.put("a.txt", "text");
    bench.put("a.svg", "<svg/>");
    bench.put("b.png", "text");
    bench.put("noise", b"\x80\0\x01");
    for (name, words) in [
        (
            "a.png",
            &["an AVIF image (image/avif)", "a.converted.png"][..],
        ),
        ("a.heic", &["a HEIC image", "a.png"]),
        ("a.pdf", &["a PDF document", "pdftotext"]),
        (
            "a.mp4",
            &["a video (video/mp4)", "takes no video", "ffmpeg"],
        ),
        ("a.txt", &["is text", "use Read"]),
        ("a.svg", &["is text", "use Read"]),
        ("b.png", &["neither an image nor text"]),
        ("noise", &["neither an image nor text"]),
    ] {
        let outcome = look(&bench, json!({"path": name})).await;
        says(&failed(&outcome), words);
        let has_image = |part: &Part| matches!(part, Part::Image { .. });
        assert!(!outcome.output.iter().any(has_image));
    }
}

#[tokio::test]
async fn what_the_model_takes_decides() {
    let bench = Bench::new();
    bench.put("a.png", png(&noise(6, 4)));
    bench.put("a.mp4", b"\0\0\0\x18ftypisom\0\0\0\0");
    let tool = |image_input, video_input| {
        ReadMediaFile::new(FileDeps {
            image_input,
            video_input,
            ..bench.deps.clone()
        })
    };
    let blind = bench
        .run(&tool(false, false), json!({"path": "a.png"}))
        .await;
    says(&failed(&blind), &["takes no images"]);
    let filmed = tool(true, true);
    let outcome = bench.run(&filmed, json!({"path": "a.mp4"})).await;
    says(&failed(&outcome), &["connection carries images only"]);
    says(&filmed.spec().description, &["Videos can't be sent"]);
    says(
        &tool(true, false).spec().description,
        &["takes no video", "2000 pixels and 262144 bytes"],
    );
}

#[tokio::test]
async fn sizes_are_checked_before_anything_is_read() {
    let bench = Bench::new();
    let start = png(&noise(6, 4));
    for (name, size) in [
        ("heavy.png", IMAGE_BYTES as u64 + 1),
        ("huge.png", (64 << 20) + 1),
        ("vast.png", (100 << 20) + 1),
    ] {
        let path = bench.put(name, &start);
        std::fs::File::options()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(size))
            .unwrap();
    }
    let region = json!({"x": 0, "y": 0, "width": 1, "height": 1});
    for (args, words) in [
        (
            json!({"path": "heavy.png", "full_resolution": true}),
            "Give a `region`",
        ),
        (json!({"path": "huge.png"}), "decoded up to 64"),
        (
            json!({"path": "huge.png", "region": region}),
            "decoded up to 64",
        ),
        (
            json!({"path": "huge.png", "full_resolution": true}),
            "Give a `region`",
        ),
        (json!({"path": "vast.png"}), "above 100 MiB"),
    ] {
        says(&failed(&look(&bench, args).await), &[words]);
    }
    // A crop of every pixel may still be too much.
    bench.put("noisy.png", png(&noise(1500, 1200)));
    let region = json!({"x": 0, "y": 0, "width": 1400, "height": 1100});
    let args = json!({"path": "noisy.png", "region": region, "full_resolution": true});
    says(
        &failed(&look(&bench, args).await),
        &["Choose a smaller region."],
    );
}

#[tokio::test]
async fn paths_and_what_stands_there() {
    let bench = Bench::new();
    bench.put("a\"<b>.png", png(&noise(6, 4)));
    let outcome = look(&bench, json!({"path": "a\"<b>.png"})).await;
    shown(&outcome);
    let Part::Text(open) = &outcome.output[0] else {
        panic!("{outcome:?}")
    };
    assert_eq!(&**open, "<image path=\"a&quot;&lt;b&gt;.png\">");
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("fifo.png"), 0o600.into()).unwrap();
    symlink(bench.path("a\"<b>.png"), bench.path("link.png")).unwrap();
    for (path, words) in [
        ("fifo.png", "a named pipe"),
        (".", "a directory"),
        ("missing.png", "does not exist"),
    ] {
        let outcome = look(&bench, json!({"path": path})).await;
        says(&failed(&outcome), &[words]);
    }
    shown(&look(&bench, json!({"path": "link.png"})).await);
    let tool = ReadMediaFile::new(bench.deps.clone());
    let refused = bench.refused(&tool, json!({"path": ".env"})).await;
    assert_eq!(refused, Some(ErrorKind::PathSensitive));
}

#[test]
fn arguments_are_closed() {
    let bench = Bench::new();
    let tool = ReadMediaFile::new(bench.deps.clone());
    for args in [
        json!({}),
        json!({"path": "a", "more": 1}),
        json!({"path": "a", "region": {"x": 0, "y": 0, "width": 0, "height": 1}}),
        json!({"path": "a", "region": {"x": -1, "y": 0, "width": 1, "height": 1}}),
        json!({"path": "a", "region": {"x": 0, "y": 0, "width": 1}}),
        json!({"path": "a", "region": {"x": 0, "y": 0, "width": 1, "height": 1, "z": 1}}),
    ] {
        assert!(bench.resolve(&tool, args.clone()).is_err(), "{args}");
    }
    let call = bench.resolve(&tool, json!({"path": "a.png"})).unwrap();
    assert_eq!(call.title, "Read a.png");
    assert_eq!(call.accesses, [Access::read(bench.path("a.png"))]);
    // The same bytes for the whole session.
    let again = ReadMediaFile::new(bench.deps.clone());
    assert_eq!(tool.spec().description, again.spec().description);
    assert_eq!(tool.spec().parameters, again.spec().parameters);
}

#[tokio::test]
async fn a_cancelled_call_shows_nothing() {
    let bench = Bench::new();
    bench.put("a.png", png(&noise(6, 4)));
    let tool = ReadMediaFile::new(bench.deps.clone());
    let (call, accesses) = bench.judge(&tool, json!({"path": "a.png"})).await.unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = (call.execute)(bench.cx(accesses, &cancel)).await;
    says(&failed(&outcome), &["cancelled"]);
}
