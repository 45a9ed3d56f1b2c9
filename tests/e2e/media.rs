//! Images: from files and from prompts, to what the model and the host get.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, RgbImage};
use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};

/// Two models with one script: one sees, the other does not.
fn configure(scratch: &Scratch, script: &str) {
    let path = scratch.root().join("script.yaml");
    fs::write(&path, script).unwrap();
    let model = |name: &str, capabilities: &str| {
        format!(
            "[models.{name}]\nprovider = \"s\"\nmodel = \"{name}\"\ncapabilities = [{capabilities}]\n"
        )
    };
    scratch.configure(&format!(
        "default_model = \"sees\"\n[providers.s]\ntype = \"scripted\"\nscript = \"{}\"\n{}{}",
        path.display(),
        model("sees", "\"image_in\", \"tool_use\""),
        model("blind", "\"tool_use\""),
    ));
}

/// A picture that hardly compresses.
fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1_u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, a, b, c] = state.to_le_bytes();
        image::Rgb([a, b, c])
    })
}

fn png(photo: &RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    photo
        .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
        .unwrap();
    bytes
}

/// What the model was asked, request by request.
fn asked(scratch: &Scratch) -> Vec<Value> {
    let trace = fs::read_to_string(scratch.trace()).unwrap();
    trace
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// All content of a request's messages of one role.
fn content(request: &Value, role: &str) -> Vec<Value> {
    let messages = request["messages"].as_array().unwrap();
    messages
        .iter()
        .filter(|message| message["role"] == role)
        .flat_map(|message| message["content"].as_array().unwrap().clone())
        .collect()
}

/// The image among parts as hosts see them: its type and its bytes.
fn image_of(parts: &Value) -> (String, Vec<u8>) {
    let image = parts
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["type"] == "image")
        .unwrap_or_else(|| panic!("no image in {parts}"));
    let bytes = STANDARD.decode(image["data"].as_str().unwrap()).unwrap();
    (image["mimeType"].as_str().unwrap().to_owned(), bytes)
}

#[test]
fn a_model_that_sees_is_shown_files_made_fit() {
    let scratch = Scratch::new();
    configure(
        &scratch,
        r"
turns:
  - steps:
      - tool_call: {id: whole, name: ReadMediaFile, args: {path: shot.png}}
      - tool_call: {id: part, name: ReadMediaFile, args: {path: shot.png, region: {x: 2200, y: 1500, width: 600, height: 600}}}
      - tool_call: {id: lie, name: ReadMediaFile, args: {path: lie.png}}
      - tool_call: {id: bomb, name: ReadMediaFile, args: {path: bomb.png}}
      - tool_call: {id: text, name: Read, args: {path: shot.png}}
  - steps: [{text: seen}]
",
    );
    let original = png(&noise(2500, 1700));
    scratch.write("shot.png", &original);
    scratch.write("lie.png", b"\0\0\0\x18ftypavif\0\0\0\0");
    // A whole file of few bytes that promises 900 million pixels: a header, some data, and an end.
    let mut bomb = png(&noise(1, 1));
    bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    scratch.write("bomb.png", &bomb);

    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Look.");
    assert_eq!(server.ended(&turn)["reason"], "completed");

    let completed: Vec<Value> = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "tool/completed")
        .map(|message| message["params"].clone())
        .collect();
    let of = |call: &str| {
        completed
            .iter()
            .find(|params| params["toolCallId"] == call)
            .unwrap_or_else(|| panic!("no {call} among {completed:?}"))
    };
    let (mime, whole) = image_of(&of("call_1")["output"]);
    assert!(whole.len() <= 262_144 && whole.len() < original.len());
    let shown = image::load_from_memory(&whole).unwrap();
    assert!(shown.width() <= 2000 && shown.width() > shown.height());
    let (_, part) = image_of(&of("call_2")["output"]);
    let crop = image::load_from_memory(&part).unwrap().into_rgb8();
    assert_eq!(crop.dimensions(), (300, 200));
    assert_eq!(
        crop.get_pixel(10, 20),
        noise(2500, 1700).get_pixel(2210, 1520)
    );
    for call in ["call_3", "call_4", "call_5"] {
        assert_eq!(of(call)["isError"], true);
    }

    let request = &asked(&scratch)[1];
    let tools = content(request, "tool");
    // The model got the very image that the host saw, and notes the host did not see.
    let sizes: Vec<&Value> = tools
        .iter()
        .filter(|part| part["image"].is_string())
        .collect();
    assert_eq!(sizes.len(), 2, "{tools:?}");
    assert_eq!(sizes[0]["image"], mime.as_str());
    assert_eq!(sizes[0]["base64_chars"], whole.len().div_ceil(3) * 4);
    assert_eq!(sizes[1]["base64_chars"], part.len().div_ceil(3) * 4);
    let all = request["messages"].to_string();
    for words in [
        "Downsampled to",
        "the original has 2500 × 1700 pixels",
        "A crop of 300 × 200 pixels whose corner lies at (2200, 1500)",
        "an AVIF image",
        "30000 × 30000 pixels",
        "use ReadMediaFile",
    ] {
        assert!(all.contains(words), "no {words:?} in {all}");
    }
}

