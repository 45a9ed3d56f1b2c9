//! What a session's agent works with: paths, tools and rules, made when they are first needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::session::Session;
use longshore_protocol::value::tool::ToolInfo;

use super::lifecycle::Deps;
use crate::path::{Workspace, WorkspaceOptions};
use crate::permission::{Anchors, RuleSet};
use crate::tool::catalog::{self, ToolDeps};
use crate::tool::registry::Registry;

/// Paths, tools and rules of one session.
pub struct Workplace {
    /// Paths.
    pub workspace: Arc<Workspace>,
    /// Tools of the main agent.
    pub tools: Arc<Registry>,
    /// Rules.
    pub rules: Arc<RuleSet>,
    /// What could not be used.
    pub warnings: Vec<Warning>,
}

impl Workplace {
    /// Makes them. Looks at the disk where roots and the shell are concerned.
    pub(super) fn open(deps: &Deps, session: &Session, dir: &Path) -> Self {
        let config = &deps.config;
        let mut warnings = Vec::new();
        let (sensitive, bad_globs) = crate::path::SensitiveFiles::new(
            &config.sensitive_extra,
            &config.sensitive_allow,
            deps.env.home_dir().as_deref(),
        );
        for bad in bad_globs {
            warnings.push(Warning::new("config", format!("a sensitive-file pattern has no effect: {bad}")));
        }
        let workspace = Arc::new(Workspace::open(WorkspaceOptions {
            cwd: PathBuf::from(&session.cwd),
            additional_dirs: session.additional_dirs.iter().map(PathBuf::from).collect(),
            home: deps.env.home_dir(),
            longshore_home: Some(deps.home.clone()),
            sensitive,
        }));
        let anchors = Anchors::new(&workspace.cwd, workspace.real_cwd(), deps.env.home_dir());
        let (rules, bad_rules) = RuleSet::compile(&config.permission.rules, &anchors);
        warnings.extend(bad_rules);
        if let Some(ignored) = crate::config::ignored_project_file(workspace.real_cwd()) {
            warnings.push(ignored);
        }
        let tools = catalog::build(&ToolDeps {
            session: session.session_id.clone(),
            results_dir: dir.join("tool-results"),
            fsync: config.files_fsync,
            shell: deps.shell.clone(),
        });
        Self { workspace, tools: Arc::new(tools), rules: Arc::new(rules), warnings }
    }

    /// The tools as hosts see them.
    pub fn tool_infos(&self) -> Vec<ToolInfo> {
        self.tools
            .defs()
            .iter()
            .map(|def| ToolInfo {
                name: def.name.to_string(),
                description: def.description.to_string(),
                input_schema: def.parameters.as_ref().clone(),
            })
            .collect()
    }
}
