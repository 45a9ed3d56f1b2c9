//! The import table: a module may use those of the layers below its own, and nothing beside it.

use crate::imports::imports;
use crate::sources::{self, Source};

/// One row: a module and what it may use.
struct Row {
    module: &'static str,
    may_use: Use,
    /// Modules of the protocol crate.
    protocol: &'static [&'static str],
}

const LEAF: &[&str] = &["id", "value", "error"];
const ALL_OF_PROTOCOL: &[&str] = &[
    "id",
    "value",
    "error",
    "envelope",
    "method",
    "event",
    "reverse",
    "schema",
    "PROTOCOL_VERSION",
];

/// The modules of the server, by layer.
const LAYERS: [&[&str]; 8] = [
    &["kernel", "os", "rpc"],
    &["store", "path", "text", "schema", "media", "http", "config"],
    &[
        "permission",
        "provider",
        "mcp",
        "skill",
        "plugin",
        "background",
        "cron",
        "hook",
    ],
    &["tool"],
    &["agent"],
    &["session", "hub"],
    &["face"],
    &["app", "cli"],
];

/// What a module may use of the server.
enum Use {
    /// These modules.
    Only(&'static [&'static str]),
    /// All modules of so many layers, from the first.
    Layers(usize),
}

const TABLE: &[Row] = &[
    Row {
        module: "kernel",
        may_use: Use::Only(&[]),
        protocol: LEAF,
    },
    Row {
        module: "os",
        may_use: Use::Only(&["kernel"]),
        protocol: LEAF,
    },
    Row {
        module: "rpc",
        may_use: Use::Only(&[]),
        protocol: &["id", "value", "error", "envelope"],
    },
    Row {
        module: "store",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "path",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "text",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "schema",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "media",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "http",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "config",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "permission",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "provider",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "mcp",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "skill",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "plugin",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "background",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "cron",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "hook",
        may_use: Use::Layers(2),
        protocol: LEAF,
    },
    Row {
        module: "tool",
        may_use: Use::Layers(3),
        protocol: LEAF,
    },
    Row {
        module: "agent",
        may_use: Use::Layers(4),
        protocol: LEAF,
    },
    Row {
        module: "session",
        may_use: Use::Layers(5),
        protocol: LEAF,
    },
    Row {
        module: "hub",
        may_use: Use::Layers(1),
        protocol: LEAF,
    },
    Row {
        module: "face::native",
        may_use: Use::Layers(6),
        protocol: ALL_OF_PROTOCOL,
    },
    Row {
        module: "face::acp",
        may_use: Use::Layers(6),
        protocol: LEAF,
    },
    Row {
        module: "face",
        may_use: Use::Layers(6),
        protocol: LEAF,
    },
    Row {
        module: "cli",
        may_use: Use::Layers(8),
        protocol: ALL_OF_PROTOCOL,
    },
    Row {
        module: "app",
        may_use: Use::Layers(8),
        protocol: ALL_OF_PROTOCOL,
    },
];

/// The row of a module: the longest that its path begins with.
fn row(path: &[String]) -> Option<&'static Row> {
    TABLE.iter().find(|row| is_within(path, row.module))
}

fn is_within(path: &[String], module: &str) -> bool {
    let mut parts = path.iter();
    module
        .split("::")
        .all(|wanted| parts.next().is_some_and(|part| part == wanted))
}

fn complaints(source: &Source) -> Vec<String> {
    if source.module.is_empty() {
        return Vec::new();
    }
    let Some(row) = row(&source.module) else {
        return vec![format!(
            "{}: its module is not in the import table",
            source.path
        )];
    };
    let family =
        (source.module[0] == "tool" && source.module.len() > 1).then(|| source.module[1].as_str());
    let is_family = |name: &str| sources::root().join("src/tool").join(name).is_dir();
    imports(source)
        .iter()
        .filter_map(|import| {
            let path = &import.path[1..];
            let target = path.first()?;
            let allowed = match import.path[0].as_str() {
                "longshore_protocol" => row.protocol.contains(&target.as_str()),
                "longshore" => false,
                _ if is_within(path, row.module) => {
                    // One family of tools does not know another.
                    let other = path.get(1).map(String::as_str).filter(|_| target == "tool");
                    match (
                        family.filter(|name| is_family(name)),
                        other.filter(|name| is_family(name)),
                    ) {
                        (Some(family), Some(other)) => family == other,
                        _ => true,
                    }
                }
                // The folder of all faces holds what they share; that is no face of its own.
                _ if row.module.starts_with("face::") && target == "face" => {
                    !TABLE.iter().any(|other| {
                        other.module.starts_with("face::") && is_within(path, other.module)
                    })
                }
                _ => match row.may_use {
                    Use::Only(modules) => modules.contains(&target.as_str()),
                    Use::Layers(count) => LAYERS[..count]
                        .iter()
                        .any(|layer| layer.contains(&target.as_str())),
                },
            };
            (!allowed).then(|| {
                format!(
                    "{}:{}: `{}` may not use `{}`",
                    source.path,
                    import.line,
                    row.module,
                    import.path.join("::")
                )
            })
        })
        .collect()
}

#[test]
fn modules_use_only_what_their_layer_may() {
    let complaints: Vec<String> = sources::server().iter().flat_map(complaints).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn what_the_table_forbids_is_found() {
    let check = |module: &str, code: &str| {
        let module = module.split("::").map(str::to_owned).collect();
        let source = Source {
            path: "x".to_owned(),
            module,
            text: String::new(),
            code: code.to_owned(),
        };
        complaints(&source).len()
    };
    for (module, code, expected) in [
        ("kernel::event", "use crate::kernel::fault::Fault;", 0),
        ("kernel::event", "use crate::os::fs;", 1),
        (
            "kernel::event",
            "use longshore_protocol::{id::A, event::B};",
            1,
        ),
        ("rpc::peer", "use crate::kernel::limits;", 1),
        ("store::blob", "use crate::text::yaml;", 1),
        ("provider::chat", "use crate::permission::Rule;", 1),
        ("tool::file::read", "use crate::tool::shell::Bash;", 1),
        ("tool::file::read", "use super::super::shell::Bash;", 1),
        ("tool::file::read", "use crate::tool::output::Capped;", 0),
        ("tool::catalog", "use super::shell::Bash;", 0),
        ("tool::file", "use crate::agent::turn;", 1),
        ("hub::host", "use crate::session::Command;", 1),
        (
            "session::actor",
            "use crate::hub::Hub; use crate::agent::turn;",
            1,
        ),
        ("face::acp::prompt", "use crate::face::native::serve;", 1),
        (
            "face::acp::prompt",
            "use longshore_protocol::method::turn::StartParams;",
            1,
        ),
        (
            "face::native::serve",
            "use longshore_protocol::method::turn::StartParams;",
            0,
        ),
        ("unheard::of", "", 1),
    ] {
        assert_eq!(check(module, code), expected, "{module}: {code}");
    }
}