#[test]
fn the_tool_is_there_for_models_that_see() {
    let scratch = Scratch::new();
    configure(&scratch, "turns: [{steps: [{text: ok}]}]");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"model": "blind"}));
    let mut has_tool = || {
        let tools = server.request("tool/list", json!({"sessionId": session}));
        tools.to_string().contains("ReadMediaFile")
    };
    assert!(!has_tool());
    server.request(
        "session/set",
        json!({"sessionId": session, "model": "sees"}),
    );
    let mut has_tool = || {
        let tools = server.request("tool/list", json!({"sessionId": session}));
        tools.to_string().contains("ReadMediaFile")
    };
    assert!(has_tool());
}

#[test]
fn attached_images_are_made_fit_and_stay_so_in_the_next_process() {
    let scratch = Scratch::new();
    configure(
        &scratch,
        "turns: [{steps: [{text: one}]}, {steps: [{text: two}]}]",
    );
    let large = png(&noise(2300, 40));
    let small = png(&noise(30, 20));
    let attached = |bytes: &[u8], mime: &str| json!({"type": "image", "data": STANDARD.encode(bytes), "mimeType": mime});
    let input = json!([
        {"type": "text", "text": "Compare."},
        attached(&large, "image/jpg"),
        attached(&small, "image/png"),
        attached(b"%PDF-1.7", "image/png"),
        {"type": "image", "data": "no base64!", "mimeType": "image/png"},
    ]);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let started = server.request("turn/start", json!({"sessionId": session, "input": input}));
    let turn = started["turnId"].as_str().unwrap().to_owned();
    let shown = server.event("turn/started")["input"].clone();
    assert_eq!(server.ended(&turn)["reason"], "completed");

    assert_eq!(shown[0]["text"], "Compare.");
    let original = &shown[1]["original"];
    assert_eq!(
        (
            &original["width"],
            &original["height"],
            &original["shownWidth"]
        ),
        (&json!(2300), &json!(40), &json!(2000))
    );
    assert_eq!(original["bytes"], large.len());
    assert_eq!(shown[1]["mimeType"], "image/png");
    let kept = original["path"].as_str().unwrap();
    assert_eq!(fs::read(kept).unwrap(), large);
    assert_eq!(
        Path::new(kept).parent().unwrap().file_name().unwrap(),
        "media"
    );
    assert_eq!(shown[2], attached(&small, "image/png"));
    assert!(
        shown[3]["text"]
            .as_str()
            .unwrap()
            .contains("a PDF document")
    );
    assert!(shown[4]["text"].as_str().unwrap().contains("not base64"));

    let first = content(&asked(&scratch)[0], "user");
    assert_eq!(
        first
            .iter()
            .filter(|part| part["image"].is_string())
            .count(),
        2
    );
    let captions = Value::from(first.clone()).to_string();
    assert!(
        captions.contains("2000 × 35 pixels") && captions.contains("2300 × 40 pixels"),
        "{captions}"
    );
    drop(server);

    // A second process sends the same again.
    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": session}));
    let turn = server.turn(&session, "And now?");
    server.ended(&turn);
    let again = content(&asked(&scratch)[1], "user");
    assert_eq!(again[..first.len()], first[..]);
}

#[test]
fn an_image_that_a_provider_rejects_does_not_spoil_the_session() {
    let scratch = Scratch::new();
    configure(
        &scratch,
        r#"
turns:
  - fail_first: [{status: 400, message: "could not decode image"}]
    steps: [{text: one}]
  - steps: [{text: two}]
"#,
    );
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let data = STANDARD.encode(png(&noise(30, 20)));
    let input = json!([{"type": "image", "data": data, "mimeType": "image/png"}]);
    let started = server.request("turn/start", json!({"sessionId": session, "input": input}));
    let turn = started["turnId"].as_str().unwrap().to_owned();
    assert_eq!(server.ended(&turn)["reason"], "completed");
    let turn = server.turn(&session, "Go on.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    let with_image: Vec<bool> = asked(&scratch)
        .iter()
        .map(|request| request["messages"].to_string().contains("base64_chars"))
        .collect();
    assert_eq!(with_image, [true, false, false]);
}
