//! Text files as the client holds them: its requests, and how its errors are read.

use agent_client_protocol_schema::v1::{ReadTextFileRequest, WriteTextFileRequest};
use longshore_protocol::id::SessionId;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::kernel::host_fs::HostFsError;
use crate::rpc::{PeerHandle, RequestFailure};

const READ: &str = "fs/read_text_file";
const WRITE: &str = "fs/write_text_file";

const METHOD_NOT_FOUND: i64 = -32601;
/// The one error that says that there is no such file; any other leaves that open.
const NOT_FOUND: i64 = -32002;

/// The text of an answer. Members that clients add, or spell in their own way, do not matter.
#[derive(Deserialize)]
struct Content {
    content: String,
}

/// Reads a file whole: clients differ in what they make of a part.
pub(super) async fn read(
    peer: PeerHandle,
    session: SessionId,
    path: String,
) -> Result<String, HostFsError> {
    let request = ReadTextFileRequest::new(session.as_str().to_owned(), path);
    let answer = peer.request(READ, &request).await.map_err(error)?;
    content(&answer)
}

/// Writes a file whole.
pub(super) async fn write(
    peer: PeerHandle,
    session: SessionId,
    path: String,
    text: String,
) -> Result<(), HostFsError> {
    let request = WriteTextFileRequest::new(session.as_str().to_owned(), path, text);
    // What the answer holds is of no interest: clients send `{}`, `null` and more.
    let answer = peer.request(WRITE, &request).await;
    answer.map(drop).map_err(error)
}

fn content(answer: &RawValue) -> Result<String, HostFsError> {
    match serde_json::from_str::<Content>(answer.get()) {
        Ok(Content { content }) => Ok(content),
        Err(_) => Err(HostFsError::Failed("its answer holds no text".to_owned())),
    }
}

fn error(failure: RequestFailure) -> HostFsError {
    match failure {
        RequestFailure::Closed => HostFsError::Left,
        RequestFailure::Refused(error) => match error.code {
            METHOD_NOT_FOUND => HostFsError::Unsupported,
            NOT_FOUND => HostFsError::NotFound,
            _ => HostFsError::said(&error.message),
        },
        other @ (RequestFailure::Unwritable(_) | RequestFailure::Unreadable(_)) => {
            HostFsError::Failed(other.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rpc::RemoteError;

    #[test]
    fn texts() {
        let read = |answer: Value| {
            content(&serde_json::value::to_raw_value(&answer).unwrap()).map_err(|_| ())
        };
        assert_eq!(read(json!({"content": "a\r\n"})), Ok("a\r\n".to_owned()));
        assert_eq!(
            read(json!({"content": "", "_meta": 5, "more": {}})),
            Ok(String::new())
        );
        for odd in [
            json!({}),
            json!(null),
            json!("text"),
            json!({"content": null}),
        ] {
            assert_eq!(read(odd), Err(()));
        }
    }

    #[test]
    fn errors() {
        let refused = |code, message: &str| {
            error(RequestFailure::Refused(RemoteError {
                code,
                message: message.to_owned(),
                data: Value::Null,
            }))
        };
        assert_eq!(refused(-32601, ""), HostFsError::Unsupported);
        assert_eq!(refused(-32002, "gone"), HostFsError::NotFound);
        assert_eq!(
            refused(-32603, "ENOENT: no such file."),
            HostFsError::Failed("it says: ENOENT: no such file".to_owned())
        );
        assert_eq!(
            refused(0, " "),
            HostFsError::Failed("it refused without a reason".to_owned())
        );
        assert_eq!(error(RequestFailure::Closed), HostFsError::Left);
    }
}
