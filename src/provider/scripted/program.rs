//! A script made ready to be played: checked, its placeholders and patterns read, its jumps resolved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::value::turn::FinishReason;
use regex::Regex;
use serde_json::{Map, Value};

use super::ScriptError;
use super::format::{
    Args, Chunk, Condition, Failure, FailureKind, Goto, Lane, Lorem, OnExhausted, Role, Script,
    Step, Think, ToolCall, Turn, UsageSpec,
};
use super::template::{ArgsTemplate, Template};

/// Repeats within repeats are followed this deep.
const MAX_DEPTH: u32 = 16;

/// A script, ready.
#[derive(Debug)]
pub(super) struct Program {
    /// Turns by lane; `subagent/coder` for a kind.
    pub(super) lanes: BTreeMap<String, Arc<[Scene]>>,
    /// Turns of all other lanes.
    pub(super) turns: Arc<[Scene]>,
    /// What happens at the end.
    pub(super) on_exhausted: OnExhausted,
    /// The pieces of text.
    pub(super) chunk: Chunk,
    /// Between two pieces.
    pub(super) delay: Duration,
    /// Before the first.
    pub(super) first_delay: Duration,
}

/// A turn, ready.
#[derive(Debug)]
pub(super) struct Scene {
    /// When it is taken from a list.
    pub(super) when: Option<Pattern>,
    /// The list; then nothing else is used but `goto`.
    pub(super) choose: Vec<Scene>,
    /// What the request has to look like.
    pub(super) expect: Option<Pattern>,
    /// Attempts that fail first.
    pub(super) fail_first: Vec<Failure>,
    /// What is streamed.
    pub(super) actions: Arc<[Action]>,
    /// Ids that the actions make up.
    pub(super) n_ids: u64,
    /// Tokens.
    pub(super) usage: Option<UsageSpec>,
    /// How it ends.
    pub(super) finish: Option<FinishReason>,
    /// The turn after it, from 0.
    pub(super) goto: Option<usize>,
}

/// What is done in a step.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Text.
    Text(Template),
    /// Thinking, and its signature.
    Think(Template, Option<String>),
    /// Calls, their heads first and their arguments interleaved.
    Calls(Arc<[Call]>),
    /// A delta of the Chat Completions wire.
    Raw(Map<String, Value>),
    /// A pause.
    Delay(Duration),
    /// Nothing any more.
    Hang,
    /// The request fails.
    Fail(Failure),
    /// The stream ends without its end.
    Cut,
    /// Actions many times.
    Repeat(u64, Arc<[Action]>),
    /// Filler.
    Lorem(Lorem),
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The id in the script.
    pub(super) id: Option<String>,
    /// The tool.
    pub(super) name: String,
    /// Its arguments.
    pub(super) args: CallArgs,
    /// Pieces.
    pub(super) split: usize,
    /// A forced number.
    pub(super) index: Option<u64>,
}

/// Arguments of a call.
#[derive(Clone, Debug)]
pub(super) enum CallArgs {
    /// As they are.
    Raw(String),
    /// An object.
    Object(ArgsTemplate),
}

/// A condition, its pattern compiled.
#[derive(Debug)]
pub(super) struct Pattern {
    /// What the user's last message matches.
    pub(super) last_user: Option<Regex>,
    /// The role of the last message.
    pub(super) last_role: Option<Role>,
    /// Whether a call failed.
    pub(super) tool_failed: Option<bool>,
    /// Tools on offer.
    pub(super) tools_include: Vec<String>,
    /// The id of a call, and text in its result.
    pub(super) tool_result: Option<(String, String)>,
}

