//! Cron jobs: prompts that begin a turn at the wall-clock times an expression names.
//!
//! The lower half is pure: [`expr`] reads expressions, [`occur`] finds their instants in a time zone, [`timing`] adds
//! jitter and counts what came due. Results are always later than the instant they were asked for, ascend, and never
//! repeat, whatever the zone's clocks do. [`ledger`] and [`jobs`] are the jobs of one session; they change only by what
//! that session's journal has. [`scheduler`] is the one sleeper of a server; it rings a session's bell and knows nothing
//! of jobs. Nothing here fires: that is the session's, which puts a [`fire`] into the record of the turn it begins.
//!
//! Only [`scheduler`] reads a clock, and only the one it was given; everything else takes instants as arguments. Start
//! reading at [`expr`] for times, at [`jobs`] for jobs.

pub mod calendar;
pub mod check;
pub mod expr;
pub mod field;
pub mod fire;
pub mod human;
pub mod index;
pub mod jobs;
pub mod ledger;
pub mod occur;
pub mod scheduler;
pub mod timetable;
pub mod timing;
pub mod zone;

#[cfg(test)]
mod dst_tests;
#[cfg(test)]
mod expr_tests;
#[cfg(test)]
mod jobs_tests;
#[cfg(test)]
mod ledger_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod scheduler_tests;
#[cfg(test)]
mod timing_tests;
