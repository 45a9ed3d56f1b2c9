//! Loading a session from its journal, and giving what was left open the end it did not get.
//!
//! A turn that waited for a person is not ended: it goes on with the same asks ([`Left::waits_for_person`]).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId, ToolCallId, TurnId};
use longshore_protocol::value::approval::AskResolution;
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::session::Session;
use longshore_protocol::value::turn::{FinishReason, StopReason, TurnReason};

use super::actor::{Actor, Parts, SESSION_MARK};
use super::command::SessionHandle;
use super::deps::{Deps, tasks_dir};
use super::index::{Prompts, Use};
use super::journal::mend;
use super::journal::write::Journal;
use super::store::{self, Loaded};
use crate::agent::Agent;
use crate::agent::open::{CallStage, Left, OpenCall};
use crate::background::spare_supervised;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::limits::PROCESS_GRACE_IN_CALL;
use crate::kernel::message::{Message, Part};
use crate::kernel::time::Timestamp;

/// Bad lines of a journal that are told one by one.
const MAX_TOLD: usize = 20;

impl Deps {
    /// Loads a session. Blocking.
    pub(super) fn resume(self: &Arc<Self>, id: &SessionId) -> Result<SessionHandle, Fault> {
        let dir = self.store.find(id).ok_or_else(|| super::not_found(id))?;
        let now = self.clock.now();
        let lock = store::lock(&dir, now)?;
        let (log, mended) = mend::open(&dir, self.store.disk(), now)?;
        let loaded = store::load_open(id, &dir)?;
        let Loaded {
            session,
            script,
            mut agent,
            model_state,
            mut left,
            last,
            next_turn,
            gone,
            tasks,
            mut jobs,
            untold,
            mut damage,
            warnings,
            marks,
        } = loaded;
        if !session.ephemeral {
            // From here on its facts may change without a note.
            let none = Prompts::More(vec![]);
            self.store.index.note(&session, Use::Open, &none);
        }
        let opening = self.opening(id, &dir, &lock)?;
        let journal = Arc::new(Journal::go_on(opening, log, last, marks));
        for place in &damage {
            tracing::warn!(session = %id, place = place.message, "journal damage");
        }
        // The others are told of with the next load.
        damage.truncate(MAX_TOLD);
        mend::keep(&dir, now, &damage);
        let damage = damage
            .into_iter()
            .map(|place| Warning::new("journal", place.message));
        let warnings: Vec<Warning> = mended.into_iter().chain(damage).chain(warnings).collect();
        for warning in warnings.iter().cloned() {
            journal.end(&AgentId::main(), DomainEvent::Warning { warning })?;
        }
        for event in untold.events(&self.config.cron, self.clock.now()) {
            journal.end(&AgentId::main(), event)?;
        }
        self.end_strays(id, &dir);
        for (model, state) in model_state {
            if let Ok(client) = self.models.get(&model) {
                client.restore(id, state);
            }
        }
        match self.may_go_on(&session, &left) {
            Ok(()) => close_lost(&journal, &mut left)?,
            Err(why) => {
                if let Some(open) = &left.turn {
                    tracing::info!(session = %id, turn = %open.turn, %why, "a turn that the last process left open was closed");
                    jobs.turn_ended(&open.turn, &open.usage);
                }
                close_turn(&journal, &mut agent, &mut left, &why)?;
            }
        }
        Ok(Actor::begin(
            self,
            Parts {
                session,
                script,
                agent,
                journal,
                lock,
                dir,
                next_turn,
                tasks,
                jobs,
                left,
                gone,
                warnings,
            },
        ))
    }

    /// Whether the open turn can be taken up where it was: it waited for a person, for no longer than it may.
    ///
    /// # Errors
    /// Why it ends.
    fn may_go_on(&self, session: &Session, left: &Left) -> Result<(), Fault> {
        let interrupted = || {
            Fault::new(
                ErrorKind::InternalError,
                "the server ended while this turn was open; start it again where that is wanted",
            )
        };
        if session.unattended || !left.waits_for_person() {
            return Err(interrupted());
        }
        let approvals = left.approvals.iter().map(|request| &request.created_at);
        let questions = left.questions.iter().map(|request| &request.created_at);
        let is_late = |created_at: &String| {
            let max = self.config.permission.approval_timeout;
            max.is_some_and(|max| waited(self.clock.now(), created_at) >= max)
        };
        if approvals.chain(questions).any(is_late) {
            return Err(Fault::new(
                ErrorKind::InternalError,
                "the server ended while this turn waited for a decision, which did not come in time",
            ));
        }
        self.check_config()?;
        let model = match &session.model {
            Some(alias) => alias,
            None => self.models.default_alias()?,
        };
        self.models.get(model).map(drop)
    }

