//! The scripted model: answers from a file, for demos, tests, benchmarks and work without a key.
//!
//! It is chosen like any model: `type = "scripted"` in a provider entry, or the built-in model `demo`. Its script is the
//! first of: `script` of `session/create` (the text itself), the file named by `LONGSHORE_SCRIPT`, the provider's
//! `script = "path"`, the built-in demo. It never touches the network and never reads the clock.
//!
//! # A script
//! ```yaml
//! version: 1
//! defaults: {chunk: word, delay_ms: 0, first_delay_ms: 0}  # chunk: whole, word, char or {bytes: 16}
//! on_exhausted: error                                      # error, repeat_last, loop or echo
//! turns:
//!   - expect: {last_user: "fix.*bug", tools_include: [Read]}
//!     fail_first: [{status: 429, retry_after_ms: 50}, {kind: connection}]
//!     steps:
//!       - think: "Look first."
//!       - text: "Reading what you said: {{last_user}}"
//!       - tool_call: {id: c1, name: Read, args: {path: a.txt}, split: 3}
//!     usage: {input_other: 10, output: 5}                  # or auto: estimated
//!   - expect: {tool_result: {id: c1, contains: ok}}
//!     steps: [{text: "Done."}]
//! ```
//! Each turn answers one model request. A turn is used up once its steps begin to play: an `error`, `cut` or `hang`
//! among them ends it, and the retry gets the next turn. `fail_first` stands before that: each entry fails one attempt,
//! then the steps are played. Unknown members are errors that name the line.
//!
//! | Step | Meaning |
//! |---|---|
//! | `text`, `think` | content; `think` is text or `{text, signature}` |
//! | `tool_call` | `{name, id?, args?, split?, index?}`; `args` is an object, or text sent as it is; `split` is a number of pieces; `index` forces the number a server would give |
//! | `parallel` | a list of `{tool_call: …}`: heads first, arguments interleaved |
//! | `raw_delta` | a `delta` object of the Chat Completions wire, read as a server's would be |
//! | `delay_ms`, `hang: true` | a pause; nothing more until a cancel or the idle timeout |
//! | `error` | `{kind?, status?, code?, message?, retry_after_ms?}`, kind one of status, connection, timeout, overflow, filtered, auth, quota, decode |
//! | `cut: true` | the stream ends without its end |
//! | `repeat: {count, step}`, `lorem: {bytes, seed}` | load |
//!
//! Placeholders in `text`, `think` and texts of an `args` object: `{{last_user}}`, `{{last_tool_result}}`,
//! `{{tool_result.ID}}`, `{{turn}}`, `{{attempt}}`, `{{session_id}}`, `{{cwd}}`; `{{{{` stands for two braces.
//!
//! A turn may instead hold `choose`, a list of turns of which the first whose `when` holds is played. `when` and
//! `expect` take `last_user` (a regular expression), `last_role` (user, assistant, tool), `tool_failed`,
//! `tools_include`, `tool_result: {id, contains}`. `goto` names the turn that comes next, by its `name` or its number.
//!
//! `lanes` gives turns to certain askers: `main: […]`, `subagent: {coder: […]}`, `purpose: {title: […]}`; whoever has
//! no lane shares `turns`. Each session has a place of its own in each lane, and keeps it when it is resumed.
//!
//! # Other formats
//! JSON with the same members (`.json`); one turn in JSON on each line (`.jsonl`); and lines (`.echo`), with `---`
//! between turns and the keys `text think think_encrypted tool_call tool_call_part usage finish_reason error delay`:
//! ```text
//! text: Looking.
//! tool_call: {"name": "Read", "arguments": {"path": "a.txt"}}
//! ---
//! error: 429 slow down
//! ---
//! text: Done.
//! ```
//! Without a telling file name the format is known by its first line.
//!
//! Start with [`ScriptedClient`]; `format` holds the format's types, `program` checks them, `play` streams them.

