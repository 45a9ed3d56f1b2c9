//! Plays one turn of a script as a stream of deltas.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use longshore_protocol::value::turn::FinishReason;
use longshore_protocol::value::usage::Usage;
use tokio_util::sync::CancellationToken;

use super::chunk::{Chunks, Filler};
use super::fail;
use super::format::{Chunk, UsageSpec};
use super::program::{Action, Call, CallArgs, Program};
use super::view::View;
use crate::provider::chat::delta::DeltaReader;
use crate::provider::error::ProviderError;
use crate::provider::estimate::{self, Tally};
use crate::provider::slots::{Arguments, CallPiece, Index};
use crate::provider::{Delta, DeltaStream, ModelRequest};

/// A stream that never waits gives others their turn after this many deltas.
const DELTAS_PER_YIELD: u32 = 64;

/// What a turn is played with.
pub(super) struct Part {
    /// The lane's name.
    pub(super) lane: String,
    /// The turn's number, from 1.
    pub(super) turn: usize,
    /// What is done.
    pub(super) actions: Arc<[Action]>,
    /// Ids made up in this lane before.
    pub(super) n_ids: u64,
    /// Tokens.
    pub(super) usage: Option<UsageSpec>,
    /// How it ends.
    pub(super) finish: Option<FinishReason>,
    /// How long nothing may come; zero is for ever.
    pub(super) idle_timeout: Duration,
}

/// The deltas of a turn.
pub(super) fn play(
    request: ModelRequest,
    part: Part,
    program: &Program,
    cancel: CancellationToken,
) -> DeltaStream {
    let player = Box::new(Player {
        frames: vec![Frame {
            actions: part.actions.clone(),
            at: 0,
            left: 1,
        }],
        reader: DeltaReader::default(),
        queue: VecDeque::new(),
        chunks: None,
        chunk: program.chunk,
        delay: program.delay,
        pause: program.first_delay,
        held: None,
        output: Tally::default(),
        ending: Ending::Usage,
        part,
        request,
    });
    stream::unfold(
        (player, cancel, 0_u32),
        |(mut player, cancel, mut n)| async move {
            loop {
                if cancel.is_cancelled() && player.ending != Ending::Over {
                    player.ending = Ending::Over;
                    return Some((Err(fail::cancelled()), (player, cancel, n)));
                }
                let (pause, then) = match player.next() {
                    Next::Delta(delta) => {
                        n += 1;
                        if n.is_multiple_of(DELTAS_PER_YIELD) {
                            tokio::task::yield_now().await;
                        }
                        return Some((Ok(delta), (player, cancel, n)));
                    }
                    Next::Fail(error) => {
                        player.ending = Ending::Over;
                        return Some((Err(error), (player, cancel, n)));
                    }
                    Next::End => return None,
                    Next::Pause(pause) => (Some(pause), None),
                    Next::Hang if player.part.idle_timeout.is_zero() => (None, None),
                    Next::Hang => (
                        Some(player.part.idle_timeout),
                        Some(fail::idle(player.part.idle_timeout)),
                    ),
                };
                let wait = async {
                    match pause {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => std::future::pending().await,
                    }
                };
                // A cancel is noticed at the top of the loop.
                if cancel.run_until_cancelled(wait).await.is_some()
                    && let Some(error) = then
                {
                    player.ending = Ending::Over;
                    return Some((Err(error), (player, cancel, n)));
                }
            }
        },
    )
    .boxed()
}

enum Next {
    Delta(Delta),
    Pause(Duration),
    Hang,
    Fail(ProviderError),
    End,
}

/// What follows the last action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Usage,
    Finish,
    Over,
}

struct Player {
    request: ModelRequest,
    part: Part,
    frames: Vec<Frame>,
    reader: DeltaReader,
    queue: VecDeque<Delta>,
    chunks: Option<Chunks>,
    chunk: Chunk,
    /// Between two deltas of content.
    delay: Duration,
    /// Before the next one.
    pause: Duration,
    /// A delta that comes after the pause.
    held: Option<Delta>,
    output: Tally,
    ending: Ending,
}

