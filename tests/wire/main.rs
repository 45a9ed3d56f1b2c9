//! What the documents promise and the protocol keeps.

mod hosts;
mod readme;
