//! Configuration: layers, checks and warnings.
//!
//! [`load`] is a pure function from the text of the user's file, the environment and the command line to one
//! [`values::Config`]; reading files is the caller's part. Layers, low to high: defaults, the user's file, variables,
//! options. Each is checked by itself, so that a value that does not fit falls back to the layer below; nothing but the
//! faulty key is lost, and everything lost is a warning. A file whose syntax is broken leaves the defaults in force and
//! [`values::Config::broken`] set, with which no turn may run: its deny rules are not known. What permission rules mean
//! is none of this module's business. Start with [`values`] for what comes out, then [`load`].

mod build;
mod check;
mod file;
mod known;
mod layer;
#[cfg(test)]
mod load_tests;
pub mod model;
mod provider;
pub mod redact;
mod rules;
pub mod secret;
mod tree;
pub mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_protocol::value::failure::Warning;
use serde_json::Value;

pub use layer::Assignment;

use crate::kernel::rule::RuleText;
use build::Builder;
use file::FileConfig;
use secret::{ReadSecret, Resolver, SecretText};
use tree::{Node, Place};
use values::{Broken, Config};

/// Everything the configuration is made from.
pub struct LoadInput<'a> {
    /// The user's file; `None` where there is none, which is as good as an empty one.
    pub user: Option<UserFile>,
    /// The variables of this process.
    pub variables: BTreeMap<String, String>,
    /// `-c key=value`, later ones win.
    pub assignments: Vec<Assignment>,
    /// `--model`.
    pub model: Option<String>,
    /// Whether this is for one run to completion: commands in the background then have no time limit of their own.
    pub is_headless: bool,
    /// The user's home directory, for `~`.
    pub home: Option<PathBuf>,
    /// Reads the files that `${file:…}` names.
    pub read_secret: &'a ReadSecret<'a>,
}

/// The user's configuration file.
#[derive(Clone, Debug)]
pub struct UserFile {
    /// Its path, as shown to people.
    pub path: PathBuf,
    /// Its bytes, or one sentence about why they could not be read.
    pub content: Result<Vec<u8>, String>,
}

impl Default for LoadInput<'_> {
    /// Nothing configured.
    fn default() -> Self {
        Self {
            user: None,
            variables: BTreeMap::new(),
            assignments: Vec::new(),
            model: None,
            is_headless: false,
            home: None,
            read_secret: &|_: &Path| -> Result<SecretText, String> {
                Err("no files are read here".to_owned())
            },
        }
    }
}

/// The JSON Schema of the configuration file.
pub fn schema() -> Value {
    schemars::schema_for!(FileConfig).to_value()
}

/// The warning for a configuration file inside a project, of which nothing is read yet.
pub fn project_file_ignored(file: &Path) -> Warning {
    Warning {
        file: Some(file.display().to_string()),
        ..Warning::new(
            "config",
            format!(
                "{}: Configuration of projects is not read yet.",
                file.display()
            ),
        )
    }
}

/// Makes the configuration. Never fails: what can't be used is in its warnings.
pub fn load(input: LoadInput<'_>) -> Config {
    let mut warnings = Vec::new();
    let mut broken = None;
    let base = input
        .user
        .as_ref()
        .and_then(|user| user.path.parent())
        .map(Path::to_path_buf);
    let mut layers = Vec::new();
    match input.user {
        None => {}
        Some(UserFile {
            path,
            content: Ok(bytes),
        }) => match Node::parse(&path, &bytes) {
            Ok(layer) => layers.push(layer),
            Err(error) => broken = Some(error),
        },
        Some(UserFile {
            path,
            content: Err(message),
        }) => {
            broken = Some(Broken {
                file: path,
                line: 0,
                column: 0,
                message,
            });
        }
    }
    layers.push(layer::environment(&input.variables, &mut warnings));
    layers.push(layer::command_line(&input.assignments, &mut warnings));

    let schema = schema();
    let mut merged = Node::empty(Place::Named(Arc::from("defaults")));
    let mut rules: Vec<RuleText> = Vec::new();
    for mut layer in layers {
        check::unknown_keys(&layer, &schema, &mut warnings);
        rules.splice(0..0, rules::take(&mut layer, &mut warnings));
        check::types(&mut layer, &mut warnings);
        merged.merge(layer);
    }
    let file = check::types(&mut merged, &mut warnings);
    let resolver = Resolver {
        variables: &input.variables,
        read: input.read_secret,
        home: input.home.as_deref(),
        base,
        used: Vec::new(),
        remarks: Vec::new(),
    };
    let mut builder = Builder::new(&merged, resolver, warnings, broken);
    let mut config = builder.build(&file, rules, input.is_headless);
    builder.choose_model(&file, &mut config, input.model.as_deref());
    builder.finish(config)
}
