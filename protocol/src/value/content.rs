//! What a user hands to a turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One part of a turn's input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, decoded and checked before it enters the conversation (PNG, JPEG, GIF or WebP, at most 3.75 MiB).
    Image {
        /// The bytes, base64.
        data: String,
        /// The MIME type; the bytes win where they disagree.
        mime_type: String,
    },
    /// The content of a resource the host has at hand, such as an unsaved buffer.
    Resource {
        /// Where it comes from, any URI.
        uri: String,
        /// Its text; over 256 KiB it is cut, and the cut is marked.
        text: String,
        /// Its MIME type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// A pointer to something the model may read by itself.
    ResourceLink {
        /// A URI; `file://` links become paths.
        uri: String,
        /// A short name for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

/// The input of a turn: a string, or a list of parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a string or an array of content parts")]
pub enum Input {
    /// Short for one text part.
    Text(String),
    /// Any number of parts, at least one.
    Parts(Vec<ContentPart>),
}

impl Input {
    /// The parts of the input, a plain string being one text part.
    pub fn into_parts(self) -> Vec<ContentPart> {
        match self {
            Self::Text(text) => vec![ContentPart::Text { text }],
            Self::Parts(parts) => parts,
        }
    }
}
