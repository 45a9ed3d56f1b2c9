//! Reading a journal back, in bounded memory, whatever became of it.
//!
//! Lines are read in blocks. Where there is much to read, blocks are parsed beside one another and taken in order.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use longshore_protocol::id::{AgentId, SessionId};
use longshore_protocol::value::failure::Warning;

use super::convert::Fact;
use super::order::Order;
use super::parse::{Bad, Parser, Piece};
use super::write;
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::time::Timestamp;
use crate::os::fs::FsError;
use crate::store::append_log::{Block, BlockReader};
use crate::store::blob::BlobStore;

/// A longer line is damage: what is large stands in blobs. Room is left for many values just under that size.
const MAX_LINE_BYTES: usize = 256 << 20;
/// Bytes of lines that are parsed at a time where all of a journal is read. Chosen: hundreds of lines, and little memory.
const BLOCK_BYTES: usize = 1 << 20;
/// The same for a page of events, of which a host may need no more.
const PAGE_BLOCK_BYTES: usize = 64 << 10;
/// From so many bytes on, a journal is parsed by several threads. Chosen: far above what one does in a few milliseconds.
const BESIDE_FROM_BYTES: u64 = 4 << 20;
/// More threads than this would wait for the one that takes what they have parsed.
const MAX_THREADS: usize = 4;
/// Damaged places that are named.
const MAX_NAMED: usize = 1000;

/// One line, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// On event lines: the number.
    pub seq: Option<u64>,
    /// When.
    pub at: Timestamp,
    /// Which agent.
    pub agent: AgentId,
    /// Where its line begins, or stood.
    pub offset: u64,
    /// What.
    pub fact: Fact,
}

/// A place where reading can begin: a line begins there, and what stands before it goes up to this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number of the last event before it.
    pub seq: u64,
    /// Where it is.
    pub offset: u64,
}

/// What was found wrong.
#[derive(Debug, Default)]
pub struct Damage {
    /// The first places, in their order.
    pub places: Vec<Place>,
    /// How many there are beside those.
    pub n_more: usize,
}

/// A damaged place.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where it begins.
    pub offset: u64,
    /// Bytes that could not be read; 0 where a line was read and could not be used.
    pub n_bytes: u64,
    /// One sentence. The same damage is always told in the same words.
    pub message: String,
}

impl Damage {
    pub(super) fn skipped(&mut self, bad: &Bad) {
        if self.places.len() == MAX_NAMED {
            self.n_more += 1;
            return;
        }
        let Bad {
            offset,
            n_bytes,
            reason,
            ..
        } = bad;
        let what = match n_bytes {
            0 => "the journal is damaged".to_owned(),
            _ => format!("{n_bytes} bytes of the journal were skipped"),
        };
        self.places.push(Place {
            offset: *offset,
            n_bytes: *n_bytes,
            message: format!("{what} at byte {offset}: {reason}"),
        });
    }
}

/// Whether reading goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// With the next line.
    On,
    /// No further.
    Stop,
}

/// Gives every readable line of a journal in order, and where events are lost their numbers.
///
/// # Errors
/// Where the file can't be opened or read at all; what is wrong in it is told in `damage` and passed over.
pub fn each(
    dir: &Path,
    damage: &mut Damage,
    mut take: impl FnMut(Entry) -> Flow,
) -> Result<(), FsError> {
    each_from(dir, Mark::default(), BLOCK_BYTES, damage, &mut take)
}