mod chunk;
mod dsl;
mod fail;
mod format;
mod play;
mod program;
mod read;
mod template;
mod trace;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::model::ModelInfo;
use schemars::Schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::format::OnExhausted;
use self::play::Part;
use self::program::{Action, Program, Scene};
pub use self::read::Format;
use self::template::Template;
pub use self::trace::TraceSink;
use self::view::View;
use super::error::{ErrorClass, ProviderError};
use super::{DeltaStream, ModelClient, ModelRequest};

/// The script of the built-in model `demo`.
pub const DEMO: &str = include_str!("demo.yaml");

/// A script that cannot be played; the message says where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScriptError(String);

impl ScriptError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    fn within(self, place: &str) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

/// A script, read and checked.
#[derive(Clone, Debug)]
pub struct Script(Arc<Program>);

impl Script {
    /// Reads a script; without a format it is known by the text.
    ///
    /// # Errors
    /// Where the text is no script: with the line, or the turn and step, and the reason.
    pub fn parse(text: &str, format: Option<Format>) -> Result<Self, ScriptError> {
        read::read(text, format).map(|program| Self(Arc::new(program)))
    }
}

/// The JSON Schema of scripts.
pub fn schema() -> Schema {
    schemars::schema_for!(format::Script)
}

/// A model that plays a script.
pub struct ScriptedClient {
    info: ModelInfo,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    idle_timeout: Duration,
    trace: Option<Arc<dyn TraceSink>>,
    sessions: Mutex<HashMap<SessionId, Session>>,
}

/// What is known of a session: its own script, and its places by lane.
#[derive(Default)]
struct Session {
    inline: Option<(Arc<str>, Script)>,
    lanes: HashMap<String, Place>,
}

/// A place in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Place {
    /// The next turn, from 0.
    turn: usize,
    /// How many of its attempts have failed.
    failed: usize,
    /// Ids made up so far.
    ids: u64,
}

impl ScriptedClient {
    /// A model that plays `script`, unless a session brings its own. `idle_timeout` ends a hang; zero is off.
    pub fn new(
        info: ModelInfo,
        script: Script,
        idle_timeout: Duration,
        trace: Option<Arc<dyn TraceSink>>,
    ) -> Self {
        let shared = Shared {
            script,
            idle_timeout,
            trace,
            sessions: Mutex::default(),
        };
        Self {
            info,
            shared: Arc::new(shared),
        }
    }
}

impl ModelClient for ScriptedClient {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<DeltaStream, ProviderError>> {
        let shared = self.shared.clone();
        async move {
            if cancel.is_cancelled() {
                return Err(fail::cancelled());
            }
            let (request, part, program) = shared.take_turn(request)?;
            Ok(play::play(request, part, &program, cancel))
        }
        .boxed()
    }

    fn state(&self, session: &SessionId) -> Option<Value> {
        let sessions = self
            .shared
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let lanes = &sessions.get(session)?.lanes;
        serde_json::to_value(lanes)
            .ok()
            .filter(|_| !lanes.is_empty())
    }

    fn restore(&self, session: &SessionId, state: Value) {
        match serde_json::from_value(state) {
            Ok(lanes) => {
                let mut sessions = self
                    .shared
                    .sessions
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                sessions.entry(session.clone()).or_default().lanes = lanes;
            }
            Err(error) => {
                tracing::warn!(%session, %error, "the script's place could not be read; it starts anew");
            }
        }
    }

    fn forget(&self, session: &SessionId) {
        self.shared
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(session);
    }
}

