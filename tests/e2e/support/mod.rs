//! A host in test code, and what it needs to look behind the server's back.

pub(crate) mod peers;
pub(crate) mod processes;
pub(crate) mod scratch;
pub(crate) mod server;

pub(crate) use scratch::Scratch;
pub(crate) use server::{Answer, TestServer};
