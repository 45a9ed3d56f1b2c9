//! Which call a piece of a streamed call belongs to.
//!
//! Servers of the Chat Completions wire disagree on this: some number every call 0, some give no number, some change it
//! between a call's head and its arguments, some repeat the whole arguments. [`CallSlots`] turns what they send into
//! deltas with one slot per call, numbered from 0 in the order in which the calls became known.

use serde_json::{Map, Value};

use super::Delta;

/// A piece of a call as a server sent it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallPiece {
    /// The server's number of the call.
    pub(crate) index: Option<Index>,
    /// The server's id; empty counts as absent.
    pub(crate) id: Option<String>,
    /// The tool; empty counts as absent.
    pub(crate) name: Option<String>,
    /// Arguments, where the piece has any.
    pub(crate) arguments: Option<Arguments>,
    /// Members that are not known here.
    pub(crate) extras: Map<String, Value>,
}

/// A server's number of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// As the wire has it.
    Number(u64),
    /// As a few servers have it.
    Text(String),
}

/// Arguments in a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// More text.
    Piece(String),
    /// All of them: they came as a JSON value instead of text.
    Whole(String),
}

/// How a server repeats arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// It sends each piece once.
    #[default]
    Pieces,
    /// Each piece holds all the text so far.
    Cumulative,
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub(crate) struct CallSlots {
    repetition: Repetition,
    calls: Vec<Open>,
    last: Option<usize>,
    n_started: usize,
    n_orphans: usize,
}

#[derive(Debug, Default)]
struct Open {
    indices: Vec<Index>,
    id: Option<String>,
    /// The slot, once the name is known.
    slot: Option<usize>,
    /// Arguments that came before the name; or, where they are repeated, all so far.
    held: String,
    extras: Map<String, Value>,
    scan: Scan,
}

impl CallSlots {
    /// No calls yet.
    pub(crate) fn new(repetition: Repetition) -> Self {
        Self {
            repetition,
            ..Self::default()
        }
    }

    /// True once a call is known.
    pub(crate) fn any_started(&self) -> bool {
        self.n_started > 0
    }

    /// True where a call's arguments are not whole JSON.
    pub(crate) fn any_unfinished(&self) -> bool {
        self.calls
            .iter()
            .any(|call| call.slot.is_none() || call.scan.is_cut())
    }

    /// Pieces that belonged to no call.
    pub(crate) fn n_orphans(&self) -> usize {
        self.n_orphans
    }

    /// Opens a call whatever the others are, and returns its number for [`CallSlots::append`].
    pub(crate) fn open(&mut self, id: Option<String>, name: String, out: &mut Vec<Delta>) -> usize {
        let at = self.add(None, id);
        self.start(at, name, out);
        at
    }

    /// Adds argument text to a call that was opened.
    pub(crate) fn append(&mut self, at: usize, text: String, out: &mut Vec<Delta>) {
        self.arguments(at, Arguments::Piece(text), out);
    }

