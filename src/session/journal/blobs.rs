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

/// True where a line has to go through [`pack`].
pub(super) fn needs_packing(line: &[u8]) -> bool {
    line.len() > JOURNAL_INLINE_BYTES || is_packed(line)
}

/// True where a line has to go through [`unpack`].
pub(super) fn is_packed(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"\"$blob\"").is_some()
        || memchr::memmem::find(line, b"\"$literal\"").is_some()
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

/// Puts large strings back.
///
/// # Errors
/// One sentence: a blob is missing or damaged.
pub(super) fn unpack(value: Value, blobs: &BlobStore) -> Result<Value, String> {
    Ok(match value {
        Value::Object(mut members) if members.len() == 1 && members.contains_key(LITERAL) => {
            let text = members
                .remove(LITERAL)
                .map(|text| unpack(text, blobs))
                .transpose()?;
            let text = text
                .as_ref()
                .and_then(Value::as_str)
                .ok_or("a literal is not text")?;
            serde_json::from_str(text)
                .map_err(|error| format!("a literal could not be read: {error}"))?
        }
        Value::Object(members) if members.len() == 1 && members.contains_key(BLOB) => {
            let id = members
                .get(BLOB)
                .and_then(Value::as_str)
                .ok_or("a blob has no name")?;
            let id = id.parse().map_err(|error| format!("{error}"))?;
            let bytes = blobs.get(&id).map_err(|error| error.to_string())?;
            Value::String(String::from_utf8(bytes).map_err(|_| format!("blob {id} is not text"))?)
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| Ok((name, unpack(value, blobs)?)))
            .collect::<Result<Map<_, _>, String>>()?
            .into(),
        Value::Array(items) => items
            .into_iter()
            .map(|item| unpack(item, blobs))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        other => other,
    })
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
            assert_eq!(unpack(packed, &blobs).unwrap(), value);
        }
    }

    #[test]
    fn a_missing_blob_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(dir.path());
        let packed = json!({"a": {"$blob": "0".repeat(64)}});
        assert!(unpack(packed, &blobs).unwrap_err().contains("0000"));
    }
}