impl Program {
    /// Checks a script.
    pub(super) fn new(script: Script) -> Result<Self, ScriptError> {
        if let Some(version) = script.version
            && version != 1
        {
            return Err(ScriptError::new(format!(
                "version {version} is not known: 1 is"
            )));
        }
        if script.turns.is_empty()
            && script.lanes.is_empty()
            && script.on_exhausted != OnExhausted::Echo
        {
            return Err(ScriptError::new("a script needs `turns` or `lanes`"));
        }
        let mut lanes = BTreeMap::new();
        for (name, lane) in script.lanes {
            match lane {
                Lane::Turns(turns) => {
                    lanes.insert(name.clone(), scenes(turns, &format!("lane {name}, "))?);
                }
                Lane::Kinds(kinds) => {
                    for (kind, turns) in kinds {
                        let name = format!("{name}/{kind}");
                        lanes.insert(name.clone(), scenes(turns, &format!("lane {name}, "))?);
                    }
                }
            }
        }
        Ok(Self {
            lanes,
            turns: scenes(script.turns, "")?,
            on_exhausted: script.on_exhausted,
            chunk: script.defaults.chunk,
            delay: Duration::from_millis(script.defaults.delay_ms),
            first_delay: Duration::from_millis(script.defaults.first_delay_ms),
        })
    }

    /// The turns of an asker's lane, and the lane's name: its own, that of its family, or `main` (`turns` where `main`
    /// has turns of its own).
    pub(super) fn lane(&self, asked: &str) -> (&str, &Arc<[Scene]>) {
        let family = asked.split_once('/').map_or(asked, |(family, _)| family);
        for name in [asked, family] {
            if let Some((name, turns)) = self.lanes.get_key_value(name) {
                return (name, turns);
            }
        }
        (
            if self.lanes.contains_key("main") {
                "turns"
            } else {
                "main"
            },
            &self.turns,
        )
    }
}

fn scenes(turns: Vec<Turn>, place: &str) -> Result<Arc<[Scene]>, ScriptError> {
    let names: Vec<Option<String>> = turns.iter().map(|turn| turn.name.clone()).collect();
    turns
        .into_iter()
        .enumerate()
        .map(|(at, turn)| {
            if turn.when.is_some() {
                return Err(ScriptError::new(format!(
                    "{place}turn {}: `when` belongs into a `choose` list",
                    at + 1
                )));
            }
            scene(turn, &names).map_err(|error| error.within(&format!("{place}turn {}", at + 1)))
        })
        .collect()
}

fn scene(turn: Turn, names: &[Option<String>]) -> Result<Scene, ScriptError> {
    let goto = match &turn.goto {
        None => None,
        Some(Goto::Number(number)) if (1..=names.len()).contains(number) => Some(number - 1),
        Some(Goto::Name(name)) if names.iter().flatten().any(|each| each == name) => {
            names.iter().position(|each| each.as_ref() == Some(name))
        }
        Some(Goto::Number(number)) => {
            return Err(ScriptError::new(format!("goto: there is no turn {number}")));
        }
        Some(Goto::Name(name)) => {
            return Err(ScriptError::new(format!("goto: no turn is named `{name}`")));
        }
    };
    let mut actions = Vec::new();
    if turn.choose.is_empty() {
        for (at, step) in turn.steps.into_iter().enumerate() {
            let action =
                action(step, 0).map_err(|error| error.within(&format!("step {}", at + 1)))?;
            actions.push(action);
        }
        if let Some(failure) = turn.error {
            check_failure(&failure)?;
            actions.push(Action::Fail(failure));
        }
        if actions.is_empty() {
            return Err(ScriptError::new("it has neither `steps` nor `error`"));
        }
        turn.fail_first.iter().try_for_each(check_failure)?;
    } else if !turn.steps.is_empty() || turn.error.is_some() || !turn.fail_first.is_empty() {
        return Err(ScriptError::new(
            "`choose` stands alone: steps belong into its turns",
        ));
    }
    let choose = turn
        .choose
        .into_iter()
        .enumerate()
        .map(|(at, turn)| {
            scene(turn, names).map_err(|error| error.within(&format!("choice {}", at + 1)))
        })
        .collect::<Result<_, _>>()?;
    Ok(Scene {
        when: turn.when.map(pattern).transpose()?,
        choose,
        expect: turn.expect.map(pattern).transpose()?,
        fail_first: turn.fail_first,
        n_ids: n_ids(&actions),
        actions: actions.into(),
        usage: turn.usage,
        finish: turn.finish,
        goto,
    })
}