impl Shared {
    /// Chooses the turn that answers a request, and moves on.
    fn take_turn(
        &self,
        request: ModelRequest,
    ) -> Result<(ModelRequest, Part, Arc<Program>), ProviderError> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.entry(request.session.clone()).or_default();
        let program = match &request.script {
            Some(text) => session.own(text)?,
            None => self.script.0.clone(),
        };
        let held = program.clone();
        let (lane, scenes) = held.lane(&request.lane);
        let place = session.lanes.entry(lane.to_owned()).or_default();
        let scene = place.scene(scenes, program.on_exhausted);
        let (at, scene) = match scene {
            Some(at) => (at, Some(&scenes[at])),
            None if program.on_exhausted == OnExhausted::Echo => (place.turn, None),
            None => {
                let why = format!("the script has {} and no more", turns(scenes.len()));
                return Err(fail::script("script.exhausted", &why, lane, place.turn + 1));
            }
        };
        let view = View {
            request: &request,
            turn: at + 1,
        };
        let mut part = Part {
            lane: lane.to_owned(),
            turn: at + 1,
            actions: Arc::from([]),
            n_ids: place.ids,
            usage: None,
            finish: None,
            idle_timeout: self.idle_timeout,
        };
        let Some(scene) = scene else {
            part.actions = [Action::Text(Template::verbatim(view.last_user()))].into();
            self.traced(&request, &part, "echo");
            return Ok((request, part, program));
        };
        let chosen = choose(scene, &view)
            .map_err(|why| fail::script("script.mismatch", &why, lane, at + 1))?;
        if let Some(failure) = chosen.fail_first.get(place.failed) {
            place.failed += 1;
            self.traced(&request, &part, "fail_first");
            return Err(fail::error(failure));
        }
        part.actions = chosen.actions.clone();
        part.usage.clone_from(&chosen.usage);
        part.finish = chosen.finish;
        place.turn = chosen.goto.or(scene.goto).unwrap_or(at + 1);
        place.failed = 0;
        place.ids = place.ids.saturating_add(chosen.n_ids);
        self.traced(&request, &part, "steps");
        Ok((request, part, program))
    }

    fn traced(&self, request: &ModelRequest, part: &Part, played: &str) {
        if let Some(sink) = &self.trace {
            sink.line(&trace::line(request, &part.lane, part.turn, played));
        }
    }
}

impl Session {
    /// The session's own script, read once.
    fn own(&mut self, text: &Arc<str>) -> Result<Arc<Program>, ProviderError> {
        if let Some((held, script)) = &self.inline
            && (Arc::ptr_eq(held, text) || held == text)
        {
            return Ok(script.0.clone());
        }
        let script = Script::parse(text, None).map_err(|error| {
            ProviderError::new(
                ErrorClass::Script,
                format!("the session's script cannot be played: {error}"),
            )
        })?;
        let program = script.0.clone();
        self.inline = Some((text.clone(), script));
        Ok(program)
    }
}

impl Place {
    /// The turn that comes next. `None` where there is none.
    fn scene(&mut self, scenes: &[Scene], on_exhausted: OnExhausted) -> Option<usize> {
        if self.turn < scenes.len() {
            return Some(self.turn);
        }
        match on_exhausted {
            OnExhausted::Error | OnExhausted::Echo => None,
            OnExhausted::RepeatLast => scenes.len().checked_sub(1),
            OnExhausted::Loop => {
                self.turn = 0;
                (!scenes.is_empty()).then_some(0)
            }
        }
    }
}

/// The turn itself, or the one of its list that fits.
fn choose<'a>(scene: &'a Scene, view: &View<'_>) -> Result<&'a Scene, String> {
    if let Some(why) = scene
        .expect
        .as_ref()
        .and_then(|pattern| view.mismatch(pattern))
    {
        return Err(why);
    }
    if scene.choose.is_empty() {
        return Ok(scene);
    }
    let mut reasons = Vec::new();
    for choice in &scene.choose {
        match choice
            .when
            .as_ref()
            .and_then(|pattern| view.mismatch(pattern))
        {
            None => return choose(choice, view),
            Some(why) => reasons.push(why),
        }
    }
    Err(format!("no choice fits: {}", reasons.join("; ")))
}

fn turns(n: usize) -> String {
    if n == 1 {
        "1 turn".to_owned()
    } else {
        format!("{n} turns")
    }
}

#[cfg(test)]
#[path = "scripted_tests.rs"]
mod tests;
