//! Prompts: from content blocks to the input of a turn.

use agent_client_protocol_schema::v1::{ContentBlock, EmbeddedResourceResource};
use longshore_protocol::error::RpcError;
use longshore_protocol::value::content::ContentPart;

use super::error;
use crate::media::admit::check;

/// What a prompt is.
#[derive(Debug, PartialEq)]
pub(super) enum Prompt {
    /// Input for the model.
    Input(Vec<ContentPart>),
    /// Nothing but a command, and there is none of this name.
    UnknownCommand(String),
}

/// Reads the blocks of a prompt. Of images, only the format is looked at here; the engine makes them fit.
///
/// # Errors
/// -32602 naming the block.
pub(super) fn read(blocks: Vec<ContentBlock>) -> Result<Prompt, RpcError> {
    if blocks.is_empty() {
        return Err(error::invalid(
            "/prompt",
            "The prompt is empty; send at least one block.",
        ));
    }
    if let [ContentBlock::Text(text)] = blocks.as_slice()
        && let Some(name) = command(&text.text)
    {
        return Ok(Prompt::UnknownCommand(name.to_owned()));
    }
    let parts = blocks
        .into_iter()
        .enumerate()
        .map(|(n, block)| part(n, block));
    parts.collect::<Result<_, _>>().map(Prompt::Input)
}

fn part(n: usize, block: ContentBlock) -> Result<ContentPart, RpcError> {
    let refused = |what: &str| {
        error::invalid(
            &format!("/prompt/{n}"),
            format!("Block {n} of the prompt is {what}, which this agent does not take."),
        )
    };
    Ok(match block {
        ContentBlock::Text(text) => ContentPart::Text { text: text.text },
        ContentBlock::Image(image) => {
            let kind = check(&image.data).map_err(|why| {
                error::invalid(
                    &format!("/prompt/{n}"),
                    format!("Block {n} of the prompt is an image that can't be shown: {why}."),
                )
            })?;
            ContentPart::Image {
                data: image.data,
                mime_type: kind.mime().to_owned(),
                original: None,
            }
        }
        ContentBlock::ResourceLink(link) => ContentPart::ResourceLink {
            uri: link.uri,
            name: Some(link.name),
        },
        ContentBlock::Resource(resource) => match resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => ContentPart::Resource {
                uri: text.uri,
                text: text.text,
                mime_type: text.mime_type,
            },
            EmbeddedResourceResource::BlobResourceContents(blob) => {
                let mime = blob.mime_type.unwrap_or_default();
                if mime.starts_with("image/")
                    && let Ok(kind) = check(&blob.blob)
                {
                    ContentPart::Image {
                        data: blob.blob,
                        mime_type: kind.mime().to_owned(),
                        original: None,
                    }
                } else {
                    let n_bytes = decoded_bytes(&blob.blob);
                    let name = if mime.is_empty() {
                        format!("{n_bytes} bytes")
                    } else {
                        format!("{mime}, {n_bytes} bytes")
                    };
                    ContentPart::ResourceLink {
                        uri: blob.uri,
                        name: Some(name),
                    }
                }
            }
            _ => return Err(refused("a resource of an unknown kind")),
        },
        ContentBlock::Audio(_) => return Err(refused("audio")),
        _ => return Err(refused("of an unknown type")),
    })
}

/// How many bytes a base64 text stands for.
fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// The name, where a text is nothing but a command: `/name`, and no path.
fn command(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix('/')?;
    let mut letters = name.chars();
    let is_name = letters
        .next()
        .is_some_and(|first| first.is_ascii_lowercase())
        && letters
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':' | '-'));
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn blocks(blocks: Value) -> Vec<ContentBlock> {
        serde_json::from_value(blocks).unwrap()
    }

    #[test]
    fn blocks_become_parts() {
        for (block, part) in [
            (
                json!({"type": "text", "text": "hi"}),
                json!({"type": "text", "text": "hi"}),
            ),
            (
                json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/jpg"}),
                json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}),
            ),
            (
                json!({"type": "resource_link", "uri": "file:///a", "name": "a"}),
                json!({"type": "resourceLink", "uri": "file:///a", "name": "a"}),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": "text/plain"}}),
                json!({"type": "resource", "uri": "file:///a", "text": "x", "mimeType": "text/plain"}),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "u", "blob": "R0lGODlh", "mimeType": "image/gif"}}),
                json!({"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "u", "blob": "aGVsbG8=", "mimeType": "image/gif"}}),
                json!({"type": "resourceLink", "uri": "u", "name": "image/gif, 5 bytes"}),
            ),
            (
                json!({"type": "resource", "resource": {"uri": "u", "blob": "aGVsbG8=", "mimeType": "application/pdf"}}),
                json!({"type": "resourceLink", "uri": "u", "name": "application/pdf, 5 bytes"}),
            ),
        ] {
            let Prompt::Input(input) = read(blocks(json!([block]))).unwrap() else {
                panic!("{block} is a command")
            };
            assert_eq!(serde_json::to_value(input).unwrap(), json!([part]));
        }
    }

    #[test]
    fn what_cannot_be_taken_is_named() {
        let text = json!({"type": "text", "text": "x"});
        let audio = json!({"type": "audio", "data": "", "mimeType": "audio/wav"});
        for (prompt, path) in [(json!([]), "/prompt"), (json!([text, audio]), "/prompt/1")] {
            let error = read(blocks(prompt)).unwrap_err();
            assert_eq!(
                (error.code, error.data.extra["path"].as_str()),
                (-32602, Some(path))
            );
        }
    }

    #[test]
    fn only_a_bare_name_is_a_command() {
        for (text, name) in [
            ("/no-such-cmd", Some("no-such-cmd")),
            (" /mcp:x_1\n", Some("mcp:x_1")),
            ("/etc/hosts", None),
            ("/etc/hosts is a file", None),
            ("/help me", None),
            ("/", None),
            ("/1", None),
            ("help", None),
        ] {
            assert_eq!(command(text), name, "{text}");
        }
        let more = blocks(json!([{"type": "text", "text": "/x"}, {"type": "text", "text": "y"}]));
        assert!(matches!(read(more), Ok(Prompt::Input(_))));
    }
}
