//! May this call run? The policy decides; where it says *ask*, hosts do.

use std::sync::Arc;

use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, ApprovalId, SessionId};
use longshore_protocol::value::approval::{
    ApprovalAnswer, ApprovalOption, ApprovalReason, ApprovalRequest, AskResolution, OptionId,
};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::todo::Todo;
use tokio_util::sync::CancellationToken;

use super::super::reopen::PutAgain;
use super::super::{Agent, TurnCx};
use super::prepare::prepare_edited;
use super::resolve::{self, Resolved};
use crate::kernel::ask::{Ask, AskAnswer, AskOutcome};
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::message::ModelCall;
use crate::kernel::port::{Ability, AskKind};
use crate::kernel::rule::Grant;
use crate::permission::{Answer, Facts, Verdict, decide, grant_for};
use crate::tool::Outcome;

/// What was decided about a call.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on its way from one function to the next"
)]
pub(super) enum Permit {
    /// It runs.
    Run {
        /// The call, with the arguments a host may have changed.
        resolved: Box<Resolved>,
        /// A rule born from the answer.
        grant: Option<Grant>,
    },
    /// It does not run.
    Refused {
        /// What the model is told.
        outcome: Outcome,
        /// True where the turn is to be cancelled.
        stop: bool,
    },
    /// The ask was taken back, because the turn ends.
    Withdrawn,
    /// Nothing can be decided any more.
    Failed(Fault),
}

/// A decision, or what leads to one.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on its way from one function to the next"
)]
pub(super) enum Judged<'a> {
    /// It is made.
    Permit(Permit),
    /// A person makes it, who may have been asked already.
    Ask(Box<PendingAsk<'a>>, Option<Box<PutAgain<ApprovalRequest>>>),
}

/// An ask about a call that an earlier process had made.
pub(super) enum Again {
    /// It is open still.
    Open(Box<PutAgain<ApprovalRequest>>),
    /// It was allowed, and the call did not begin.
    Allowed,
}

impl Again {
    /// Takes the ask back, where it is open.
    pub(super) fn withdraw(self, agent: &Agent, cx: &TurnCx) -> Result<(), Fault> {
        let Self::Open(open) = self else {
            return Ok(());
        };
        let id = open.request.approval_id;
        let status = cx
            .board
            .wait(|waiting| waiting.approvals.retain(|open| *open != id));
        cx.sink.live(&agent.id, status);
        let resolved = DomainEvent::ApprovalResolved {
            approval: id,
            outcome: AskResolution::Withdrawn,
            option: None,
            feedback: None,
        };
        cx.sink.durable(&agent.id, resolved).map(drop)
    }
}

/// An ask about a call. It owns what it needs of its agent, so that other calls can go on meanwhile.
pub(super) struct PendingAsk<'a> {
    cx: &'a TurnCx,
    call: &'a ModelCall,
    session: SessionId,
    agent: AgentId,
    grants: Vec<Grant>,
    todos: Arc<[Todo]>,
    approval: ApprovalId,
    resolved: Box<Resolved>,
    reason: ApprovalReason,
    /// The rule that "for this session" would make.
    grant: Option<Grant>,
}

/// Judges a call. One that a person was asked about before a restart is never run without asking again, whatever the
/// rules say now: nothing begins by itself because a session was loaded.
pub(super) fn judge<'a>(
    agent: &mut Agent,
    cx: &'a TurnCx,
    call: &'a ModelCall,
    resolved: Box<Resolved>,
    again: Option<Again>,
) -> Judged<'a> {
    let verdict = verdict(cx, &agent.grants, &resolved);
    tracing::info!(
        call = %call.id,
        tool = %resolved.name,
        policy = verdict.policy,
        answer = ?verdict.answer,
        "call judged"
    );
    let reason = verdict.approval_reason();
    let grantable = match verdict.answer {
        Answer::Allow if again.is_none() => {
            return Judged::Permit(Permit::Run {
                resolved,
                grant: None,
            });
        }
        Answer::Allow => false,
        Answer::Deny { advice } => {
            if let Some(Err(fault)) = again.map(|again| again.withdraw(agent, cx)) {
                return Judged::Permit(Permit::Failed(fault));
            }
            let outcome = denied(&format!("{} {advice}", verdict.reason));
            return Judged::Permit(Permit::Refused {
                outcome,
                stop: false,
            });
        }
        Answer::Ask { grantable } => grantable,
    };
    let open = match again {
        Some(Again::Open(open)) => Some(open),
        Some(Again::Allowed) | None => None,
    };
    if open.is_none()
        && let Some(why) = nobody(agent, cx)
    {
        tracing::info!(call = %call.id, policy = reason.policy, "call denied, since nobody can be asked");
        let message = format!(
            "{} needs an approval ({}), and {why}. It was not run.",
            resolved.name, reason.message
        );
        return Judged::Permit(Permit::Refused {
            outcome: denied(&message),
            stop: false,
        });
    }
    let grant = if grantable {
        grant_for(&resolved.name, &resolved.subject, &resolved.accesses)
    } else {
        None
    };
    // Only what was shown can be granted.
    let grant = grant.filter(|grant| {
        open.as_ref().is_none_or(|open| {
            let mut offered = open.request.options.iter();
            offered.any(|option| option.rule.as_ref() == Some(&grant.rule))
        })
    });
    let approval = match &open {
        Some(open) => open.request.approval_id.clone(),
        None => agent.ids.approval(),
    };
    let ask = PendingAsk {
        cx,
        call,
        session: agent.session.clone(),
        agent: agent.id.clone(),
        grants: agent.grants.clone(),
        todos: agent.todos.clone(),
        approval,
        resolved,
        reason,
        grant,
    };
    Judged::Ask(Box::new(ask), open)
}

