//! Text files as the host holds them: its answers, and how its errors are read.

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;
use longshore_protocol::reverse::Reverse;
use longshore_protocol::reverse::fs::{
    ReadTextFileParams, ReadTextFileResult, WriteTextFileParams, WriteTextFileResult,
};

use crate::kernel::host_fs::HostFsError;
use crate::rpc::{PeerHandle, RequestFailure};

const METHOD_NOT_FOUND: i64 = -32601;

/// Reads a file whole.
pub(super) async fn read(
    peer: PeerHandle,
    session_id: SessionId,
    path: String,
) -> Result<String, HostFsError> {
    let params = ReadTextFileParams { session_id, path };
    let answer: ReadTextFileResult = peer
        .request_as(Reverse::FsReadTextFile.name(), &params)
        .await
        .map_err(error)?;
    Ok(answer.content)
}

/// Writes a file whole.
pub(super) async fn write(
    peer: PeerHandle,
    session_id: SessionId,
    path: String,
    content: String,
) -> Result<(), HostFsError> {
    let params = WriteTextFileParams {
        session_id,
        path,
        content,
    };
    let _done: WriteTextFileResult = peer
        .request_as(Reverse::FsWriteTextFile.name(), &params)
        .await
        .map_err(error)?;
    Ok(())
}

fn error(failure: RequestFailure) -> HostFsError {
    match failure {
        RequestFailure::Closed => HostFsError::Left,
        RequestFailure::Refused(error) if error.code == METHOD_NOT_FOUND => {
            HostFsError::Unsupported
        }
        RequestFailure::Refused(error) if error.kind() == Some(ErrorKind::FileNotFound) => {
            HostFsError::NotFound
        }
        RequestFailure::Refused(error) => HostFsError::said(&error.message),
        RequestFailure::Unreadable(_) => {
            HostFsError::Failed("its answer has not the form it should have".to_owned())
        }
        other @ RequestFailure::Unwritable(_) => HostFsError::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rpc::RemoteError;

    #[test]
    fn errors() {
        let refused = |code, data: Value| {
            error(RequestFailure::Refused(RemoteError {
                code,
                message: "No.".to_owned(),
                data,
            }))
        };
        assert_eq!(refused(-32601, Value::Null), HostFsError::Unsupported);
        assert_eq!(
            refused(-32010, json!({"kind": "file_not_found"})),
            HostFsError::NotFound
        );
        let said = HostFsError::Failed("it says: No".to_owned());
        assert_eq!(refused(-32010, json!({"kind": "task_not_found"})), said);
        assert_eq!(
            refused(-32002, Value::Null),
            said,
            "that is another wire's word"
        );
        assert_eq!(error(RequestFailure::Closed), HostFsError::Left);
    }
}
