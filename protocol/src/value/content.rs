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
    /// An image: PNG, JPEG, GIF or WebP. In an input it is looked at before it enters the conversation: a large one is
    /// scaled down, and a text part takes the place of one that can't be shown.
    Image {
        /// The bytes, base64.
        data: String,
        /// The MIME type; in an input the bytes win where they disagree.
        mime_type: String,
        /// What was sent, where this is a scaled-down version of it. Set by the server; ignored in an input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        original: Option<Box<ImageOriginal>>,
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

/// An image as it was sent, and how large the version is that stands in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOriginal {
    /// Its MIME type, by its bytes.
    pub mime_type: String,
    /// Its width as displayed, in pixels.
    pub width: u32,
    /// Its height as displayed, in pixels.
    pub height: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// The width of the version shown to the model, in pixels.
    pub shown_width: u32,
    /// The height of the version shown to the model, in pixels.
    pub shown_height: u32,
    /// Absolute path of a file that holds it, in the session's directory; the oldest of them go when they take more than
    /// 1 GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
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
