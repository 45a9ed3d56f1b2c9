//! May this call run? The policy decides; where it says *ask*, hosts do.

use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, ApprovalId, SessionId};
use longshore_protocol::value::approval::{
    ApprovalAnswer, ApprovalOption, ApprovalReason, ApprovalRequest, OptionId,
};
use longshore_protocol::value::display::Display;

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

/// The decision about a call.
pub(super) enum Permit {
    /// It runs.
    Run {
        /// The call, with the arguments a host may have changed.
        resolved: Box<Resolved>,
        /// A rule born from the answer.
        grant: Option<Grant>,
        /// True where an approval id was used up.
        approval_used: bool,
    },
    /// It does not run.
    Refused {
        /// What the model is told.
        outcome: Outcome,
        /// True where an approval id was used up.
        approval_used: bool,
        /// True where the turn is to be cancelled.
        stop: bool,
    },
    /// Nothing can be decided any more.
    Failed(Fault),
}

/// What a decision needs of its agent, so that other calls can go on meanwhile.
pub(super) struct Desk<'a> {
    cx: &'a TurnCx,
    call: &'a ModelCall,
    session: SessionId,
    agent: AgentId,
    grants: Vec<Grant>,
    approval: ApprovalId,
    todos: Arc<[longshore_protocol::value::todo::Todo]>,
}

impl<'a> Desk<'a> {
    /// For one call.
    pub(super) fn new(agent: &Agent, cx: &'a TurnCx, call: &'a ModelCall) -> Self {
        let mut ids = agent.ids;
        Self {
            cx,
            call,
            session: agent.session.clone(),
            agent: agent.id.clone(),
            grants: agent.grants.clone(),
            approval: ids.approval(),
            todos: agent.todos.clone(),
        }
    }

    /// Decides.
    pub(super) async fn decide(self, resolved: Box<Resolved>) -> Permit {
        let verdict = self.judge(&resolved);
        tracing::info!(
            call = %self.call.id,
            tool = %resolved.name,
            policy = verdict.policy,
            answer = ?verdict.answer,
            "call judged"
        );
        match verdict.answer.clone() {
            Answer::Allow => Permit::Run { resolved, grant: None, approval_used: false },
            Answer::Deny { advice } => refused(denied(&format!("{} {advice}", verdict.reason)), Stop::No, Used::No),
            Answer::Ask { grantable } => {
                let grant = grantable.then(|| grant_for(&resolved.name, &resolved.subject, &resolved.accesses));
                self.ask(resolved, verdict.approval_reason(), grant.flatten()).await
            }
        }
    }

    fn judge(&self, resolved: &Resolved) -> Verdict {
        let facts = Facts {
            tool: &resolved.name,
            subject: &resolved.subject,
            accesses: &resolved.accesses,
            mode: *self.cx.mode.borrow(),
            in_git_tree: self.cx.workspace.in_work_tree(),
            auto_ask_denies: self.cx.auto_ask_denies,
        };
        decide(&facts, &self.cx.rules, &self.grants)
    }

    async fn ask(self, resolved: Box<Resolved>, reason: ApprovalReason, grant: Option<Grant>) -> Permit {
        if let Some(why) = self.nobody() {
            tracing::info!(call = %self.call.id, policy = reason.policy, "call denied, since nobody can be asked");
            let message = format!("{} needs an approval ({}), and {why}. It was not run.", resolved.name, reason.message);
            return refused(denied(&message), Stop::No, Used::No);
        }
        let request = self.request(&resolved, reason, grant.as_ref());
        let outcome = match self.put(&request, &resolved).await {
            Ok(outcome) => outcome,
            Err(fault) => return Permit::Failed(fault),
        };
        self.follow(resolved, grant, outcome).await
    }

