//! Text files as a host holds them: what a host offers, and why it did not do what it was asked.

use longshore_protocol::id::HostId;

/// Characters of a host's own words that are repeated.
const SAID_CHARS: usize = 300;

/// What a host does with text files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsAbilities {
    /// It gives the text of a file, unsaved changes included.
    pub read: bool,
    /// It takes a new text for a file.
    pub write: bool,
}

impl FsAbilities {
    /// True where it does anything at all.
    pub fn any(self) -> bool {
        self.read || self.write
    }
}

/// A host whose view of files counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsHost {
    /// The host.
    pub id: HostId,
    /// What it offers.
    pub offers: FsAbilities,
}

/// Why a host did not do what it was asked to do with a file. The words are for the model: lower case, no full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFsError {
    /// For the host there is no such file.
    #[error("there is no such file")]
    NotFound,
    /// It does not know the request after all; it is not asked again.
    #[error("it does not do that after all")]
    Unsupported,
    /// No answer came in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// Its connection ended before it answered.
    #[error("its connection ended")]
    Left,
    /// It answered with an error, or with something else than was asked for.
    #[error("{0}")]
    Failed(String),
}

impl HostFsError {
    /// It answered with an error of its own words, which are not ours to trust with much room.
    pub fn said(message: &str) -> Self {
        let message = message.trim().trim_end_matches('.');
        if message.is_empty() {
            return Self::Failed("it refused without a reason".to_owned());
        }
        let short: String = message.chars().take(SAID_CHARS).collect();
        Self::Failed(format!("it says: {short}"))
    }
}
