//! Cron jobs: prompts that start a turn at the wall-clock times an expression names.
//!
//! The lower half is pure: [`expr`] reads expressions, [`occur`] finds their instants in a time zone, [`timing`] adds
//! jitter and counts what came due. Nothing here reads the clock, a file or a variable: every instant is an argument.
//! Results are always later than the instant they were asked for, ascend, and never repeat, whatever the zone's clocks
//! do. Start reading at [`expr`].

pub mod calendar;
pub mod expr;
pub mod field;
pub mod human;
pub mod occur;
pub mod timing;
pub mod zone;

#[cfg(test)]
mod dst_tests;
#[cfg(test)]
mod expr_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod timing_tests;