    /// Why nobody can be asked, where that is known beforehand.
    fn nobody(&self) -> Option<&'static str> {
        if self.cx.unattended {
            return Some("this session has nobody who could give one");
        }
        match self.cx.asks.ability(&self.session, AskKind::Approval) {
            Ability::Unable => Some("no attached host can give one"),
            // A host that can may yet attach; the ask waits for it.
            Ability::Able | Ability::Nobody => None,
        }
    }

    fn request(&self, resolved: &Resolved, reason: ApprovalReason, grant: Option<&Grant>) -> ApprovalRequest {
        let option = |option_id, label: String, rule| ApprovalOption { option_id, label, rule };
        let mut options = vec![option(OptionId::AllowOnce, "Allow once".into(), None)];
        if let Some(grant) = grant {
            let place = grant.cwd.as_ref().map(|cwd| format!(" in {}", cwd.display())).unwrap_or_default();
            let label = format!("Allow {}{place} for this session", grant.rule);
            options.push(option(OptionId::AllowSession, label, Some(grant.rule.clone())));
        }
        options.push(option(OptionId::Reject, "Reject".into(), None));
        options.push(option(OptionId::RejectStop, "Reject and stop the turn".into(), None));
        let now = self.cx.clock.now();
        ApprovalRequest {
            approval_id: self.approval.clone(),
            session_id: self.session.clone(),
            agent_id: self.agent.clone(),
            turn_id: self.cx.turn.clone(),
            tool_call_id: self.call.id.clone(),
            tool: resolved.name.to_string(),
            title: resolved.drawn.title.clone(),
            display: resolved.drawn.display.clone(),
            accesses: resolved.drawn.accesses.clone(),
            input: resolved.drawn.input.as_ref().clone(),
            options,
            reason,
            created_at: now.to_string(),
            expires_at: self.cx.approval_timeout.map(|wait| now.plus_ms(wait.as_millis() as i64).to_string()),
        }
    }

    /// Puts the ask and waits, also for a change of the mode that makes it needless.
    async fn put(&self, request: &ApprovalRequest, resolved: &Resolved) -> Result<AskOutcome, Fault> {
        let (sink, board, id) = (&self.cx.sink, &self.cx.board, &self.approval);
        sink.durable(&self.agent, DomainEvent::ApprovalRequested { request: request.clone() })?;
        sink.live(&self.agent, board.wait(|waiting| waiting.approvals.push(id.clone())));
        let asked = self.cx.asks.ask(Arc::new(Ask::Approval(request.clone())), self.cx.cancel.clone());
        let outcome = tokio::select! {
            biased;
            () = self.mode_allows(resolved) => AskOutcome::ModeChanged,
            outcome = asked => outcome,
        };
        let (option, feedback) = match &outcome {
            AskOutcome::Answered { answer: AskAnswer::Approval(answer), .. } => {
                (answer.option_id, answer.feedback.clone())
            }
            _ => (None, None),
        };
        sink.live(&self.agent, board.wait(|waiting| waiting.approvals.retain(|open| open != id)));
        let resolved =
            DomainEvent::ApprovalResolved { approval: id.clone(), outcome: outcome.resolution(), option, feedback };
        sink.durable(&self.agent, resolved)?;
        Ok(outcome)
    }

    async fn mode_allows(&self, resolved: &Resolved) {
        let mut mode = self.cx.mode.clone();
        loop {
            if mode.changed().await.is_err() {
                // The session is going away; the ask ends with its turn.
                std::future::pending::<()>().await;
            }
            if self.judge(resolved).answer == Answer::Allow {
                return;
            }
        }
    }

    async fn follow(
        self,
        resolved: Box<Resolved>,
        grant: Option<Grant>,
        outcome: AskOutcome,
    ) -> Permit {
        let answer = match outcome {
            AskOutcome::Answered { answer: AskAnswer::Approval(answer), .. } => answer,
            AskOutcome::ModeChanged => return Permit::Run { resolved, grant: None, approval_used: true },
            AskOutcome::Withdrawn => {
                let message = "The user cancelled the turn while this call waited for approval. It was not run.";
                return refused(Outcome::failed(message), Stop::No, Used::Yes);
            }
            AskOutcome::Unanswered { reason } => {
                return refused(denied(&format!("No approval could be had: {reason}. The call was not run.")), Stop::No, Used::Yes);
            }
            AskOutcome::Answered { answer: AskAnswer::Question(_), .. } => {
                return refused(denied("The approval got an answer of the wrong kind. The call was not run."), Stop::No, Used::Yes);
            }
        };
        // The hub gives answers in their one form: by an option that was on offer.
        match answer.option_id {
            Some(OptionId::AllowOnce) => self.edited(resolved, None, answer).await,
            Some(OptionId::AllowSession) => self.edited(resolved, grant, answer).await,
            None | Some(OptionId::Reject) => {
                refused(rejected(&resolved, answer.feedback.as_deref()), Stop::No, Used::Yes)
            }
            Some(OptionId::RejectStop) => {
                refused(rejected(&resolved, answer.feedback.as_deref()), Stop::Turn, Used::Yes)
            }
        }
    }

    /// Arguments that the host changed are checked and judged like the model's own; only the ask is not repeated.
    async fn edited(self, resolved: Box<Resolved>, grant: Option<Grant>, answer: ApprovalAnswer) -> Permit {
        let Some(input) = answer.edited_input else {
            return Permit::Run { resolved, grant, approval_used: true };
        };
        let told = format!("The user changed the arguments before approving; the call ran with {input}.");
        let shown = resolved.drawn.input.clone();
        let who = (self.session.clone(), self.agent.clone());
        let prepared = prepare_edited(self.cx, &resolved.name, input);
        match resolve::resolve(self.cx, &who, &self.todos, prepared).await {
            Err(refusal) => refused(refusal.outcome, Stop::No, Used::Yes),
            Ok(mut edited) => {
                let verdict = self.judge(&edited);
                if let Answer::Deny { advice } = verdict.answer {
                    return refused(denied(&format!("{} {advice}", verdict.reason)), Stop::No, Used::Yes);
                }
                edited.note = Some(told);
                // The rule on offer was about the arguments as they were shown, so it is not kept for others.
                let grant = grant.filter(|_| edited.drawn.input == shown);
                Permit::Run { resolved: edited, grant, approval_used: true }
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Stop {
    No,
    Turn,
}

#[derive(PartialEq, Eq)]
enum Used {
    No,
    Yes,
}

fn refused(outcome: Outcome, stop: Stop, used: Used) -> Permit {
    Permit::Refused { outcome, approval_used: used == Used::Yes, stop: stop == Stop::Turn }
}

fn denied(message: &str) -> Outcome {
    let code = Some(ErrorKind::Denied.as_str().to_owned());
    Outcome::failed(message).with_display(Display::Error { message: message.to_owned(), code })
}

fn rejected(resolved: &Resolved, feedback: Option<&str>) -> Outcome {
    let said = match feedback.map(str::trim).filter(|words| !words.is_empty()) {
        Some(words) => format!(" The user says: {words}"),
        None => String::new(),
    };
    denied(&format!(
        "The user rejected this call of {}; it was not run.{said} Do not repeat the same call: find another way or ask.",
        resolved.name
    ))
}