fn verdict(cx: &TurnCx, grants: &[Grant], resolved: &Resolved) -> Verdict {
    let facts = Facts {
        tool: &resolved.name,
        subject: &resolved.subject,
        accesses: &resolved.accesses,
        mode: *cx.mode.borrow(),
        in_git_tree: cx.workspace.in_work_tree(),
        auto_ask_denies: cx.auto_ask_denies,
    };
    decide(&facts, &cx.rules, grants)
}

/// Why nobody can be asked, where that is known beforehand.
fn nobody(agent: &Agent, cx: &TurnCx) -> Option<&'static str> {
    if cx.unattended {
        return Some("this session has nobody who could give one");
    }
    match cx.asks.ability(&agent.session, AskKind::Approval) {
        Ability::Unable => Some("no attached host can give one"),
        // A host that can may yet attach; the ask waits for it.
        Ability::Able | Ability::Nobody => None,
    }
}

impl PendingAsk<'_> {
    /// Asks, and waits until that is decided or taken back.
    pub(super) async fn put(
        self: Box<Self>,
        open: Option<Box<PutAgain<ApprovalRequest>>>,
        halt: CancellationToken,
    ) -> Permit {
        let asked = match open {
            Some(open) => Ok(open.outcome_unless(halt)),
            None => self.ask(halt),
        };
        let outcome = match asked {
            Ok(asked) => self.wait(asked).await,
            Err(fault) => Err(fault),
        };
        match outcome {
            Ok(outcome) => self.follow(outcome).await,
            Err(fault) => Permit::Failed(fault),
        }
    }

    fn request(&self) -> ApprovalRequest {
        let option = |option_id, label: String, rule| ApprovalOption {
            option_id,
            label,
            rule,
        };
        let mut options = vec![option(OptionId::AllowOnce, "Allow once".into(), None)];
        if let Some(grant) = &self.grant {
            let place = grant
                .cwd
                .as_ref()
                .map(|cwd| format!(" in {}", cwd.display()))
                .unwrap_or_default();
            let label = format!("Allow {}{place} for this session", grant.rule);
            options.push(option(
                OptionId::AllowSession,
                label,
                Some(grant.rule.clone()),
            ));
        }
        options.push(option(OptionId::Reject, "Reject".into(), None));
        options.push(option(
            OptionId::RejectStop,
            "Reject and stop the turn".into(),
            None,
        ));
        let now = self.cx.clock.now();
        let drawn = &self.resolved.drawn;
        ApprovalRequest {
            approval_id: self.approval.clone(),
            session_id: self.session.clone(),
            agent_id: self.agent.clone(),
            turn_id: self.cx.turn.clone(),
            tool_call_id: self.call.id.clone(),
            tool: self.resolved.name.to_string(),
            title: drawn.title.clone(),
            display: drawn.display.clone(),
            accesses: drawn.accesses.clone(),
            input: drawn.input.as_ref().clone(),
            options,
            reason: self.reason.clone(),
            created_at: now.to_string(),
            expires_at: self
                .cx
                .approval_timeout
                .map(|wait| now.plus_ms(wait.as_millis() as i64).to_string()),
        }
    }

    /// Puts the ask to hosts.
    fn ask(&self, halt: CancellationToken) -> Result<BoxFuture<'static, AskOutcome>, Fault> {
        let (sink, board, id) = (&self.cx.sink, &self.cx.board, &self.approval);
        let request = self.request();
        sink.durable(
            &self.agent,
            DomainEvent::ApprovalRequested {
                request: request.clone(),
            },
        )?;
        sink.live(
            &self.agent,
            board.wait(|waiting| waiting.approvals.push(id.clone())),
        );
        Ok(self.cx.asks.ask(Arc::new(Ask::Approval(request)), halt))
    }

    /// Waits for the answer, also for a change of the mode that makes it needless.
    async fn wait(&self, asked: BoxFuture<'static, AskOutcome>) -> Result<AskOutcome, Fault> {
        let (sink, board, id) = (&self.cx.sink, &self.cx.board, &self.approval);
        let outcome = tokio::select! {
            biased;
            () = self.mode_allows() => AskOutcome::ModeChanged,
            outcome = asked => outcome,
        };
        let (option, feedback) = match &outcome {
            AskOutcome::Answered {
                answer: AskAnswer::Approval(answer),
                ..
            } => (answer.option_id, answer.feedback.clone()),
            _ => (None, None),
        };
        sink.live(
            &self.agent,
            board.wait(|waiting| waiting.approvals.retain(|open| open != id)),
        );
        let resolved = DomainEvent::ApprovalResolved {
            approval: id.clone(),
            outcome: outcome.resolution(),
            option,
            feedback,
        };
        sink.durable(&self.agent, resolved)?;
        Ok(outcome)
    }

    async fn mode_allows(&self) {
        let mut mode = self.cx.mode.clone();
        loop {
            if mode.changed().await.is_err() {
                // The session is going away; the ask ends with its turn.
                std::future::pending::<()>().await;
            }
            if verdict(self.cx, &self.grants, &self.resolved).answer == Answer::Allow {
                return;
            }
        }
    }

    async fn follow(self: Box<Self>, outcome: AskOutcome) -> Permit {
        let answer = match outcome {
            AskOutcome::Answered {
                answer: AskAnswer::Approval(answer),
                ..
            } => answer,
            AskOutcome::ModeChanged => {
                return Permit::Run {
                    resolved: self.resolved,
                    grant: None,
                };
            }
            AskOutcome::Withdrawn => return Permit::Withdrawn,
            AskOutcome::Unanswered { reason } => {
                let message = format!("No approval could be had: {reason}. The call was not run.");
                return Permit::Refused {
                    outcome: denied(&message),
                    stop: false,
                };
            }
            AskOutcome::Answered {
                answer: AskAnswer::Question(_),
                ..
            } => {
                let message = "The approval got an answer of the wrong kind. The call was not run.";
                return Permit::Refused {
                    outcome: denied(message),
                    stop: false,
                };
            }
        };
        // The hub gives answers in their one form: by an option that was on offer.
        match answer.option_id {
            Some(OptionId::AllowOnce) => self.allowed(answer, Reach::Once).await,
            Some(OptionId::AllowSession) => self.allowed(answer, Reach::Session).await,
            None | Some(OptionId::Reject) => self.rejected(&answer, Turn::GoesOn),
            Some(OptionId::RejectStop) => self.rejected(&answer, Turn::Stops),
        }
    }

    /// Arguments that the host changed are checked and judged like the model's own; only the ask is not repeated.
    async fn allowed(self: Box<Self>, answer: ApprovalAnswer, reach: Reach) -> Permit {
        let grant = match reach {
            Reach::Once => None,
            Reach::Session => self.grant.clone(),
        };
        let Some(input) = answer.edited_input else {
            return Permit::Run {
                resolved: self.resolved,
                grant,
            };
        };
        let told =
            format!("The user changed the arguments before approving; the call ran with {input}.");
        let who = (self.session.clone(), self.agent.clone());
        let prepared = prepare_edited(self.cx, &self.resolved.name, input);
        match resolve::resolve(self.cx, &who, &self.todos, prepared).await {
            Err(refusal) => Permit::Refused {
                outcome: refusal.outcome,
                stop: false,
            },
            Ok(mut edited) => {
                let verdict = verdict(self.cx, &self.grants, &edited);
                if let Answer::Deny { advice } = verdict.answer {
                    let outcome = denied(&format!("{} {advice}", verdict.reason));
                    return Permit::Refused {
                        outcome,
                        stop: false,
                    };
                }
                edited.note = Some(told);
                // The rule on offer was about the arguments as they were shown, so it is not kept for others.
                let grant = grant.filter(|_| edited.drawn.input == self.resolved.drawn.input);
                Permit::Run {
                    resolved: edited,
                    grant,
                }
            }
        }
    }

    fn rejected(&self, answer: &ApprovalAnswer, turn: Turn) -> Permit {
        let said = match answer
            .feedback
            .as_deref()
            .map(str::trim)
            .filter(|words| !words.is_empty())
        {
            Some(words) => format!(" The user says: {words}"),
            None => String::new(),
        };
        let message = format!(
            "The user rejected this call of {}; it was not run.{said} Do not repeat the same call: find another way or \
             ask.",
            self.resolved.name
        );
        Permit::Refused {
            outcome: denied(&message),
            stop: turn == Turn::Stops,
        }
    }
}

/// How far an approval reaches.
enum Reach {
    Once,
    Session,
}

/// What a rejection means for the turn.
#[derive(PartialEq, Eq)]
enum Turn {
    GoesOn,
    Stops,
}

fn denied(message: &str) -> Outcome {
    let code = Some(ErrorKind::Denied.as_str().to_owned());
    Outcome::failed(message).with_display(Display::Error {
        message: message.to_owned(),
        code,
    })
}
