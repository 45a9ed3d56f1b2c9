//! What a session's agent works with: paths, tools and rules, made when they are first needed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::session::Session;
use longshore_protocol::value::tool::ToolInfo;

use super::deps::Deps;
use crate::background::Tasks;
use crate::kernel::port::CronJobs;
use crate::os::fs::{self, Durability};
use crate::path::{Workspace, WorkspaceOptions};
use crate::permission::{Anchors, RuleSet};
use crate::tool::catalog::{self, AgentSort, ToolDeps};
use crate::tool::cron::CronDeps;
use crate::tool::file::{FileDeps, Freshness};
use crate::tool::registry::Registry;

/// What decides which tools there are; it can change from turn to turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Somebody can be asked questions.
    pub can_ask: bool,
    /// The model takes images.
    pub image_input: bool,
    /// The model takes video.
    pub video_input: bool,
}

/// Paths, tools and rules of one session.
pub struct Workplace {
    /// Paths.
    pub workspace: Arc<Workspace>,
    /// What tools are made with; what an agent has seen stays here when its tools are made anew.
    deps: ToolDeps,
    /// The tools made last.
    made: Mutex<Option<(Abilities, Arc<Registry>)>>,
    /// Rules.
    pub rules: Arc<RuleSet>,
    /// What could not be used.
    pub warnings: Vec<Warning>,
}

impl Workplace {
    /// Makes them, for an agent that has seen these files. Looks at the disk where roots and the shell are concerned.
    pub(super) fn open(
        deps: &Deps,
        session: &Session,
        freshness: Arc<Freshness>,
        tasks: Tasks,
        jobs: Arc<dyn CronJobs>,
    ) -> Self {
        let config = &deps.config;
        let dirs = session.additional_dirs.iter().map(PathBuf::from).collect();
        let (workspace, mut warnings) = workspace(deps, PathBuf::from(&session.cwd), dirs);
        let workspace = Arc::new(workspace);
        let anchors = Anchors::new(&workspace.cwd, workspace.real_cwd(), deps.env.home_dir());
        let (rules, bad_rules) = RuleSet::compile(&config.permission.rules, &anchors);
        warnings.extend(bad_rules);
        for name in ["config.toml", "local.toml"] {
            let file = project_root(workspace.real_cwd())
                .join(".longshore")
                .join(name);
            if fs::kind_of(&file).is_some() {
                warnings.push(crate::config::project_file_ignored(&file));
            }
        }
        let file = FileDeps {
            freshness,
            locks: deps.file_locks.clone(),
            durability: if config.files_fsync {
                Durability::Disk
            } else {
                Durability::Kernel
            },
            temps: deps.temps.clone(),
            must_be_fresh: config.files_freshness,
            image_input: false,
            video_input: false,
            images: deps.images.clone(),
            image: config.image,
            search: deps.search.clone(),
        };
        let tool_deps = ToolDeps {
            file,
            can_ask: false,
            shell: deps.shell.clone(),
            tasks,
            looks_after_tasks: false,
            cron: CronDeps {
                jobs,
                rules: config.cron.clone(),
                is_ephemeral: session.ephemeral,
            },
        };
        Self {
            workspace,
            deps: tool_deps,
            made: Mutex::default(),
            rules: Arc::new(rules),
            warnings,
        }
    }

    /// The tools of the main agent.
    pub fn tools(&self, abilities: Abilities) -> Arc<Registry> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((same, tools)) if *same == abilities => tools.clone(),
            _ => {
                let mut deps = self.deps.clone();
                deps.can_ask = abilities.can_ask;
                deps.file.image_input = abilities.image_input;
                deps.file.video_input = abilities.video_input;
                let tools = Arc::new(Registry::new(catalog::tools(&deps, AgentSort::Main)));
                *made = Some((abilities, tools.clone()));
                tools
            }
        }
    }

    /// The tools as hosts see them.
    pub fn tool_infos(&self, abilities: Abilities) -> Vec<ToolInfo> {
        self.tools(abilities)
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

/// Paths anchored at a directory, with the user's settings, and what of those could not be used. Blocking.
pub(super) fn workspace(
    deps: &Deps,
    cwd: PathBuf,
    additional_dirs: Vec<PathBuf>,
) -> (Workspace, Vec<Warning>) {
    let config = &deps.config;
    let home = deps.env.home_dir();
    let (sensitive, bad_globs) = crate::path::SensitiveFiles::new(
        &config.sensitive_extra,
        &config.sensitive_allow,
        home.as_deref(),
    );
    let warnings = bad_globs.into_iter().map(|bad| {
        let message = format!(
            "the sensitive-file pattern {} has no effect: {}",
            bad.glob, bad.reason
        );
        Warning::new("config", message)
    });
    let workspace = Workspace::open(WorkspaceOptions {
        cwd,
        additional_dirs,
        home,
        longshore_home: Some(deps.home.clone()),
        sensitive,
        trusted_link_targets: config.trusted_link_targets.clone(),
    });
    (workspace, warnings.collect())
}

/// The nearest directory with a `.git`, else the directory itself.
fn project_root(dir: &Path) -> &Path {
    dir.ancestors()
        .find(|dir| fs::kind_of(&dir.join(".git")).is_some())
        .unwrap_or(dir)
}
