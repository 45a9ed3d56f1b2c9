//! What a client said about itself in `initialize`.

use agent_client_protocol_schema::v1::{ClientCapabilities, InitializeRequest};

use crate::kernel::host_fs::FsAbilities;

/// What the client can do, as far as this agent makes use of it. The default is a client that can do nothing extra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Caps {
    /// It shows notices.
    pub(super) notices: bool,
    /// It fills in forms.
    pub(super) forms: bool,
    /// What it does with text files.
    pub(super) fs: FsAbilities,
}

/// A client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// What it calls itself.
    pub(super) name: String,
    /// What it can do.
    pub(super) caps: Caps,
}

impl Client {
    /// The client that sent this.
    pub(super) fn new(request: &InitializeRequest) -> Self {
        let info = request.client_info.as_ref();
        Self {
            name: info.map_or_else(
                || "ACP client".to_owned(),
                |info| format!("{} {}", info.name, info.version),
            ),
            caps: Caps::new(&request.client_capabilities),
        }
    }
}

impl Caps {
    fn new(said: &ClientCapabilities) -> Self {
        Self {
            notices: said
                .session
                .as_ref()
                .is_some_and(|session| session.notices.is_some()),
            forms: said
                .elicitation
                .as_ref()
                .is_some_and(|elicitation| elicitation.form.is_some()),
            fs: FsAbilities {
                read: said.fs.read_text_file,
                write: said.fs.write_text_file,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_is_support_and_anything_else_is_none() {
        let caps = |said: Value| {
            let request = json!({"protocolVersion": 1, "clientCapabilities": said});
            Client::new(&serde_json::from_value(request).unwrap()).caps
        };
        let (none, notices, forms) = (
            Caps::default(),
            Caps {
                notices: true,
                ..Caps::default()
            },
            Caps {
                forms: true,
                ..Caps::default()
            },
        );
        assert_eq!(caps(json!({})), none);
        assert_eq!(caps(json!({"session": {"notices": {}}})), notices);
        assert_eq!(caps(json!({"session": {"notices": null}})), none);
        assert_eq!(
            caps(json!({"elicitation": {}})),
            none,
            "it advertises nothing"
        );
        assert_eq!(
            caps(json!({"elicitation": {"form": null, "url": {}}})),
            none
        );
        assert_eq!(caps(json!({"elicitation": {"form": {}}})), forms);
        for (said, read, write) in [
            (
                json!({"readTextFile": true, "writeTextFile": true}),
                true,
                true,
            ),
            (
                json!({"readTextFile": true, "writeTextFile": null}),
                true,
                false,
            ),
            (json!({"writeTextFile": true}), false, true),
            (
                json!({"readTextFile": {}, "writeTextFile": "yes"}),
                false,
                false,
            ),
            (json!(null), false, false),
        ] {
            let fs = FsAbilities { read, write };
            assert_eq!(caps(json!({"fs": said})), Caps { fs, ..none });
        }
    }
}
