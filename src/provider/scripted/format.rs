//! What a script looks like in JSON or YAML. These types are the format: the JSON Schema of scripts comes from them.

use std::collections::BTreeMap;
use std::fmt;

use longshore_protocol::value::turn::FinishReason;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A scripted model's answers, in the order in which they are given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Script {
    /// Version of the format: 1.
    pub(super) version: Option<u32>,
    /// What the script says about its model; for readers, and for hosts that list scripts.
    pub(super) model: Option<ModelHead>,
    /// How deltas are cut and timed.
    pub(super) defaults: Defaults,
    /// What happens when a lane has no more turns.
    pub(super) on_exhausted: OnExhausted,
    /// Turns for certain askers: `main`, or `subagent` and `purpose` with a list for each kind. Whoever has no lane here
    /// shares `turns`.
    pub(super) lanes: BTreeMap<String, Lane>,
    /// The turns. Each answers one model request.
    pub(super) turns: Vec<Turn>,
}

/// What a script says about its model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ModelHead {
    /// A name.
    pub(super) name: Option<String>,
    /// Tokens its context holds.
    pub(super) max_context_size: Option<u64>,
    /// `thinking`, `tool_use`, `image_in`.
    pub(super) capabilities: Vec<String>,
}

/// How deltas are cut and timed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Defaults {
    /// The pieces in which text comes.
    pub(super) chunk: Chunk,
    /// Milliseconds between two pieces.
    pub(super) delay_ms: u64,
    /// Milliseconds before the first piece of an answer.
    pub(super) first_delay_ms: u64,
}

/// The pieces in which text comes: `whole`, `word`, `char` or `{bytes: 16}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Chunk {
    /// All at once.
    Whole,
    /// Words with the space after them.
    #[default]
    Word,
    /// Single characters.
    Char,
    /// At least this many bytes, at a character's border.
    Bytes(usize),
}

/// What happens when a lane has no more turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnExhausted {
    /// The request fails with `script.exhausted`.
    #[default]
    Error,
    /// The last turn is played again.
    RepeatLast,
    /// The first turn comes next.
    Loop,
    /// The user's last message is said back.
    Echo,
}

/// A lane: its turns, or turns for each kind of asker.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub(super) enum Lane {
    /// Its turns.
    Turns(Vec<Turn>),
    /// Turns by subagent type, or by purpose.
    Kinds(BTreeMap<String, Vec<Turn>>),
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Turn {
    /// A name that `goto` can use.
    pub(super) name: Option<String>,
    /// What the request has to look like; where it does not, it fails with `script.mismatch`.
    pub(super) expect: Option<Condition>,
    /// In a `choose` list: when this one is taken. Without it, always.
    pub(super) when: Option<Condition>,
    /// Several turns, of which the first whose `when` holds is played.
    pub(super) choose: Vec<Turn>,
    /// Attempts that fail before the steps are played, in order.
    pub(super) fail_first: Vec<Failure>,
    /// What is streamed.
    pub(super) steps: Vec<Step>,
    /// The whole answer is this error.
    pub(super) error: Option<Failure>,
    /// Tokens: numbers, or `auto` for an estimate.
    pub(super) usage: Option<UsageSpec>,
    /// How the answer ends; by default as its content says.
    pub(super) finish: Option<FinishReason>,
    /// The turn that comes after this one: a name, or a number from 1.
    pub(super) goto: Option<Goto>,
}

/// What a request looks like. All that is given must hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Condition {
    /// A regular expression that the user's last message matches.
    pub(super) last_user: Option<String>,
    /// The role of the last message.
    pub(super) last_role: Option<Role>,
    /// Whether one of the results since the model's last answer is an error.
    pub(super) tool_failed: Option<bool>,
    /// Tools on offer.
    pub(super) tools_include: Vec<String>,
    /// What came of a call.
    pub(super) tool_result: Option<ResultCondition>,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// Words from outside.
    User,
    /// Words of the model.
    Assistant,
    /// What came of a call.
    Tool,
}

/// What came of a call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultCondition {
    /// The call's id in this script.
    pub(super) id: String,
    /// Text that its result holds.
    pub(super) contains: String,
}

/// A failing request.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Failure {
    /// What fails; `status` where a status is given.
    pub(super) kind: Option<FailureKind>,
    /// HTTP status.
    pub(super) status: Option<u16>,
    /// The provider's error code.
    pub(super) code: Option<String>,
    /// The provider's words.
    pub(super) message: Option<String>,
    /// The pause the provider asks for.
    pub(super) retry_after_ms: Option<u64>,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureKind {
    /// An HTTP status, classified as a real provider's would be.
    Status,
    /// No connection.
    Connection,
    /// No answer in time.
    Timeout,
    /// The conversation is too long.
    Overflow,
    /// The answer was filtered.
    Filtered,
    /// The key was not accepted.
    Auth,
    /// The quota is used up.
    Quota,
    /// The answer could not be read.
    Decode,
}

/// A step: exactly one of its members is given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(super) struct Step {
    /// Text.
    pub(super) text: Option<String>,
    /// Thinking: text, or text and a signature.
    pub(super) think: Option<Think>,
    /// A tool call.
    pub(super) tool_call: Option<ToolCall>,
    /// Tool calls whose arguments come interleaved.
    pub(super) parallel: Vec<ParallelStep>,
    /// A `delta` of the Chat Completions wire, read as if a server had sent it.
    pub(super) raw_delta: Option<Map<String, Value>>,
    /// A pause in milliseconds.
    pub(super) delay_ms: Option<u64>,
    /// True: nothing comes any more, until the request is cancelled or its idle timeout has passed.
    pub(super) hang: Option<bool>,
    /// The request fails here.
    pub(super) error: Option<Failure>,
    /// True: the stream ends here, without its end.
    pub(super) cut: Option<bool>,
    /// A step many times.
    pub(super) repeat: Option<Repeat>,
    /// Filler text.
    pub(super) lorem: Option<Lorem>,
}

