//! The numbers of a journal: each event once, in order, and a name for each that is lost.
//!
//! The journal's writer leaves no gap and repeats nothing. Where a number is out of order, either lines are gone (then
//! the lines after it go on from there) or the number itself is damaged (then they do not): a line whose number nothing
//! explains is held until the next one tells.

use longshore_protocol::id::AgentId;

use super::convert::Fact;
use super::parse::{Bad, Piece};
use super::read::{Damage, Entry, Flow};
use crate::kernel::time::Timestamp;

/// A gap that no file of ours can have; what claims one is damaged.
const MAX_GAP: u64 = 1 << 24;

/// Follows the numbers from one line to the next.
#[derive(Debug)]
pub(super) struct Order {
    /// The last number that is accounted for.
    last: u64,
    at: Timestamp,
    /// How many events may stand in what could not be read since then.
    room: u64,
    held: Option<Held>,
    /// State lines since the last event.
    states: Vec<u64>,
}

/// Lines whose number nothing explains yet.
#[derive(Debug)]
struct Held {
    seq: u64,
    entries: Vec<Entry>,
}

impl Order {
    /// After an event of this number.
    pub(super) fn after(last: u64) -> Self {
        Self {
            last,
            at: Timestamp::default(),
            room: 0,
            held: None,
            states: Vec::new(),
        }
    }

    /// Takes the next part of the journal and gives on what is certain by now.
    pub(super) fn take(
        &mut self,
        piece: Piece,
        damage: &mut Damage,
        give: &mut dyn FnMut(Entry) -> Flow,
    ) -> Flow {
        match piece {
            Piece::Entry { repeats: true, .. } => Flow::On,
            Piece::Entry {
                entry,
                after,
                print,
                ..
            } => match entry.seq {
                Some(seq) => self.event(seq, entry, damage, give),
                None if self.states.contains(&print) => Flow::On,
                None => {
                    self.states.push(print);
                    self.state(after.unwrap_or(self.last), entry, damage, give)
                }
            },
            Piece::Bad(bad) => {
                let lost = bad.seq.filter(|seq| self.is_explained(*seq, bad.n_lines));
                self.room = self.room.saturating_add(bad.n_lines).min(MAX_GAP);
                damage.skipped(&bad);
                match lost {
                    Some(seq) if self.held.is_none() => {
                        let offset = bad.offset;
                        self.lose(seq, offset, give)
                    }
                    _ => Flow::On,
                }
            }
        }
    }

    /// The end of the journal: what is held is not explained any more.
    pub(super) fn end(&mut self, damage: &mut Damage) {
        self.drop_held(damage);
    }

    /// Whether a number can follow, with so many events at most between the last one and what follows.
    fn is_explained(&self, seq: u64, more: u64) -> bool {
        // What is held may have had another number.
        let held = self.held.as_ref().map_or(0, Held::n_events);
        seq > self.last && seq - self.last <= self.room + held + more
    }

    fn event(
        &mut self,
        seq: u64,
        entry: Entry,
        damage: &mut Damage,
        give: &mut dyn FnMut(Entry) -> Flow,
    ) -> Flow {
        if self.held.as_ref().is_some_and(|held| seq == held.seq + 1) {
            if self.give_held(give) == Flow::Stop {
                return Flow::Stop;
            }
            return self.event(seq, entry, damage, give);
        }
        if self.is_explained(seq, 1) {
            self.drop_held(damage);
            if seq > self.last + 1 && self.lose(seq - 1, entry.offset, give) == Flow::Stop {
                return Flow::Stop;
            }
            (self.last, self.room, self.at) = (seq, 0, entry.at);
            self.states.clear();
            return give(entry);
        }
        if seq <= self.last {
            let reason = format!("its number {seq} stands before it already");
            // It may be the number that is damaged.
            self.room += 1;
            damage.skipped(&unexplained(&entry, reason));
            return Flow::On;
        }
        self.hold(seq, entry, damage);
        Flow::On
    }

    fn state(
        &mut self,
        after: u64,
        entry: Entry,
        damage: &mut Damage,
        give: &mut dyn FnMut(Entry) -> Flow,
    ) -> Flow {
        if after == self.last {
            return give(entry);
        }
        if after < self.last {
            let reason = format!(
                "it follows event {after}, yet stands after event {}",
                self.last
            );
            damage.skipped(&unexplained(&entry, reason));
            return Flow::On;
        }
        if self.is_explained(after, 0) {
            self.drop_held(damage);
            if self.lose(after, entry.offset, give) == Flow::Stop {
                return Flow::Stop;
            }
            return give(entry);
        }
        match &mut self.held {
            Some(held) if held.seq == after => held.entries.push(entry),
            _ => self.hold(after, entry, damage),
        }
        Flow::On
    }

    /// Names the numbers up to this one that are lost.
    fn lose(&mut self, to: u64, offset: u64, give: &mut dyn FnMut(Entry) -> Flow) -> Flow {
        let from = self.last + 1;
        self.room = self.room.saturating_sub(to - self.last);
        self.last = to;
        give(Entry {
            seq: Some(to),
            at: self.at,
            agent: AgentId::main(),
            offset,
            fact: Fact::Lost { from },
        })
    }

    fn hold(&mut self, seq: u64, entry: Entry, damage: &mut Damage) {
        self.drop_held(damage);
        if seq - self.last > MAX_GAP {
            let reason = format!("its number {seq} can't be right");
            self.room += u64::from(entry.seq.is_some());
            damage.skipped(&unexplained(&entry, reason));
            return;
        }
        let entries = vec![entry];
        self.held = Some(Held { seq, entries });
    }

    /// The lines that followed went on from there: those before it are gone.
    fn give_held(&mut self, give: &mut dyn FnMut(Entry) -> Flow) -> Flow {
        let Some(held) = self.held.take() else {
            return Flow::On;
        };
        for entry in held.entries {
            let missing = entry.seq.map_or(held.seq, |seq| seq - 1);
            if missing > self.last && self.lose(missing, entry.offset, give) == Flow::Stop {
                return Flow::Stop;
            }
            if let Some(seq) = entry.seq {
                (self.last, self.at) = (seq, entry.at);
            }
            if give(entry) == Flow::Stop {
                return Flow::Stop;
            }
        }
        self.room = 0;
        Flow::On
    }

    fn drop_held(&mut self, damage: &mut Damage) {
        let Some(held) = self.held.take() else { return };
        self.room += held.n_events();
        for entry in held.entries {
            let reason = "its number is out of order".to_owned();
            damage.skipped(&unexplained(&entry, reason));
        }
    }
}

impl Held {
    fn n_events(&self) -> u64 {
        self.entries
            .iter()
            .filter(|entry| entry.seq.is_some())
            .count() as u64
    }
}

fn unexplained(entry: &Entry, reason: String) -> Bad {
    Bad {
        offset: entry.offset,
        n_bytes: 0,
        reason,
        seq: None,
        n_lines: 0,
    }
}