/// Actions being played, and how often they still are.
struct Frame {
    actions: Arc<[Action]>,
    at: usize,
    left: u64,
}

impl Player {
    fn next(&mut self) -> Next {
        if let Some(delta) = self.held.take() {
            return Next::Delta(delta);
        }
        match self.produce() {
            Next::Delta(delta) if matches!(delta, Delta::Usage(_) | Delta::Finished { .. }) => {
                Next::Delta(delta)
            }
            Next::Delta(delta) => {
                if matches!(self.part.usage, Some(UsageSpec::Auto(_))) {
                    match &delta {
                        Delta::Text(text)
                        | Delta::Thinking { text, .. }
                        | Delta::CallArguments { text, .. }
                        | Delta::CallReplaced { text, .. }
                        | Delta::CallStarted { name: text, .. } => self.output.add(text),
                        Delta::Usage(_) | Delta::Finished { .. } => {}
                    }
                }
                let pause = std::mem::replace(&mut self.pause, self.delay);
                if pause.is_zero() {
                    return Next::Delta(delta);
                }
                self.held = Some(delta);
                Next::Pause(pause)
            }
            other => other,
        }
    }

    fn produce(&mut self) -> Next {
        loop {
            if let Some(delta) = self.queue.pop_front() {
                return Next::Delta(delta);
            }
            if let Some(chunks) = &mut self.chunks {
                match chunks.next(self.chunk) {
                    Some(delta) => return Next::Delta(delta),
                    None => self.chunks = None,
                }
                continue;
            }
            let Some(frame) = self.frames.last_mut() else {
                return self.end();
            };
            let Some(action) = frame.actions.get(frame.at) else {
                frame.left -= 1;
                frame.at = 0;
                if frame.left == 0 {
                    self.frames.pop();
                }
                continue;
            };
            frame.at += 1;
            // A plain text in one piece is the hot path of load generation.
            if let (Action::Text(template), Chunk::Whole) = (action, self.chunk)
                && let Some(text) = template.literal()
            {
                if text.is_empty() {
                    continue;
                }
                return Next::Delta(Delta::Text(text.to_owned()));
            }
            let actions = frame.actions.clone();
            let at = frame.at - 1;
            if let Some(next) = actions.get(at).and_then(|action| self.begin(action)) {
                return next;
            }
        }
    }

    /// Begins an action; what it streams is left in `chunks` or `queue`.
    fn begin(&mut self, action: &Action) -> Option<Next> {
        let result = match action {
            Action::Text(template) => self.fill(|fill| template.fill(fill)).map(|text| {
                self.chunks = Some(Chunks::Text { text, at: 0 });
                None
            }),
            Action::Think(template, signature) => {
                self.fill(|fill| template.fill(fill)).map(|text| {
                    self.chunks = Some(Chunks::Think {
                        text,
                        at: 0,
                        signature: signature.clone(),
                        begun: false,
                    });
                    None
                })
            }
            Action::Calls(calls) => self.calls(calls).map(|()| None),
            Action::Raw(delta) => {
                let mut out = Vec::new();
                self.reader.read(delta.clone(), &mut out);
                self.queue.extend(out);
                Ok(None)
            }
            Action::Delay(pause) => Ok(Some(Next::Pause(*pause))),
            Action::Hang => Ok(Some(Next::Hang)),
            Action::Fail(failure) => Ok(Some(Next::Fail(fail::error(failure)))),
            Action::Cut => {
                self.frames.clear();
                self.ending = Ending::Over;
                Ok(None)
            }
            Action::Repeat(0, _) => Ok(None),
            Action::Repeat(count, actions) => {
                self.frames.push(Frame {
                    actions: actions.clone(),
                    at: 0,
                    left: *count,
                });
                Ok(None)
            }
            Action::Lorem(lorem) => {
                self.chunks = Some(Chunks::Filler(Filler::new(lorem.bytes, lorem.seed)));
                Ok(None)
            }
        };
        match result {
            Ok(next) => next,
            Err(why) => Some(Next::Fail(fail::script(
                "script.mismatch",
                &why,
                &self.part.lane,
                self.part.turn,
            ))),
        }
    }

