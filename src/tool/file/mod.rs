//! File tools: read, write, edit and search, on the disk of this machine.
//!
//! Each tool has a file of its own beside the text the model reads about it. They share how text is seen ([`text`]),
//! what an agent has seen ([`Freshness`]), who may write right now ([`FileLocks`]), what a host holds that is not on the
//! disk ([`buffer`]) and how a change is drawn ([`diff`]).
//!
//! Invariants: nothing is written that the cancel came before; a file is opened by the real path that was judged, without
//! following a link, and changed in the directory it was read from ([`commit`]); files are changed whole or not at all;
//! protected files are never opened. Work on the disk runs on blocking threads, a job at a time. Start with [`edit`].

mod buffer;
mod commit;
mod convert_hint;
mod diagnose;
mod diff;
pub mod edit;
mod freshness;
pub mod glob;
pub mod grep;
mod locks;
pub mod media;
pub mod mention;
pub mod read;
mod search;
mod splice;
mod target;
mod text;
mod window;
pub mod write;

pub use freshness::Freshness;
pub use locks::FileLocks;
pub use search::SearchPool;

use std::sync::Arc;

use crate::config::values::{Freshness as MustBeFresh, ImageConfig};
use crate::media::pool::ImagePool;
use crate::os::fs::{Durability, TempLog};
use crate::path::PathError;
use crate::tool::Refusal;

/// What file tools are built with.
#[derive(Debug, Clone)]
pub struct FileDeps {
    /// What this agent has seen; one per agent, empty after a resume.
    pub freshness: Arc<Freshness>,
    /// What must have been read before it is changed.
    pub must_be_fresh: MustBeFresh,
    /// One for the whole process, so that sessions and agents never write one file at the same time.
    pub locks: Arc<FileLocks>,
    /// One for the whole process: all searches share its threads.
    pub search: Arc<SearchPool>,
    /// When a change counts as done.
    pub durability: Durability,
    /// Keeps account of temporary files for the next start, where anybody does.
    pub temps: Option<Arc<dyn TempLog>>,
    /// The model takes images.
    pub image_input: bool,
    /// The model takes video; no connection to one carries any yet.
    pub video_input: bool,
    /// One for the process: all images are decoded in it.
    pub images: ImagePool,
    /// How large images may be.
    pub image: ImageConfig,
}

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        Self {
            kind: Some(error.kind()),
            message: error.to_string(),
        }
    }
}

#[cfg(test)]
mod testing;