    /// Takes a piece as a server sent it.
    pub(crate) fn feed(&mut self, piece: CallPiece, out: &mut Vec<Delta>) {
        let CallPiece {
            index,
            id,
            name,
            arguments,
            extras,
        } = piece;
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.trim().is_empty());
        let Some(at) = self.find(index.as_ref(), id.as_deref(), name.as_deref()) else {
            if index.is_none() && id.is_none() && name.is_none() {
                if arguments.is_some() {
                    self.n_orphans += 1;
                    tracing::warn!("a piece of arguments belongs to no call");
                }
                return;
            }
            let at = self.add(index, id);
            self.take(at, name, arguments, extras, out);
            return;
        };
        let call = &mut self.calls[at];
        if let Some(index) = index
            && !call.indices.contains(&index)
        {
            call.indices.push(index);
        }
        if call.id.is_none() {
            call.id = id;
        }
        self.take(at, name, arguments, extras, out);
    }

    fn take(
        &mut self,
        at: usize,
        name: Option<String>,
        arguments: Option<Arguments>,
        extras: Map<String, Value>,
        out: &mut Vec<Delta>,
    ) {
        self.last = Some(at);
        if self.calls[at].slot.is_none() {
            self.calls[at].extras.extend(extras);
        }
        match name {
            Some(name) if self.calls[at].slot.is_none() => self.start(at, name, out),
            _ => {}
        }
        if let Some(arguments) = arguments {
            self.arguments(at, arguments, out);
        }
    }

    fn find(&self, index: Option<&Index>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let by_id = |id: &str| {
            self.calls
                .iter()
                .rposition(|call| call.id.as_deref() == Some(id))
        };
        let by_index = |index: &Index| {
            self.calls
                .iter()
                .rposition(|call| call.indices.contains(index))
        };
        match (index, id) {
            (Some(index), Some(id)) => by_id(id).or_else(|| {
                by_index(index)
                    .filter(|&at| self.calls[at].id.is_none() && !self.is_followed_by(at, name))
            }),
            (Some(index), None) => match by_index(index) {
                Some(at) => Some(at).filter(|&at| !self.is_followed_by(at, name)),
                None if name.is_none() => self.only_bare_call(),
                None => None,
            },
            (None, Some(id)) => by_id(id),
            (None, None) => self.last.filter(|_| name.is_none()),
        }
    }

    /// A new name after whole arguments begins another call, even under the same number.
    fn is_followed_by(&self, at: usize, name: Option<&str>) -> bool {
        let call = &self.calls[at];
        name.is_some() && call.slot.is_some() && call.scan.is_whole()
    }

    /// The call that arguments under a number never seen belong to: the only one, if it has a name and no arguments yet.
    fn only_bare_call(&self) -> Option<usize> {
        match self.calls.as_slice() {
            [call] if call.slot.is_some() && call.scan.is_empty() => Some(0),
            _ => None,
        }
    }

    fn add(&mut self, index: Option<Index>, id: Option<String>) -> usize {
        self.calls.push(Open {
            indices: index.into_iter().collect(),
            id,
            ..Open::default()
        });
        self.last = Some(self.calls.len() - 1);
        self.calls.len() - 1
    }

    fn start(&mut self, at: usize, name: String, out: &mut Vec<Delta>) {
        let slot = self.n_started;
        self.n_started += 1;
        let call = &mut self.calls[at];
        call.slot = Some(slot);
        let extras = std::mem::take(&mut call.extras);
        out.push(Delta::CallStarted {
            slot,
            provider_id: call.id.clone(),
            name,
            extras,
        });
        if !call.held.is_empty() {
            let text = match self.repetition {
                Repetition::Pieces => std::mem::take(&mut call.held),
                Repetition::Cumulative => call.held.clone(),
            };
            out.push(Delta::CallArguments { slot, text });
        }
    }

    fn arguments(&mut self, at: usize, arguments: Arguments, out: &mut Vec<Delta>) {
        let call = &mut self.calls[at];
        let cumulative = self.repetition == Repetition::Cumulative;
        let (text, replaces) = match arguments {
            Arguments::Whole(text) => {
                let replaces = !call.scan.is_empty();
                (text, replaces)
            }
            Arguments::Piece(text) if text.is_empty() => return,
            Arguments::Piece(text) if cumulative => match text.strip_prefix(&*call.held) {
                Some(more) => (more.to_owned(), false),
                None => (text, true),
            },
            // What is held can take no more, so a further piece starts it anew.
            Arguments::Piece(text) => {
                let replaces = call.scan.is_whole() && !text.trim().is_empty();
                (text, replaces)
            }
        };
        if text.is_empty() && !replaces {
            return;
        }
        if replaces {
            call.scan = Scan::default();
        }
        call.scan.feed(&text);
        if replaces && (call.slot.is_none() || cumulative) {
            call.held.clear();
        }
        if call.slot.is_none() || cumulative {
            call.held.push_str(&text);
        }
        match call.slot {
            None => {}
            Some(slot) if replaces => out.push(Delta::CallReplaced { slot, text }),
            Some(slot) => out.push(Delta::CallArguments { slot, text }),
        }
    }
}

/// Follows JSON text piece by piece and knows whether its one object or array has closed, reading each byte once.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    begun: bool,
    whole: bool,
    /// Something that is not an object or array, or more after it.
    other: bool,
}

impl Scan {
    fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => continue,
                b'{' | b'[' => {
                    self.other |= self.whole;
                    self.depth += 1;
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    self.whole = self.depth == 0;
                }
                b'"' if self.depth > 0 => self.in_string = true,
                _ if self.depth == 0 => self.other = true,
                _ => {}
            }
            self.begun = true;
        }
    }

    fn is_empty(self) -> bool {
        !self.begun
    }

    fn is_whole(self) -> bool {
        self.whole && !self.other && self.depth == 0
    }

    fn is_cut(self) -> bool {
        self.begun && !self.is_whole()
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
