//! THE table of built-in tools. Nothing else mentions a tool by name to make it.
//!
//! A row says how a tool is made, when there is one at all (a tool without what it needs is absent, not broken) and
//! which agents have it.

use std::sync::Arc;

use super::Tool;
use super::ask::AskUserQuestion;
use super::cron::{CronCreate, CronDelete, CronDeps, CronList};
use super::file::FileDeps;
use super::file::edit::Edit;
use super::file::glob::Glob;
use super::file::grep::Grep;
use super::file::media::ReadMediaFile;
use super::file::read::Read;
use super::file::write::Write;
use super::shell::{Bash, Shell};
use super::task::list::TaskList;
use super::task::output::TaskOutput;
use super::task::stop::TaskStop;
use super::task::wait::WaitFor;
use super::todo::TodoList;
use crate::background::Tasks;

/// What tools are built with. One value per agent.
#[derive(Debug, Clone)]
pub struct ToolDeps {
    /// For the file tools.
    pub file: FileDeps,
    /// Somebody can be asked questions.
    pub can_ask: bool,
    /// Runs commands.
    pub shell: Arc<Shell>,
    /// The cron jobs of the session.
    pub cron: CronDeps,
    /// Carries commands and other tasks of the session.
    pub tasks: Tasks,
    /// The agent has all of [`TASK_TOOLS`]; set where tools are made.
    pub looks_after_tasks: bool,
}

/// What an agent needs to look after work in the background: without any of these it gets none.
pub const TASK_TOOLS: [&str; 3] = ["TaskList", "TaskOutput", "TaskStop"];

/// Which agents have a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agents {
    /// Every agent.
    All,
    /// The main agent and children that change things.
    Working,
    /// The main agent alone.
    Main,
}

/// The sort of agent tools are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentSort {
    /// The main agent.
    Main,
    /// A child that changes things.
    Coder,
    /// A child that only looks.
    Explorer,
}

/// One built-in tool.
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Who has it.
    pub agents: Agents,
    /// Whether it exists with these dependencies.
    pub when: fn(&ToolDeps) -> bool,
    /// Makes it.
    pub make: fn(&ToolDeps) -> Arc<dyn Tool>,
}

/// All built-in tools, in the order models see them.
pub const TABLE: &[Row] = &[
    Row {
        name: Read::NAME,
        agents: Agents::All,
        when: always,
        make: |deps| Arc::new(Read::new(deps.file.clone())),
    },
    Row {
        name: Write::NAME,
        agents: Agents::Working,
        when: always,
        make: |deps| Arc::new(Write::new(deps.file.clone())),
    },
    Row {
        name: Edit::NAME,
        agents: Agents::Working,
        when: always,
        make: |deps| Arc::new(Edit::new(deps.file.clone())),
    },
    Row {
        name: Glob::NAME,
        agents: Agents::All,
        when: always,
        make: |deps| Arc::new(Glob::new(deps.file.clone())),
    },
    Row {
        name: Grep::NAME,
        agents: Agents::All,
        when: always,
        make: |deps| Arc::new(Grep::new(deps.file.clone())),
    },
    Row {
        name: ReadMediaFile::NAME,
        agents: Agents::All,
        when: |deps| deps.file.image_input,
        make: |deps| Arc::new(ReadMediaFile::new(deps.file.clone())),
    },
    Row {
        name: Bash::NAME,
        agents: Agents::Working,
        when: always,
        make: |deps| {
            let (shell, tasks) = (deps.shell.clone(), deps.tasks.clone());
            Arc::new(Bash::new(shell, tasks, deps.looks_after_tasks))
        },
    },
    Row {
        name: TaskList::NAME,
        agents: Agents::Working,
        when: always,
        make: |deps| Arc::new(TaskList::new(deps.tasks.clone())),
    },
    Row {
        name: TaskOutput::NAME,
        agents: Agents::Working,
        when: always,
        make: |deps| Arc::new(TaskOutput::new(deps.tasks.clone())),
    },
    Row {
        name: TaskStop::NAME,
        agents: Agents::Working,
        when: always,
        make: |deps| Arc::new(TaskStop::new(deps.tasks.clone())),
    },
    Row {
        name: WaitFor::NAME,
        agents: Agents::Working,
        when: always,
        make: |deps| Arc::new(WaitFor::new(deps.tasks.clone())),
    },
    Row {
        name: TodoList::NAME,
        agents: Agents::Working,
        when: always,
        make: |_| Arc::new(TodoList::new()),
    },
    Row {
        name: CronCreate::NAME,
        agents: Agents::Main,
        when: always,
        make: |deps| Arc::new(CronCreate::new(deps.cron.clone())),
    },
    Row {
        name: CronList::NAME,
        agents: Agents::Main,
        when: always,
        make: |deps| Arc::new(CronList::new(deps.cron.clone())),
    },
    Row {
        name: CronDelete::NAME,
        agents: Agents::Main,
        when: always,
        make: |deps| Arc::new(CronDelete::new(deps.cron.clone())),
    },
    Row {
        name: AskUserQuestion::NAME,
        agents: Agents::Main,
        when: |deps| deps.can_ask,
        make: |_| Arc::new(AskUserQuestion::new()),
    },
];

