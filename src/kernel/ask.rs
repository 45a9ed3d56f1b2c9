//! Reverse requests that wait for a person.

use longshore_protocol::id::{ApprovalId, HostId, QuestionId, SessionId};
use longshore_protocol::value::approval::{ApprovalAnswer, ApprovalRequest, AskResolution};
use longshore_protocol::value::question::{QuestionAnswer, QuestionRequest};

/// An ask, as every able host gets it.
#[expect(
    clippy::large_enum_variant,
    reason = "an ask is made once and shared behind an `Arc`"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// May this call run?
    Approval(ApprovalRequest),
    /// What does the user want?
    Question(QuestionRequest),
}

/// The name of an ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AskId {
    /// An approval.
    Approval(ApprovalId),
    /// A question.
    Question(QuestionId),
}

/// A host's answer, already of the right shape for its ask.
#[derive(Clone, Debug, PartialEq)]
pub enum AskAnswer {
    /// To an approval.
    Approval(ApprovalAnswer),
    /// To a question.
    Question(QuestionAnswer),
}

/// Why one host gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRefusal {
    /// It does not know the request: it can't answer asks of this kind.
    Unsupported,
    /// It answered, but not with anything on offer; what was wrong.
    Invalid(String),
    /// It answered with another error.
    Failed(String),
    /// Its connection ended before it answered; it may come back.
    Left,
}

/// How an ask ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AskOutcome {
    /// The first valid answer.
    Answered {
        /// The answer.
        answer: AskAnswer,
        /// Who gave it.
        by: HostId,
    },
    /// Nobody will answer: no answer in time, or hosts are attached and none can.
    Unanswered {
        /// One sentence for the model and for people.
        reason: String,
    },
    /// It was taken back: its turn was cancelled.
    Withdrawn,
    /// The permission mode was changed so that the question no longer stands.
    ModeChanged,
}

impl Ask {
    /// Its name.
    pub fn id(&self) -> AskId {
        match self {
            Self::Approval(ask) => AskId::Approval(ask.approval_id.clone()),
            Self::Question(ask) => AskId::Question(ask.question_id.clone()),
        }
    }

    /// The session it belongs to.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Approval(ask) => &ask.session_id,
            Self::Question(ask) => &ask.session_id,
        }
    }
}

impl AskOutcome {
    /// How hosts are told.
    pub fn resolution(&self) -> AskResolution {
        match self {
            Self::Answered { .. } => AskResolution::Answered,
            Self::Unanswered { .. } => AskResolution::Expired,
            Self::Withdrawn => AskResolution::Withdrawn,
            Self::ModeChanged => AskResolution::ModeChanged,
        }
    }
}
