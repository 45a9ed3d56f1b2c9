//! A generic JSON-RPC 2.0 peer over any pair of byte streams; it knows no method of longshore.
//!
//! The same peer serves hosts and is the client of our own commands and tests, since either side may ask the other.
//! One connection has two tasks: the reader (`reader.rs`) takes lines apart, starts requests and routes answers; the
//! writer drains the connection's one FIFO, its [`Outbox`].
//! All state is in two in-flight tables (`pending.rs`) behind short locks, owned by [`PeerHandle`].
//!
//! Invariants:
//! - Reading never waits for a handler; it pauses only while the host leaves too many bytes of replies unread.
//! - Every request gets exactly one reply, under cancel, panic, duplicate ids and shutdown: whoever takes the entry
//!   in the in-flight table answers, and nobody else.
//! - Replies, our own requests and notifications leave in the order they were given to the outbox.
//! - An id is echoed byte for byte, and is free again just before its reply is written.
//! - Nothing a host sends ends the connection: malformed input is answered and the next line is read.
//! - A message out never holds a raw newline.
//!
//! Start reading at [`Peer`]; a face implements [`Service`].

mod batch;
mod codec;
mod inbox;
mod memory;
mod outbox;
mod peer;
mod pending;
mod reader;
mod service;
mod websocket;
mod wire;

#[cfg(test)]
mod tests;

pub use codec::{Frame, LineCodec};
pub use inbox::{Answer, Inbound, Inbox, inbox};
pub use memory::{PipeEnd, pipe};
pub use outbox::{BATCH_BYTES, Batch, Line, MAX_BATCH_BYTES, Outbox, PlainOutbox};
pub use peer::{
    Batches, CancelWire, Connection, End, OnCancel, Peer, PeerHandle, PeerOptions, PendingRequest,
    RequestFailure,
};
pub use pending::Receipt;
pub use service::{BoxFuture, Refuse, Reply, Request, Service, SpliceError};
pub use websocket::{carry, frames};
pub use wire::RemoteError;
