use std::path::PathBuf;

use longshore_protocol::error::ErrorKind;

/// Why a path is refused. The text is for the model: what is wrong and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Not a path at all.
    #[error("{reason}")]
    Invalid {
        /// A full sentence.
        reason: String,
    },
    /// A protected file.
    #[error(
        "{} is a protected file (credentials, keys or environment secrets); file tools don't open it. Ask the user for \
         what you need from it.",
        path.display()
    )]
    Sensitive {
        /// As it was written, absolute.
        path: PathBuf,
    },
    /// A relative path that leads out.
    #[error(
        "{written} leads out of the workspace to {}. Use the absolute path if you mean that file.",
        path.display()
    )]
    Outside {
        /// As the model wrote it.
        written: String,
        /// Where it leads.
        path: PathBuf,
    },
    /// A link that leads to nothing.
    #[error(
        "{} goes through a link to {}, which does not exist. Name the target itself if you mean to make it.",
        path.display(), target.display()
    )]
    Dangling {
        /// As it was written, absolute.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Links that lead in a circle.
    #[error("{} goes through links that lead in a circle.", path.display())]
    Loop {
        /// As it was written, absolute.
        path: PathBuf,
    },
}

impl PathError {
    /// The kind of the error table.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Sensitive { .. } => ErrorKind::PathSensitive,
            Self::Outside { .. } => ErrorKind::PathOutsideWorkspace,
            Self::Invalid { .. } | Self::Dangling { .. } | Self::Loop { .. } => {
                ErrorKind::PathInvalid
            }
        }
    }
}
