//! The model's hands on tasks in the background: list them, read their output, end them, wait for them.
//!
//! All four look through [`Tasks`] with the eyes of their own agent: tasks of others do not exist for it. What they say is
//! `key: value` lines ([`lines`]), with output as text between character boundaries ([`window`]). A tool that tells the
//! model of a task's end says so by [`Effect::Told`](super::Effect::Told), so that no notice repeats it.
//!
//! [`Tasks`]: crate::background::Tasks

pub mod lines;
pub mod list;
pub mod output;
pub mod stop;
pub mod wait;
pub mod window;

#[cfg(test)]
mod testing;
