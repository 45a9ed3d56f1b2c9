//! What the documents promise and the protocol keeps.

mod readme;