    /// A server that died could not end what it had started. The session's lock is ours, so whatever bears its mark has
    /// lost its owner, but for what is meant to outlive a server; it is gone before anything new of this session can be
    /// started. Blocking.
    fn end_strays(&self, id: &SessionId, dir: &Path) {
        spare_supervised(&tasks_dir(dir), &self.processes, self.clock.now());
        let ending = self
            .processes
            .end_marked(SESSION_MARK, id.as_str(), PROCESS_GRACE_IN_CALL);
        let n = tokio::runtime::Handle::current().block_on(ending);
        if n > 0 {
            tracing::warn!(session = %id, n, "processes that outlived their server were ended");
        }
    }
}

/// How long an ask has waited: its time goes on while no server runs.
pub(super) fn waited(now: Timestamp, created_at: &str) -> Duration {
    let created = Timestamp::parse(created_at).unwrap_or(now);
    Duration::from_millis(u64::try_from(now.0.saturating_sub(created.0)).unwrap_or(0))
}

/// Gives what a turn that goes on has lost the end it did not get: calls that ran, and asks of no call that goes on.
fn close_lost(journal: &Journal, left: &mut Left) -> Result<(), Fault> {
    let Some(mut open) = left.turn.take() else {
        return Ok(());
    };
    let calls = open.step.iter_mut().flat_map(|step| &mut step.calls);
    let (going_on, lost): (Vec<_>, Vec<_>) = calls.partition(|call| left.can_go_on(call));
    let going_on: HashSet<ToolCallId> = going_on
        .into_iter()
        .map(|call| call.call.id.clone())
        .collect();
    end_asks(journal, left, |call| !going_on.contains(call))?;
    for call in lost {
        end_call(journal, &open.turn, call)?;
    }
    left.turn = Some(open);
    Ok(())
}

/// Gives an open turn that does not go on its end, and everything of it; what it had come to enters the history.
pub(super) fn close_turn(
    journal: &Journal,
    agent: &mut Agent,
    left: &mut Left,
    why: &Fault,
) -> Result<(), Fault> {
    close_step(journal, agent, left)?;
    let Some(open) = left.turn.take() else {
        return Ok(());
    };
    agent.interrupted = false;
    let event = DomainEvent::TurnEnded {
        turn: open.turn,
        reason: TurnReason::Failed,
        stop: StopReason::Error,
        error: Some(why.to_failure()),
        usage: open.usage,
        duration_ms: 0,
    };
    journal.end(&AgentId::main(), event)
}

/// Ends the asks, the calls and the step that are open; the turn itself stays open.
pub(super) fn close_step(
    journal: &Journal,
    agent: &mut Agent,
    left: &mut Left,
) -> Result<(), Fault> {
    end_asks(journal, left, |_| true)?;
    let Some(turn) = &mut left.turn else {
        return Ok(());
    };
    let Some(mut step) = turn.step.take() else {
        return Ok(());
    };
    for call in &mut step.calls {
        end_call(journal, &turn.turn, call)?;
    }
    let finish = FinishReason::Interrupted;
    let interrupted = DomainEvent::StepInterrupted {
        turn: turn.turn.clone(),
        step: step.number,
        finish,
    };
    journal.end(&AgentId::main(), interrupted)?;
    agent.close_step(step, Some(finish));
    Ok(())
}

fn end_asks(
    journal: &Journal,
    left: &mut Left,
    is_ended: impl Fn(&ToolCallId) -> bool,
) -> Result<(), Fault> {
    let (main, outcome) = (AgentId::main(), AskResolution::Withdrawn);
    let (approvals, questions) = left.take_asks(is_ended);
    for approval in approvals {
        let resolved = DomainEvent::ApprovalResolved {
            approval,
            outcome,
            option: None,
            feedback: None,
        };
        journal.end(&main, resolved)?;
    }
    for question in questions {
        journal.end(&main, DomainEvent::QuestionResolved { question, outcome })?;
    }
    Ok(())
}

/// Gives a call the result it did not get. What no host was told of has no end to be told.
fn end_call(journal: &Journal, turn: &TurnId, call: &mut OpenCall) -> Result<(), Fault> {
    if call.result.is_some() {
        return Ok(());
    }
    let output = vec![Part::text(call.cut_off())];
    if call.stage != CallStage::New {
        let completed = DomainEvent::ToolCompleted {
            turn: turn.clone(),
            call: call.call.id.clone(),
            is_error: true,
            output: output.clone(),
            note: None,
            display: None,
            duration_ms: 0,
            truncated: false,
            told: vec![],
        };
        journal.end(&AgentId::main(), completed)?;
    }
    call.result = Some(Message::ToolResult {
        call: call.call.id.clone(),
        parts: output,
        is_error: true,
        note: None,
    });
    Ok(())
}
