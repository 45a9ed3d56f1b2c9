//! What the documents promise and the protocol keeps.

mod asks;
mod hosts;
mod many_hosts;
mod readme;
#[expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a server with a home of its own, and a gauge of its memory"
)]
mod support;
