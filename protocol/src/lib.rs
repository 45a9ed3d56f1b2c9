//! The native wire protocol of longshore, version 1.
//!
//! This crate is what hosts and client libraries depend on: envelopes, ids, the error table, the leaf values shared by
//! everything, and THE three tables: [`method`] (host to server), [`event`] (server to host) and [`reverse`] (requests
//! a server asks its hosts). It has no runtime and does no I/O. `README.md` is the manual of the wire.

#![warn(missing_docs)]

pub mod envelope;
pub mod error;
pub mod id;
pub mod value;

pub mod event;
pub mod method;
pub mod reverse;
pub mod schema;

/// The protocol version this crate describes.
pub const PROTOCOL_VERSION: u32 = 1;