fn pattern(condition: Condition) -> Result<Pattern, ScriptError> {
    let last_user = condition.last_user.map(|text| {
        Regex::new(&text).map_err(|_| {
            ScriptError::new(format!("last_user: `{text}` is not a regular expression"))
        })
    });
    Ok(Pattern {
        last_user: last_user.transpose()?,
        last_role: condition.last_role,
        tool_failed: condition.tool_failed,
        tools_include: condition.tools_include,
        tool_result: condition
            .tool_result
            .map(|result| (result.id, result.contains)),
    })
}

fn action(step: Step, depth: u32) -> Result<Action, ScriptError> {
    let template = |text: String| Template::parse(&text).map_err(ScriptError::new);
    let Step {
        text,
        think,
        tool_call,
        parallel,
        raw_delta,
        delay_ms,
        hang,
        error,
        cut,
        repeat,
        lorem,
    } = step;
    let mut found = Vec::new();
    if let Some(text) = text {
        found.push(Action::Text(template(text)?));
    }
    match think {
        Some(Think::Text(text)) => found.push(Action::Think(template(text)?, None)),
        Some(Think::Signed(think)) => {
            found.push(Action::Think(template(think.text)?, think.signature));
        }
        None => {}
    }
    if let Some(each) = tool_call {
        found.push(Action::Calls([call(each)?].into()));
    }
    if !parallel.is_empty() {
        let calls = parallel
            .into_iter()
            .map(|each| call(each.tool_call))
            .collect::<Result<Vec<_>, _>>()?;
        found.push(Action::Calls(calls.into()));
    }
    if let Some(raw) = raw_delta {
        found.push(Action::Raw(raw));
    }
    if let Some(ms) = delay_ms {
        found.push(Action::Delay(Duration::from_millis(ms)));
    }
    if hang == Some(true) {
        found.push(Action::Hang);
    }
    if let Some(failure) = error {
        check_failure(&failure)?;
        found.push(Action::Fail(failure));
    }
    if cut == Some(true) {
        found.push(Action::Cut);
    }
    if let Some(repeat) = repeat {
        if depth >= MAX_DEPTH {
            return Err(ScriptError::new(format!(
                "`repeat` within `repeat` goes {MAX_DEPTH} deep at most"
            )));
        }
        let inner = action(*repeat.step, depth + 1).map_err(|error| error.within("repeat"))?;
        found.push(Action::Repeat(repeat.count, [inner].into()));
    }
    if let Some(lorem) = lorem {
        found.push(Action::Lorem(lorem));
    }
    match (found.pop(), found.is_empty()) {
        (Some(action), true) => Ok(action),
        (None, _) => Err(ScriptError::new("it says nothing to do")),
        (Some(_), false) => Err(ScriptError::new(
            "it says several things to do: each needs a step of its own",
        )),
    }
}

fn call(call: ToolCall) -> Result<Call, ScriptError> {
    if call.name.trim().is_empty() {
        return Err(ScriptError::new("a tool call needs a `name`"));
    }
    let args = match call.args {
        None => CallArgs::Raw("{}".to_owned()),
        Some(Args::Raw(text)) => CallArgs::Raw(text),
        Some(Args::Object(members)) => {
            CallArgs::Object(ArgsTemplate::parse(Value::Object(members)).map_err(ScriptError::new)?)
        }
    };
    Ok(Call {
        id: call.id,
        name: call.name,
        args,
        split: call.split.unwrap_or(1).max(1),
        index: call.index,
    })
}

fn check_failure(failure: &Failure) -> Result<(), ScriptError> {
    match (failure.kind, failure.status) {
        (None | Some(FailureKind::Status), None) => {
            Err(ScriptError::new("an error needs a `kind` or a `status`"))
        }
        (_, Some(status)) if !(400..=599).contains(&status) => {
            Err(ScriptError::new(format!("status {status} is not an error")))
        }
        _ => Ok(()),
    }
}

fn n_ids(actions: &[Action]) -> u64 {
    actions
        .iter()
        .map(|action| match action {
            Action::Calls(calls) => calls.iter().filter(|call| call.id.is_none()).count() as u64,
            Action::Repeat(count, inner) => count.saturating_mul(n_ids(inner)),
            _ => 0,
        })
        .fold(0, u64::saturating_add)
}
