//! Leaf values shared by methods, events and reverse requests, and used by the engine itself.
//!
//! Only values that mean the same everywhere live here. Every new field is optional, so that old hosts keep working.

pub mod approval;
pub mod content;
pub mod cron;
pub mod display;
pub mod failure;
pub mod model;
pub mod page;
pub mod question;
pub mod session;
pub mod task;
pub mod todo;
pub mod tool;
pub mod transcript;
pub mod turn;
pub mod usage;