fn each_from(
    dir: &Path,
    from: Mark,
    block_bytes: usize,
    damage: &mut Damage,
    take: &mut dyn FnMut(Entry) -> Flow,
) -> Result<(), FsError> {
    let parser = Parser::new(BlobStore::new(dir.join("blobs")));
    let blocks = BlockReader::open(&write::path(dir), from.offset, MAX_LINE_BYTES)?;
    let mut order = Order::after(from.seq);
    let mut take_all = |pieces: Vec<Piece>| {
        let mut pieces = pieces.into_iter();
        let stops = |piece| order.take(piece, damage, take) == Flow::Stop;
        if pieces.any(stops) {
            Flow::Stop
        } else {
            Flow::On
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let stopped = if blocks.remaining() < BESIDE_FROM_BYTES || threads == 1 {
        one_after_the_other(blocks, block_bytes, &parser, &mut take_all)?
    } else {
        let threads = threads.min(MAX_THREADS);
        beside_one_another(blocks, block_bytes, threads, &parser, &mut take_all)?
    };
    if stopped == Flow::On {
        order.end(damage);
    }
    Ok(())
}

fn one_after_the_other(
    mut blocks: BlockReader,
    block_bytes: usize,
    parser: &Parser,
    take: &mut dyn FnMut(Vec<Piece>) -> Flow,
) -> Result<Flow, FsError> {
    let mut before = Vec::new();
    while let Some(block) = blocks.next(block_bytes)? {
        if take(parse(parser, &block, &before)) == Flow::Stop {
            return Ok(Flow::Stop);
        }
        before = last_line(&block).to_vec();
    }
    Ok(Flow::On)
}

/// A block for a thread, with the line before it.
type Job = (Block, Vec<u8>);

fn beside_one_another(
    mut blocks: BlockReader,
    block_bytes: usize,
    n_threads: usize,
    parser: &Parser,
    take: &mut dyn FnMut(Vec<Piece>) -> Flow,
) -> Result<Flow, FsError> {
    thread::scope(|scope| {
        // Each thread has its own queue, so what comes back comes in the order it was given out.
        let workers: Vec<(Sender<Job>, Receiver<Vec<Piece>>)> = (0..n_threads)
            .map(|_| {
                let (jobs, given) = channel::<Job>();
                let (done, parsed) = channel();
                scope.spawn(move || {
                    while let Ok((block, before)) = given.recv() {
                        if done.send(parse(parser, &block, &before)).is_err() {
                            return;
                        }
                    }
                });
                (jobs, parsed)
            })
            .collect();
        let mut turns = (0..n_threads).cycle();
        let mut waiting = VecDeque::new();
        let mut before = Vec::new();
        loop {
            while waiting.len() < 2 * n_threads
                && let Some(block) = blocks.next(block_bytes)?
                && let Some(worker) = turns.next()
            {
                let next = last_line(&block).to_vec();
                // A thread ends early only by a panic, which the end of the scope passes on.
                let _ = workers[worker].0.send((block, before));
                before = next;
                waiting.push_back(worker);
            }
            let Some(worker) = waiting.pop_front() else {
                return Ok(Flow::On);
            };
            let flow = workers[worker].1.recv().map(&mut *take);
            if flow != Ok(Flow::On) {
                return Ok(Flow::Stop);
            }
        }
    })
}

fn parse(parser: &Parser, block: &Block, before: &[u8]) -> Vec<Piece> {
    match block {
        Block::Lines { offset, bytes } => parser.block(*offset, bytes, before),
        Block::TooLong { offset, n_bytes } => vec![Piece::Bad(Bad {
            offset: *offset,
            n_bytes: *n_bytes,
            reason: "a line of this length is none of ours".to_owned(),
            seq: None,
            n_lines: 1,
        })],
    }
}

fn last_line(block: &Block) -> &[u8] {
    let Block::Lines { bytes, .. } = block else {
        return &[];
    };
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let begin = memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1);
    &lines[begin..]
}

/// Events of a journal that follow one another.
#[derive(Debug)]
pub struct Page {
    /// In their order.
    pub events: Vec<Arc<Stamped>>,
    /// Where the first of them can be read from.
    pub begin: Option<Mark>,
    /// Where the last of them can be read from.
    pub end: Option<Mark>,
    /// Whether the page ended before the journal did.
    pub is_full: bool,
}

/// The durable events after a number, up to about so many bytes of journal. One that was lost to damage is told of by an
/// event with its number, so that no host waits for it.
pub fn events(
    session: &SessionId,
    dir: &Path,
    from: Mark,
    after: u64,
    max_bytes: usize,
) -> Result<Page, FsError> {
    let mut page = Page {
        events: Vec::new(),
        begin: None,
        end: None,
        is_full: false,
    };
    let mut weight = 0;
    let mut take = |entry: Entry| {
        let Some(last) = entry.seq.filter(|last| *last > after) else {
            return Flow::On;
        };
        let (at, agent, offset) = (entry.at, entry.agent, entry.offset);
        let mut give = |seq: u64, event: DomainEvent| {
            weight += event.weight();
            let (session, agent) = (session.clone(), agent.clone());
            let stamped = Stamped::new(session, agent, Some(seq), at, event);
            page.events.push(stamped);
            page.is_full = weight >= max_bytes;
            if page.is_full { Flow::Stop } else { Flow::On }
        };
        match entry.fact {
            Fact::Event(event) => {
                let flow = give(last, event);
                let seq = last - 1;
                page.end = Some(Mark { seq, offset });
                page.begin = page.begin.or(page.end);
                flow
            }
            Fact::Lost { from } => {
                let mut numbers = from.max(after + 1)..=last;
                if numbers.any(|seq| give(seq, lost(seq)) == Flow::Stop) {
                    Flow::Stop
                } else {
                    Flow::On
                }
            }
            Fact::State(_) | Fact::Created { .. } => Flow::On,
        }
    };
    each_from(
        dir,
        from,
        PAGE_BLOCK_BYTES,
        &mut Damage::default(),
        &mut take,
    )?;
    Ok(page)
}

fn lost(seq: u64) -> DomainEvent {
    let message = format!("event {seq} was lost to damage of the journal");
    DomainEvent::Warning {
        warning: Warning::new("journal", message),
    }
}
