//! x
pub mod envelope;
pub mod error;