fn always(_: &ToolDeps) -> bool {
    true
}

/// The built-in tools of an agent.
pub fn tools(deps: &ToolDeps, sort: AgentSort) -> Vec<Arc<dyn Tool>> {
    let rows: Vec<&Row> = TABLE
        .iter()
        .filter(|row| {
            let has_it = match row.agents {
                Agents::All => true,
                Agents::Working => sort != AgentSort::Explorer,
                Agents::Main => sort == AgentSort::Main,
            };
            has_it && (row.when)(deps)
        })
        .collect();
    let has = |name: &&str| rows.iter().any(|row| row.name == *name);
    let deps = ToolDeps {
        looks_after_tasks: TASK_TOOLS.iter().all(has),
        ..deps.clone()
    };
    rows.iter().map(|row| (row.make)(&deps)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::values::{ImageConfig, ShellConfig, TaskConfig};
    use crate::media::pool::ImagePool;
    use crate::os::env::Env;
    use crate::os::fs::Durability;
    use crate::schema::Validator;

    fn deps(can_ask: bool) -> ToolDeps {
        let file = FileDeps {
            freshness: Arc::default(),
            locks: Arc::default(),
            search: Arc::default(),
            durability: Durability::Kernel,
            temps: None,
            must_be_fresh: crate::config::values::Freshness::Default,
            image_input: true,
            video_input: false,
            images: ImagePool::default(),
            image: ImageConfig::default(),
        };
        let shell = Shell::new(
            &Env::default(),
            &ShellConfig::default(),
            &TaskConfig::default(),
        );
        ToolDeps {
            file,
            can_ask,
            shell: Arc::new(shell),
            cron: crate::tool::cron::testing::deps(),
            tasks: Tasks::for_tests(Path::new("/nowhere")),
            looks_after_tasks: false,
        }
    }

    fn names(can_ask: bool, sort: AgentSort) -> Vec<&'static str> {
        tools(&deps(can_ask), sort)
            .iter()
            .map(|tool| tool.spec().name)
            .collect()
    }

    #[test]
    fn who_has_what() {
        let all = names(true, AgentSort::Main);
        assert_eq!(all, TABLE.iter().map(|row| row.name).collect::<Vec<_>>());
        assert!(!names(false, AgentSort::Main).contains(&AskUserQuestion::NAME));
        assert!(!names(true, AgentSort::Coder).contains(&AskUserQuestion::NAME));
        assert!(names(true, AgentSort::Coder).contains(&Edit::NAME));
        let explorer = names(true, AgentSort::Explorer);
        assert!(explorer.contains(&Read::NAME) && !explorer.contains(&Edit::NAME));
    }

    #[test]
    fn every_tool_tells_the_model_enough() {
        for tool in tools(&deps(true), AgentSort::Main) {
            let spec = tool.spec();
            assert!(
                spec.description.len() > 40
                    && !["{images}", "{video}", "{edge}", "{budget}"]
                        .iter()
                        .any(|unfilled| spec.description.contains(unfilled)),
                "{}",
                spec.name
            );
            assert!(
                Validator::compile(&spec.parameters).is_ok(),
                "{}",
                spec.name
            );
            assert_eq!(
                spec.parameters["additionalProperties"], false,
                "{}",
                spec.name
            );
            let properties = spec.parameters["properties"].as_object().unwrap();
            for (name, schema) in properties {
                assert!(schema["description"].is_string(), "{}.{name}", spec.name);
            }
        }
    }
}
