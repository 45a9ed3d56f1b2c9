//! Reads params: required members strictly, the rest as leniently as the protocol's schema says.
//!
//! The types of the schema crate drop malformed optional members and malformed items by themselves. Here is what they
//! don't do: absent params, members that some clients leave out, and errors that say where.

use longshore_protocol::error::RpcError;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::error;

/// The members of params; absent params have none.
pub(super) fn members(params: Option<&RawValue>) -> Result<Map<String, Value>, RpcError> {
    let Some(params) = params else {
        return Ok(Map::new());
    };
    match serde_json::from_str(params.get()) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(error::invalid("", "The params must be an object.")),
        Err(reason) => Err(error::invalid(
            "",
            format!("The params could not be read: {reason}."),
        )),
    }
}

/// Params as a type.
///
/// # Errors
/// -32602 with the pointer of what is wrong.
pub(super) fn read<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T, RpcError> {
    serde_path_to_error::deserialize(Value::Object(members)).map_err(|wrong| {
        let path = pointer(wrong.path());
        let message = format!(
            "The params are wrong at {}: {}.",
            if path.is_empty() { "the top" } else { &path },
            wrong.inner()
        );
        error::invalid(&path, message)
    })
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        })
        .collect()
}

/// What the params of new, load and resume say about MCP servers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct McpServers {
    /// Their names.
    pub(super) names: Vec<String>,
}

/// Takes `mcpServers` out of params, leaving an empty list for the types to read.
///
/// # Errors
/// -32602 naming a server of a type that no client may send.
pub(super) fn take_mcp_servers(members: &mut Map<String, Value>) -> Result<McpServers, RpcError> {
    let servers = members.insert("mcpServers".to_owned(), Value::Array(Vec::new()));
    let servers = match servers {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(servers)) => servers,
        Some(_) => return Err(error::invalid("/mcpServers", "mcpServers must be a list.")),
    };
    let mut names = Vec::with_capacity(servers.len());
    for (n, server) in servers.iter().enumerate() {
        let path = format!("/mcpServers/{n}");
        let Some(name) = server.get("name").and_then(Value::as_str) else {
            return Err(error::invalid(
                &path,
                format!("MCP server {n} has no name."),
            ));
        };
        let member = match server.get("type").map(|of| of.as_str().unwrap_or_default()) {
            None | Some("stdio") => "command",
            Some("http" | "sse") => "url",
            Some(other) => {
                let message = format!(
                    "MCP server {name} has the type {other:?}, which this agent does not take."
                );
                return Err(error::invalid(&format!("{path}/type"), message));
            }
        };
        if server.get(member).and_then(Value::as_str).is_none() {
            return Err(error::invalid(
                &format!("{path}/{member}"),
                format!("MCP server {name} has no {member}."),
            ));
        }
        names.push(name.to_owned());
    }
    Ok(McpServers { names })
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::PromptRequest;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn absent_params_are_empty_ones_and_lists_are_refused() {
        assert_eq!(members(None), Ok(Map::new()));
        let list = RawValue::from_string("[1]".to_owned()).unwrap();
        assert_eq!(members(Some(&list)).unwrap_err().code, -32602);
    }

    #[test]
    fn an_error_says_where() {
        for (params, path) in [
            (json!({"prompt": []}), ""),
            (json!({"sessionId": "s", "prompt": "hi"}), "/prompt"),
            (
                json!({"sessionId": "s", "prompt": [{"type": "text"}]}),
                "/prompt/0",
            ),
            (
                json!({"sessionId": "s", "prompt": [{"type": "text", "text": "a"}, {"type": "smell"}]}),
                "/prompt/1/type",
            ),
        ] {
            let error = read::<PromptRequest>(object(params.clone())).unwrap_err();
            assert_eq!(
                (error.code, error.data.extra["path"].as_str()),
                (-32602, Some(path)),
                "{params}"
            );
        }
        let lenient = json!({"sessionId": "s", "prompt": [], "_meta": null, "extra": 1});
        assert!(read::<PromptRequest>(object(lenient)).is_ok());
    }

    #[test]
    fn servers_are_named_or_refused_by_name() {
        let check = |servers: Value| {
            let mut members = object(json!({"mcpServers": servers}));
            let taken = take_mcp_servers(&mut members);
            assert_eq!(members["mcpServers"], json!([]));
            taken
                .map(|servers| servers.names)
                .map_err(|error| error.message)
        };
        assert_eq!(check(json!(null)), Ok(vec![]));
        assert_eq!(
            check(json!([
                {"name": "a", "command": "x", "args": [], "env": []},
                {"type": "stdio", "name": "b", "command": "x"},
                {"type": "http", "name": "c", "url": "https://x", "headers": []},
            ])),
            Ok(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()])
        );
        assert!(
            check(json!([{"type": "acp", "name": "d", "id": "1"}]))
                .unwrap_err()
                .contains('d')
        );
        assert!(
            check(json!([{"type": 7, "name": "e"}]))
                .unwrap_err()
                .contains('e')
        );
        assert!(
            check(json!([{"name": "f"}]))
                .unwrap_err()
                .contains("no command")
        );
        assert!(check(json!([{}])).is_err());
        assert_eq!(take_mcp_servers(&mut Map::new()), Ok(McpServers::default()));
    }
}
