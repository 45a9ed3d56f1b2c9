//! Taking turns back, and beginning a conversation anew.
//!
//! Both are a record, so they hold after a restart. What they leave is what a restart would find: the agent is made from
//! the journal again, with the record taken in before it is written, so that nothing is written where anything can't be
//! done. Only the conversation goes back. Files, tasks, jobs, rules born from answers and what was spent stay.

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, TurnId};
use longshore_protocol::value::session::Session;

use super::actor::Actor;
use super::store::{self, Loaded, Reading};
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::port::EventSink;
use crate::kernel::wake::WakeKey;
use crate::os::blocking;

/// What an undo has done.
#[derive(Clone, Debug, PartialEq)]
pub struct Undone {
    /// The turns that were taken back, oldest first.
    pub turns: Vec<TurnId>,
    /// How many of the user's turns can still be taken back.
    pub undoable: usize,
    /// The session now.
    pub session: Session,
}

/// A session as it is once an event has happened that has not happened yet.
struct Planned {
    event: DomainEvent,
    then: Loaded,
    undoable: usize,
}

impl Actor {
    /// Takes back the last turns that hosts began, and all turns after the first of them: all, or none.
    pub(super) async fn undo(&mut self, n: usize) -> Result<Undone, Fault> {
        self.check_idle()?;
        let plan = move |reading: &Reading| match reading.restore.last_turns(n) {
            Ok(turns) => Ok(DomainEvent::TurnsUndone { turns }),
            Err(undoable) => Err(unavailable(n, undoable)),
        };
        let Planned {
            event,
            then,
            undoable,
        } = self.planned(plan).await?;
        let DomainEvent::TurnsUndone { turns } = &event else {
            return Err(Fault::new(
                ErrorKind::InternalError,
                "an undo was planned as something else",
            ));
        };
        let turns = turns.clone();
        self.conversation_is(event, then).await?;
        Ok(Undone {
            turns,
            undoable,
            session: self.view().session,
        })
    }

    /// Begins the conversation anew.
    pub(super) async fn clear(&mut self) -> Result<Session, Fault> {
        self.check_idle()?;
        let Planned { event, then, .. } = self.planned(|_| Ok(DomainEvent::SessionCleared)).await?;
        self.conversation_is(event, then).await?;
        if let Some(agent) = &mut self.agent {
            // What it says of the surroundings may be as old as what is gone.
            agent.system = None;
        }
        Ok(self.view().session)
    }

    /// Reads the journal and takes in an event that is not in it.
    async fn planned(
        &self,
        plan: impl FnOnce(&Reading) -> Result<DomainEvent, Fault> + Send + 'static,
    ) -> Result<Planned, Fault> {
        let (id, dir, now) = (
            self.session.session_id.clone(),
            self.dir.clone(),
            self.now(),
        );
        blocking::run(move || {
            let mut reading = Reading::of(&id, &dir)?;
            let event = plan(&reading)?;
            reading.event(&event, now);
            let undoable = reading.restore.undoable();
            Ok(Planned {
                event,
                then: reading.finish(&dir)?.closed(),
                undoable,
            })
        })
        .await
    }

    /// Writes the event and makes the session what it is then.
    async fn conversation_is(&mut self, event: DomainEvent, then: Loaded) -> Result<(), Fault> {
        let main = AgentId::main();
        self.journal.durable(&main, event)?;
        let Loaded {
            session,
            mut agent,
            gone,
            tasks,
            ..
        } = then;
        if let Some(before) = self.agent.take() {
            agent.system = before.system;
            agent.ran_commands = before.ran_commands;
        }
        // The jobs know what has fired.
        agent
            .told
            .retain(|key| !matches!(key, WakeKey::Fire { .. }));
        let todos_changed = self.board.get().todos != agent.todos;
        self.board.set_todos(agent.todos.clone());
        self.board.set_context(agent.context.tokens());
        self.wakes.pend_again(tasks.wakes(&agent.told));
        let todos = agent.todos.to_vec();
        self.agent = Some(Box::new(agent));
        self.gone = gone.into();
        (self.session.title, self.session.last_prompt) = (session.title, session.last_prompt);
        self.session.turn_count = session.turn_count;
        self.turns.forget_carried();
        // What it has read of files is not in its history any more.
        self.freshness.forget();
        if todos_changed {
            // The record before it says the same: this one is for hosts.
            self.say(DomainEvent::TodoUpdated { todos });
        }
        let dir = self.dir.clone();
        let prompts = blocking::run(move || store::prompts(&dir)).await;
        self.prompted_only_with(prompts);
        if self.session.ephemeral {
            return Ok(());
        }
        self.journal.sync().await
    }

    /// The history can be changed only while no turn has it.
    fn check_idle(&self) -> Result<(), Fault> {
        self.check_open()?;
        if self.turns.is_busy() {
            return Err(Fault::new(
                ErrorKind::SessionBusy,
                "a turn is running or waiting; wait for it or cancel it",
            ));
        }
        Ok(())
    }
}

fn unavailable(n: usize, undoable: usize) -> Fault {
    let message = match undoable {
        0 => "there is no turn that could be undone".to_owned(),
        1 => format!("{n} turns can't be undone, only the last one can"),
        undoable => format!("{n} turns can't be undone, only the last {undoable} can"),
    };
    Fault::new(ErrorKind::UndoUnavailable, message).with("undoable", undoable)
}
