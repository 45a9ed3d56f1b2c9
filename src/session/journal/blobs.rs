//! Large values of a line: kept once in `blobs/`, by hash.
//!
//! In a line, such a string stands as `{"$blob": "<sha256>"}`. An object that has a member of that name by itself
//! stands as `{"$literal": "<its JSON>"}`, so nothing a model writes can be taken for a reference.

use serde_json::{Map, Value, json};

use crate::kernel::limits::JOURNAL_INLINE_BYTES;
use crate::os::fs::FsError;
use crate::store::blob::{BlobError, BlobStore};

const BLOB: &str = "$blob";
const LITERAL: &str = "$literal";

/// What stands in the place of a text whose blob is gone.
const LOST: &str = "[The text at this place was lost by damage to the session's files.]";

/// True where a line has to go through [`pack`].
pub(super) fn needs_packing(line: &[u8]) -> bool {
    line.len() > JOURNAL_INLINE_BYTES || is_packed(line)
}

/// True where a line has to go through [`unpack`].
pub(super) fn is_packed(line: &[u8]) -> bool {
    memchr::memmem::find_iter(line, b"\"$").any(|at| {
        let name = line.get(at + 1..).unwrap_or_default();
        [BLOB, LITERAL]
            .iter()
            .any(|known| name.starts_with(known.as_bytes()) && name.get(known.len()) == Some(&b'"'))
    })
}

/// Moves large strings out of a line.
pub(super) fn pack(value: Value, blobs: &BlobStore) -> Result<Value, FsError> {
    Ok(match value {
        Value::String(text) => pack_text(text, blobs)?,
        Value::Object(members) if members.contains_key(BLOB) || members.contains_key(LITERAL) => {
            let text = Value::Object(members).to_string();
            json!({ LITERAL: pack_text(text, blobs)? })
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| Ok((name, pack(value, blobs)?)))
            .collect::<Result<Map<_, _>, FsError>>()?
            .into(),
        Value::Array(items) => items
            .into_iter()
            .map(|item| pack(item, blobs))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        other => other,
    })
}

fn pack_text(text: String, blobs: &BlobStore) -> Result<Value, FsError> {
    if text.len() <= JOURNAL_INLINE_BYTES {
        return Ok(Value::String(text));
    }
    let id = blobs.put(text.as_bytes()).map_err(|error| match error {
        BlobError::Fs(error) => error,
        other => FsError::new("write", blobs.dir(), std::io::Error::other(other)),
    })?;
    Ok(json!({ BLOB: id.as_str() }))
}

/// Puts large strings back. What a missing or damaged blob held is told in `lost`, and something that says so, or at
/// least spoils no request, stands in its place.
///
/// # Errors
/// One sentence: the line is none that [`pack`] made, or can't be read without the blob.
pub(super) fn unpack(
    line: Value,
    blobs: &BlobStore,
    lost: &mut Vec<String>,
) -> Result<Value, String> {
    Unpack { blobs, lost }.value(line)
}

struct Unpack<'a> {
    blobs: &'a BlobStore,
    lost: &'a mut Vec<String>,
}

impl Unpack<'_> {
    fn value(&mut self, value: Value) -> Result<Value, String> {
        Ok(match value {
            Value::Object(mut members) if members.len() == 1 && members.contains_key(LITERAL) => {
                let text = match members.remove(LITERAL) {
                    Some(Value::Object(reference)) => self.blob(&reference)?,
                    Some(Value::String(text)) => text,
                    _ => return Err("a literal is not text".to_owned()),
                };
                serde_json::from_str(&text)
                    .map_err(|error| format!("a literal could not be read: {error}"))?
            }
            Value::Object(members) if is_reference(&members) => match self.blob(&members) {
                Ok(text) => text.into(),
                Err(reason) => {
                    self.lost.push(reason);
                    LOST.into()
                }
            },
            Value::Object(members) => self.members(members)?.into(),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.value(item))
                .collect::<Result<Vec<_>, _>>()?
                .into(),
            other => other,
        })
    }

    fn members(&mut self, members: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let is_image = members.get("type").and_then(Value::as_str) == Some("image");
        let mut put_back = Map::with_capacity(members.len());
        for (name, value) in members {
            let reference = match &value {
                Value::Object(inner) if is_reference(inner) => inner,
                _ => {
                    put_back.insert(name, self.value(value)?);
                    continue;
                }
            };
            match self.blob(reference) {
                Ok(text) => {
                    put_back.insert(name, Value::String(text));
                }
                Err(reason) if is_image => {
                    self.lost.push(reason);
                    // Bytes that are none would make every request with them invalid.
                    return Ok(Map::from_iter([
                        ("type".to_owned(), "text".into()),
                        ("text".to_owned(), LOST.into()),
                    ]));
                }
                Err(reason) => {
                    self.lost.push(reason);
                    match name.as_str() {
                        // A provider checks the one, and nobody could play the other.
                        "signature" | "script" => {}
                        // What a model wrote as a call's arguments goes back to it, and must be JSON.
                        "arguments" => {
                            put_back.insert(name, "{}".into());
                        }
                        _ => {
                            put_back.insert(name, LOST.into());
                        }
                    }
                }
            }
        }
        Ok(put_back)
    }

    fn blob(&self, reference: &Map<String, Value>) -> Result<String, String> {
        let id = reference
            .get(BLOB)
            .and_then(Value::as_str)
            .ok_or("a blob has no name")?;
        let id = id.parse().map_err(|error| format!("{error}"))?;
        let bytes = self.blobs.get(&id).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| format!("blob {id} is not text"))
    }
}

fn is_reference(members: &Map<String, Value>) -> bool {
    members.len() == 1 && members.contains_key(BLOB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_move_out_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(dir.path().join("blobs"));
        let large = "x".repeat(JOURNAL_INLINE_BYTES + 1);
        for value in [
            json!({"a": large, "b": [large, 1, null]}),
            json!({"input": {"$blob": "forged"}}),
            json!({"input": {"$literal": "forged", "other": large}}),
            json!({"$blob": {"$blob": large}}),
        ] {
            let packed = pack(value.clone(), &blobs).unwrap();
            assert!(packed.to_string().len() < 1000, "{packed}");
            assert!(is_packed(packed.to_string().as_bytes()));
            let mut lost = Vec::new();
            assert_eq!(unpack(packed, &blobs, &mut lost).unwrap(), value);
            assert!(lost.is_empty());
        }
    }

    #[test]
    fn a_missing_or_damaged_blob_is_said_and_spoils_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(dir.path());
        let gone = json!({"$blob": "0".repeat(64)});
        let packed = json!({
            "type": "tool_started", "arguments": gone, "signature": gone, "a": "b",
            "output": [{"type": "text", "text": gone}, {"type": "image", "mime": "image/png", "data": gone}],
        });
        let mut lost = Vec::new();
        let text = json!({"type": "text", "text": LOST});
        assert_eq!(
            unpack(packed, &blobs, &mut lost).unwrap(),
            json!({"type": "tool_started", "arguments": "{}", "a": "b", "output": [text, text]}),
        );
        assert_eq!(lost.len(), 4);
        assert!(lost[0].contains("no blob 0000"), "{lost:?}");
        let literal = json!({"value": {"$literal": gone}});
        assert!(
            unpack(literal, &blobs, &mut lost)
                .unwrap_err()
                .contains("0000")
        );
        let foreign = json!({"a": {"$blob": "../x"}});
        unpack(foreign, &blobs, &mut lost).unwrap();
        assert!(lost[4].contains("not a blob name"), "{lost:?}");
    }
}
