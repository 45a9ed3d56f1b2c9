//! The names that permission knows: which built-in tools there are, and which of them run without asking.
//!
//! The one place outside the tools themselves that knows names: rules are written by people, who misspell them.

/// The shell. Until each part of a command can be judged alone, only exact commands are.
pub(super) const BASH: &str = "Bash";
/// Puts questions to the user.
pub(super) const ASK_USER: &str = "AskUserQuestion";
/// Tools that write files and may do so inside a git work tree, where everything can be undone.
pub(super) const FILE_WRITERS: [&str; 2] = ["Write", "Edit"];
/// Tools that only look at files.
pub(super) const FILE_READERS: [&str; 4] = ["Read", "Grep", "Glob", "ReadMediaFile"];
/// Tools whose subject is a pattern and which search below a root: rules may name the root as `path=`.
pub(super) const SEARCHERS: [&str; 2] = ["Grep", "Glob"];
/// Tools that change nothing outside the session.
pub(super) const HARMLESS: [&str; 13] = [
    "TodoList",
    "TaskList",
    "TaskOutput",
    "WaitFor",
    "CronList",
    "WebSearch",
    "Agent",
    "AskUserQuestion",
    "Skill",
    "GetGoal",
    "SetGoalBudget",
    "UpdateGoal",
    "select_tools",
];
/// Tools that offer rules no argument.
pub(super) const WITHOUT_ARGUMENT: [&str; 16] = [
    "TodoList",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "WaitFor",
    "CronList",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "CreateGoal",
    "GetGoal",
    "SetGoalBudget",
    "UpdateGoal",
    "Agent",
    "AgentSwarm",
    "select_tools",
];
/// Tools that offer one and stand in no list above.
const WITH_ARGUMENT: [&str; 5] = ["CronCreate", "CronDelete", "Skill", "WebSearch", "FetchURL"];

/// Every built-in name.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    std::iter::once(BASH)
        .chain(FILE_WRITERS)
        .chain(FILE_READERS)
        .chain(WITHOUT_ARGUMENT)
        .chain(WITH_ARGUMENT)
}
