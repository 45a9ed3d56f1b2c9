//! What the events of a session say of it as a whole: what lists show, and which of its turns count.

use std::collections::HashSet;

use longshore_protocol::id::TurnId;
use longshore_protocol::value::session::{Session, SessionPatch};

use crate::kernel::event::DomainEvent;

/// Something of each turn of the conversation, in order. Turns that were undone or cleared away are not in it.
#[derive(Debug)]
pub(super) struct Conversation<T> {
    turns: Vec<(TurnId, T)>,
}

impl<T> Default for Conversation<T> {
    fn default() -> Self {
        Self { turns: Vec::new() }
    }
}

impl<T> Conversation<T> {
    /// A turn begins.
    pub(super) fn begin(&mut self, turn: &TurnId, of: T) {
        self.turns.push((turn.clone(), of));
    }

    /// Takes in that turns were taken back, and gives the turns that are gone with it.
    pub(super) fn take(&mut self, event: &DomainEvent) -> Vec<(TurnId, T)> {
        let first = match event {
            DomainEvent::TurnsUndone { turns } => {
                self.turns.iter().position(|(turn, _)| turns.contains(turn))
            }
            DomainEvent::SessionCleared => Some(0),
            _ => None,
        };
        first.map_or_else(Vec::new, |first| self.turns.split_off(first))
    }

    /// The last turn, which may be running.
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.turns.last_mut().map(|(_, of)| of)
    }

    /// What there is of each turn, oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.turns.iter().map(|(_, of)| of)
    }

    /// The same, given away.
    pub(super) fn into_values(self) -> Vec<T> {
        self.turns.into_iter().map(|(_, of)| of).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }
}

/// The changes of a session's own fields, in order.
#[derive(Default)]
pub(super) struct Facts {
    changed: Vec<SessionPatch>,
    /// By turn, the beginning of what a host said.
    turns: Conversation<Option<String>>,
    /// The first words of a conversation that was cleared: the title stays.
    first_cleared: Option<String>,
    gone: HashSet<TurnId>,
    highest_turn: u64,
    /// Warnings that stand in the journal.
    told: HashSet<String>,
}

impl Facts {
    pub(super) fn take(&mut self, event: &DomainEvent) {
        match event {
            DomainEvent::SessionUpdated { changed } => self.changed.push(changed.clone()),
            DomainEvent::Warning { warning } => {
                self.told.insert(warning.message.clone());
            }
            // A full disk may have taken the end of a turn and not its beginning.
            DomainEvent::TurnQueued { turn, .. } | DomainEvent::TurnEnded { turn, .. } => {
                self.numbered(turn);
            }
            DomainEvent::TurnStarted {
                turn,
                origin,
                input,
                wakes: _,
            } => {
                self.numbered(turn);
                let said = origin.is_from_host().then(|| super::summary(input));
                self.turns.begin(turn, said);
            }
            DomainEvent::TurnsUndone { .. } => self.forget(event),
            DomainEvent::SessionCleared => {
                if self.first_cleared.is_none() {
                    self.first_cleared = self.turns.iter().flatten().next().cloned();
                }
                self.forget(event);
            }
            _ => {}
        }
    }

    fn forget(&mut self, event: &DomainEvent) {
        let gone = self.turns.take(event);
        self.gone.extend(gone.into_iter().map(|(turn, _)| turn));
    }

    /// There is a turn of this number.
    pub(super) fn numbered(&mut self, turn: &TurnId) {
        let number = turn.as_str().trim_start_matches('t').parse().unwrap_or(0);
        self.highest_turn = self.highest_turn.max(number);
    }

    /// The number of the next turn.
    pub(super) fn next_turn(&self) -> u64 {
        self.highest_turn + 1
    }

    /// Whether a warning stands in the journal.
    pub(super) fn has_told(&self, message: &str) -> bool {
        self.told.contains(message)
    }

    /// Puts everything into the session as it was made, and gives the turns that do not count any more.
    pub(super) fn apply(self, session: &mut Session) -> HashSet<TurnId> {
        let first = self.first_cleared.as_ref();
        let first = first.or_else(|| self.turns.iter().flatten().next());
        if let (true, Some(first)) = (session.title.is_empty(), first) {
            session.title.clone_from(first);
        }
        for patch in self.changed {
            super::apply(session, patch);
        }
        session.turn_count = self.turns.len() as u64;
        session.last_prompt = self.turns.iter().flatten().next_back().cloned();
        self.gone
    }
}
