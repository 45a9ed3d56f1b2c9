//! Loading a session from its journal, and giving what was left open the end it did not get.

use std::path::Path;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId, TurnId};
use longshore_protocol::value::approval::AskResolution;
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::turn::{FinishReason, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;

use super::actor::{Actor, Parts, SESSION_MARK};
use super::command::SessionHandle;
use super::deps::{Deps, tasks_dir};
use super::index::{Prompts, Use};
use super::journal::mend;
use super::journal::write::Journal;
use super::store::{self, Loaded};
use crate::agent::state::{Open, UNKNOWN};
use crate::background::spare_supervised;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::limits::PROCESS_GRACE_IN_CALL;
use crate::kernel::message::Part;

/// Bad lines of a journal that are told one by one.
const MAX_TOLD: usize = 20;

impl Deps {
    /// Loads a session. Blocking.
    pub(super) fn resume(self: &Arc<Self>, id: &SessionId) -> Result<SessionHandle, Fault> {
        let dir = self.store.find(id).ok_or_else(|| super::not_found(id))?;
        let now = self.clock.now();
        let lock = store::lock(&dir, now)?;
        let (log, mended) = mend::open(&dir, self.store.disk(), now)?;
        let loaded = store::load(id, &dir)?;
        let Loaded {
            session,
            script,
            mut agent,
            model_state,
            open,
            last,
            next_turn,
            gone,
            tasks,
            mut jobs,
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
        for warning in mended.into_iter().chain(damage).chain(warnings) {
            journal.end(&AgentId::main(), DomainEvent::Warning { warning })?;
        }
        self.end_strays(id, &dir);
        close_open(&journal, &open)?;
        if let Some(turn) = &open.turn {
            jobs.turn_ended(turn, &Usage::default());
        }
        for (model, state) in model_state {
            if let Ok(client) = self.models.get(&model) {
                client.restore(id, state);
            }
        }
        if let Some(turn) = &open.turn {
            tracing::info!(session = %id, %turn, "a turn that the last process left open was closed");
            agent.interrupted = false;
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
                gone,
            },
        ))
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

/// Gives everything that the last process left open the end it did not get.
fn close_open(journal: &Journal, open: &Open) -> Result<(), Fault> {
    close_step(journal, open)?;
    let ended = "the server ended while this turn was open; start it again where that is wanted";
    for turn in open.turn.iter().chain(&open.queued) {
        let error = Fault::new(ErrorKind::InternalError, ended).to_failure();
        let event = DomainEvent::TurnEnded {
            turn: turn.clone(),
            reason: TurnReason::Failed,
            stop: StopReason::Error,
            error: Some(error),
            usage: Usage::default(),
            duration_ms: 0,
        };
        journal.end(&AgentId::main(), event)?;
    }
    Ok(())
}

/// Ends the asks, the calls and the step that are open; the turn itself stays open.
pub(super) fn close_step(journal: &Journal, open: &Open) -> Result<(), Fault> {
    let main = AgentId::main();
    for approval in &open.approvals {
        let (approval, outcome) = (approval.clone(), AskResolution::Withdrawn);
        let resolved = DomainEvent::ApprovalResolved {
            approval,
            outcome,
            option: None,
            feedback: None,
        };
        journal.end(&main, resolved)?;
    }
    for question in &open.questions {
        let resolved = DomainEvent::QuestionResolved {
            question: question.clone(),
            outcome: AskResolution::Withdrawn,
        };
        journal.end(&main, resolved)?;
    }
    let Some(turn) = &open.turn else {
        return Ok(());
    };
    for call in &open.calls {
        journal.end(&main, unknown(turn, call.clone()))?;
    }
    if let Some(step) = open.step {
        let finish = FinishReason::Interrupted;
        journal.end(
            &main,
            DomainEvent::StepInterrupted {
                turn: turn.clone(),
                step,
                finish,
            },
        )?;
    }
    Ok(())
}

fn unknown(turn: &TurnId, call: longshore_protocol::id::ToolCallId) -> DomainEvent {
    DomainEvent::ToolCompleted {
        turn: turn.clone(),
        call,
        is_error: true,
        output: vec![Part::text(UNKNOWN)],
        note: None,
        display: None,
        duration_ms: 0,
        truncated: false,
        told: vec![],
    }
}
