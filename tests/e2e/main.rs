//! The real binary, driven as hosts drive it: over its standard streams, with a home of its own and a clean environment.
//!
//! `support` has the host; each other module is one topic. Waiting is always for a message, with one generous deadline
//! that prints everything that came; dropping the server asserts that it exits cleanly and that nothing it wrote was
//! out of order.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a host of its own, outside the server's rules"
)]

mod support;

mod acp_clients;
mod contract;
mod crash;
mod cron;
mod daemon;
mod files;
mod files_safe;
mod fork;
mod headless;
mod host_files;
mod hostile;
mod input;
mod keeping;
mod manage;
mod many_hosts;
mod media;
mod models;
mod offline;
mod reopened;
mod resume;
mod schedule;
mod search;
mod self_approval;
mod streams;
mod supervised;
mod tasks;
mod turn;
mod undo;
mod websocket;