    fn fill<T>(
        &self,
        fill: impl FnOnce(
            &mut dyn FnMut(&super::template::Slot) -> Result<String, String>,
        ) -> Result<T, String>,
    ) -> Result<T, String> {
        let view = View {
            request: &self.request,
            turn: self.part.turn,
        };
        fill(&mut |slot| view.value(slot))
    }

    /// Heads of all calls first, then their arguments round about.
    fn calls(&mut self, calls: &[Call]) -> Result<(), String> {
        let mut out = Vec::new();
        let mut open = Vec::new();
        for call in calls {
            let text = match &call.args {
                CallArgs::Raw(text) => text.clone(),
                CallArgs::Object(template) => self.fill(|fill| template.fill(fill))?,
            };
            let id = call.id.clone().or_else(|| {
                self.part.n_ids += 1;
                call.index
                    .is_none()
                    .then(|| format!("call_{}_{}", self.part.lane, self.part.n_ids))
            });
            let target = match call.index {
                None => Target::At(self.reader.slots.open(id, call.name.clone(), &mut out)),
                Some(number) => {
                    let index = Some(Index::Number(number));
                    let piece = CallPiece {
                        index: index.clone(),
                        id,
                        name: Some(call.name.clone()),
                        ..CallPiece::default()
                    };
                    self.reader.slots.feed(piece, &mut out);
                    Target::Numbered(index)
                }
            };
            open.push((target, super::chunk::split(&text, call.split)));
        }
        let most = open
            .iter()
            .map(|(_, pieces)| pieces.len())
            .max()
            .unwrap_or(0);
        for at in 0..most {
            for (target, pieces) in &mut open {
                let Some(piece) = pieces.get_mut(at).map(std::mem::take) else {
                    continue;
                };
                match target {
                    Target::At(call) => self.reader.slots.append(*call, piece, &mut out),
                    Target::Numbered(index) => {
                        let arguments = Some(Arguments::Piece(piece));
                        self.reader.slots.feed(
                            CallPiece {
                                index: index.clone(),
                                arguments,
                                ..CallPiece::default()
                            },
                            &mut out,
                        );
                    }
                }
            }
        }
        self.queue.extend(out);
        Ok(())
    }

    fn end(&mut self) -> Next {
        match self.ending {
            Ending::Usage => {
                let mut out = Vec::new();
                self.reader.flush(&mut out);
                self.queue.extend(out);
                self.ending = Ending::Finish;
                if let Some(usage) = self.usage() {
                    self.queue.push_back(Delta::Usage(usage));
                }
                match self.queue.pop_front() {
                    Some(delta) => Next::Delta(delta),
                    None => self.end(),
                }
            }
            Ending::Finish => {
                self.ending = Ending::Over;
                let finish = self
                    .part
                    .finish
                    .unwrap_or(if self.reader.slots.any_started() {
                        FinishReason::ToolCalls
                    } else if self.reader.refused() {
                        FinishReason::Filtered
                    } else {
                        FinishReason::Completed
                    });
                Next::Delta(Delta::Finished { finish, raw: None })
            }
            Ending::Over => Next::End,
        }
    }

    fn usage(&self) -> Option<Usage> {
        match self.part.usage.as_ref()? {
            UsageSpec::Auto(_) => Some(estimate::usage(
                estimate::request(&self.request),
                self.output.tokens(),
            )),
            UsageSpec::Counted(counted) => Some(Usage {
                input_other: counted.input_other,
                input_cache_read: counted.input_cache_read,
                input_cache_creation: counted.input_cache_creation,
                output: counted.output,
                reasoning: counted.reasoning,
                estimated: false,
            }),
        }
    }
}

enum Target {
    At(usize),
    Numbered(Option<Index>),
}