/// Thinking.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub(super) enum Think {
    /// The text.
    Text(String),
    /// The text and the provider's signature.
    Signed(SignedThink),
}

/// Thinking with the provider's signature.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignedThink {
    /// The text.
    pub(super) text: String,
    /// The signature.
    pub(super) signature: Option<String>,
}

/// A tool call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCall {
    /// The provider's id; `call_<lane>_<n>` where absent.
    #[serde(default)]
    pub(super) id: Option<String>,
    /// The tool.
    pub(super) name: String,
    /// The arguments: an object, or text that is sent as it is, well-formed or not.
    #[serde(default)]
    pub(super) args: Option<Args>,
    /// Pieces in which the argument text comes.
    #[serde(default)]
    pub(super) split: Option<usize>,
    /// The number a server would give the call; calls with the same number are told apart as on a real wire.
    #[serde(default)]
    pub(super) index: Option<u64>,
}

/// Arguments of a call.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub(super) enum Args {
    /// As they are; templates are not filled in.
    Raw(String),
    /// An object, in whose texts templates are filled in.
    Object(Map<String, Value>),
}

/// A call among others.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ParallelStep {
    /// The call.
    pub(super) tool_call: ToolCall,
}

/// A step many times.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    /// How often.
    pub(super) count: u64,
    /// The step.
    pub(super) step: Box<Step>,
}

/// Filler text, the same for the same seed.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Lorem {
    /// Its length.
    pub(super) bytes: u64,
    /// Which of all texts.
    #[serde(default)]
    pub(super) seed: u64,
}

/// Tokens of an answer.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub(super) enum UsageSpec {
    /// `auto`: estimated, and flagged so.
    Auto(AutoWord),
    /// Numbers.
    Counted(Counted),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AutoWord {
    /// Estimated.
    Auto,
}

/// Tokens, counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Counted {
    /// Input tokens neither read from nor written to a cache.
    pub(super) input_other: u64,
    /// Input tokens read from the cache.
    pub(super) input_cache_read: u64,
    /// Input tokens written to the cache.
    pub(super) input_cache_creation: u64,
    /// Output tokens.
    pub(super) output: u64,
    /// The part of them that was thinking.
    pub(super) reasoning: Option<u64>,
}

/// A turn to go to.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(super) enum Goto {
    /// Its number, from 1.
    Number(usize),
    /// Its name.
    Name(String),
}

/// Visitors for values of several shapes. An untagged enum would buffer the value and lose the line of an error in it.
macro_rules! shapes {
    ($($type:ty, $expecting:literal {$($rest:tt)*})+) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Shape;
                impl<'de> Visitor<'de> for Shape {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    $($rest)*
                }
                deserializer.deserialize_any(Shape)
            }
        }
    )+};
}

shapes! {
    Chunk, "whole, word, char or {bytes: N}" {
        fn visit_str<E: Error>(self, word: &str) -> Result<Chunk, E> {
            match word {
                "whole" => Ok(Chunk::Whole),
                "word" => Ok(Chunk::Word),
                "char" => Ok(Chunk::Char),
                other => Err(E::custom(format_args!("unknown chunk `{other}`: whole, word, char or {{bytes: N}}"))),
            }
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Chunk, A::Error> {
            #[derive(Deserialize)]
            #[serde(deny_unknown_fields)]
            struct Size {
                bytes: usize,
            }
            let size = Size::deserialize(MapAccessDeserializer::new(map))?;
            if size.bytes == 0 {
                return Err(A::Error::custom("a chunk has at least one byte"));
            }
            Ok(Chunk::Bytes(size.bytes))
        }
    }
    Lane, "a list of turns, or a map of lists of turns" {
        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Lane, A::Error> {
            Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(Lane::Turns)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Lane, A::Error> {
            Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Lane::Kinds)
        }
    }
    Think, "text, or {text, signature}" {
        fn visit_str<E: Error>(self, text: &str) -> Result<Think, E> {
            Ok(Think::Text(text.to_owned()))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Think, A::Error> {
            Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Think::Signed)
        }
    }
    Args, "an object, or text" {
        fn visit_str<E: Error>(self, text: &str) -> Result<Args, E> {
            Ok(Args::Raw(text.to_owned()))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Args, A::Error> {
            Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Args::Object)
        }
    }
    UsageSpec, "auto, or counts of tokens" {
        fn visit_str<E: Error>(self, word: &str) -> Result<UsageSpec, E> {
            match word {
                "auto" => Ok(UsageSpec::Auto(AutoWord::Auto)),
                other => Err(E::custom(format_args!("unknown usage `{other}`: auto, or counts of tokens"))),
            }
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UsageSpec, A::Error> {
            Deserialize::deserialize(MapAccessDeserializer::new(map)).map(UsageSpec::Counted)
        }
    }
    Goto, "a turn's name, or its number from 1" {
        fn visit_str<E: Error>(self, name: &str) -> Result<Goto, E> {
            Ok(Goto::Name(name.to_owned()))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Goto, E> {
            Ok(Goto::Number(usize::try_from(number).unwrap_or(usize::MAX)))
        }
    }
}
