//! What is open at the end of a journal, because the server ended without closing it.
//!
//! A turn that waited for a person goes on from here ([`reopen`](super::reopen)); any other is closed, and what it had
//! come to enters the history.

use longshore_protocol::id::{ApprovalId, QuestionId, ToolCallId, TurnId};
use longshore_protocol::value::approval::{ApprovalRequest, AskResolution, OptionId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::question::QuestionRequest;
use longshore_protocol::value::turn::{FinishReason, Origin};
use longshore_protocol::value::usage::Usage;

use super::Agent;
use super::context::render::estimate;
use crate::kernel::message::{Message, ModelCall, Part};

/// What a call gets as its result where the server ended while it ran.
pub const UNKNOWN: &str = "The server ended while this call was open. Whether it had any effect is unknown: check \
    before you repeat it.";

/// What a call gets as its result where the server ended before it ran.
pub const UNRUN: &str = "The server ended before this call was run. It had no effect.";

/// Everything open at the end of a journal.
#[derive(Debug, Default, PartialEq)]
pub struct Left {
    /// The turn that ran.
    pub turn: Option<OpenTurn>,
    /// Turns that waited, in order.
    pub queued: Vec<QueuedTurn>,
    /// Words that a turn was to take in and has not, in order.
    pub steers: Vec<Vec<ContentPart>>,
    /// Words that a cancelled turn had not taken in: they come before the next input.
    pub carried: Vec<ContentPart>,
    /// Asks without an end.
    pub approvals: Vec<ApprovalRequest>,
    /// Likewise.
    pub questions: Vec<QuestionRequest>,
}

/// A turn that waited.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedTurn {
    /// The turn.
    pub turn: TurnId,
    /// Why it will begin.
    pub origin: Origin,
    /// What will begin it.
    pub input: Vec<ContentPart>,
}

/// A turn without an end.
#[derive(Debug, PartialEq)]
pub struct OpenTurn {
    /// The turn.
    pub turn: TurnId,
    /// Tokens it took so far.
    pub usage: Usage,
    /// The last text of its answers.
    pub text: String,
    /// Its step, where an answer was under way.
    pub step: Option<OpenStep>,
}

/// A step without an end. Its calls enter the history together with their results, so it is not there yet.
#[derive(Debug, PartialEq)]
pub struct OpenStep {
    /// 1, 2, … in the turn.
    pub number: u32,
    /// How its answer ended, where that was recorded.
    pub finish: Option<FinishReason>,
    /// Tokens the answer took.
    pub usage: Usage,
    /// Tokens in the context once its answer stands there.
    pub tokens: Option<u64>,
    /// Text and thinking.
    pub parts: Vec<Part>,
    /// True where the answer was cut off.
    pub partial: bool,
    /// Its calls, in the provider's order.
    pub calls: Vec<OpenCall>,
}

/// A call of an open step.
#[derive(Debug, PartialEq)]
pub struct OpenCall {
    /// The call.
    pub call: ModelCall,
    /// How far it came.
    pub stage: CallStage,
    /// True where it said beforehand that it touches something.
    pub touches: bool,
    /// How its last approval ended, where it had one.
    pub approved: Option<(AskResolution, Option<OptionId>)>,
    /// Its result, where it has ended.
    pub result: Option<Message>,
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallStage {
    /// No host was told of it.
    New,
    /// Hosts were told; it has had no effect.
    Announced,
    /// It may have had its effect.
    Running,
}

impl Left {
    /// The open approval of a call.
    pub fn approval_of(&self, call: &ToolCallId) -> Option<&ApprovalRequest> {
        self.approvals
            .iter()
            .find(|request| request.tool_call_id == *call)
    }

    /// The open question of a call.
    pub fn question_of(&self, call: &ToolCallId) -> Option<&QuestionRequest> {
        self.questions
            .iter()
            .find(|request| request.tool_call_id == *call)
    }

    /// Whether a call can be taken up where it was: it has no result yet, and has had no effect. A call that runs and
    /// touches nothing has none while its question is open.
    pub fn can_go_on(&self, call: &OpenCall) -> bool {
        call.result.is_none()
            && match call.stage {
                CallStage::New | CallStage::Announced => true,
                CallStage::Running => !call.touches && self.question_of(&call.call.id).is_some(),
            }
    }

    /// Whether the open turn waited for a person, or for a call to begin that a person had allowed.
    pub fn waits_for_person(&self) -> bool {
        let calls = self
            .turn
            .iter()
            .flat_map(|turn| &turn.step)
            .flat_map(|step| &step.calls);
        calls
            .filter(|call| self.can_go_on(call))
            .any(|call| match call.stage {
                CallStage::New => false,
                CallStage::Announced => {
                    self.approval_of(&call.call.id).is_some() || call.was_allowed()
                }
                CallStage::Running => true,
            })
    }

    /// Takes out the asks of which a test is true: approvals and questions by name.
    pub fn take_asks(
        &mut self,
        is_taken: impl Fn(&ToolCallId) -> bool,
    ) -> (Vec<ApprovalId>, Vec<QuestionId>) {
        let approvals = self
            .approvals
            .extract_if(.., |request| is_taken(&request.tool_call_id));
        let approvals = approvals.map(|request| request.approval_id).collect();
        let questions = self
            .questions
            .extract_if(.., |request| is_taken(&request.tool_call_id));
        (
            approvals,
            questions.map(|request| request.question_id).collect(),
        )
    }
}

impl OpenStep {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            finish: None,
            usage: Usage::default(),
            tokens: None,
            parts: Vec::new(),
            partial: false,
            calls: Vec::new(),
        }
    }

    pub(super) fn call(&mut self, id: &ToolCallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|call| call.call.id == *id)
    }
}

impl OpenCall {
    pub(super) fn new(call: ModelCall) -> Self {
        Self {
            call,
            stage: CallStage::New,
            touches: false,
            approved: None,
            result: None,
        }
    }

    /// True where a person allowed it and it did not begin.
    pub fn was_allowed(&self) -> bool {
        self.stage == CallStage::Announced
            && matches!(
                self.approved,
                Some((
                    AskResolution::Answered,
                    Some(OptionId::AllowOnce | OptionId::AllowSession)
                ))
            )
    }

    /// What it gets as its result where it is not taken up.
    pub fn cut_off(&self) -> &'static str {
        match self.stage {
            CallStage::New | CallStage::Announced => UNRUN,
            CallStage::Running => UNKNOWN,
        }
    }
}

impl Agent {
    /// Takes a step into the history that will not go on: each call without a result gets one that says so.
    pub fn close_step(&mut self, step: OpenStep, finish: Option<FinishReason>) {
        let OpenStep {
            tokens,
            parts,
            partial,
            calls,
            ..
        } = step;
        if finish == Some(FinishReason::Filtered) {
            return;
        }
        let says_something = parts
            .iter()
            .any(|part| matches!(part, Part::Text(text) if !text.trim().is_empty()));
        if calls.is_empty() && !says_something {
            return;
        }
        let (calls, results) = calls
            .into_iter()
            .map(|call| {
                let cut_off = call.cut_off();
                let result = call.result.unwrap_or_else(|| Message::ToolResult {
                    call: call.call.id.clone(),
                    parts: vec![Part::text(cut_off)],
                    is_error: true,
                    note: None,
                });
                (call.call, result)
            })
            .unzip();
        let answer = Message::Assistant {
            parts,
            calls,
            partial,
        };
        let tokens = tokens.unwrap_or_else(|| self.context.tokens() + estimate(&answer));
        self.context.push_exchange(answer, tokens, results);
    }
}
