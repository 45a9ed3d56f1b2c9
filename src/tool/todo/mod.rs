//! The checklist of an agent, kept by the agent and replaced as a whole.

use std::fmt::Write;
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use longshore_protocol::value::todo::{Todo, TodoStatus};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Call, CallCx, Effect, Outcome, Refusal, Tool, ToolSpec, args};
use crate::kernel::rule::Subject;

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TodoListArgs {
    /// The whole new list, replacing the one before. Leave it out to read the list; an empty one clears it.
    #[serde(default)]
    todos: Option<Vec<TodoArg>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TodoArg {
    /// What is to be done.
    #[schemars(length(min = 1))]
    title: String,
    /// How far it is.
    status: StatusArg,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StatusArg {
    Pending,
    InProgress,
    Done,
}

/// TodoList: reads, replaces or clears the checklist.
#[derive(Debug)]
pub struct TodoList {
    spec: ToolSpec,
}

impl TodoList {
    /// The tool's name.
    pub const NAME: &'static str = "TodoList";

    /// Makes the tool.
    pub fn new() -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("todo.md").trim().into(),
            parameters: Arc::new(args::schema_of::<TodoListArgs>()),
            dedupe: false,
            own_budget: false,
        };
        Self { spec }
    }
}

impl Default for TodoList {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for TodoList {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: TodoListArgs = args::typed(args)?;
        let replacement = args
            .todos
            .map(|todos| todos.into_iter().map(Todo::from).collect::<Vec<_>>());
        let todos = replacement.clone().unwrap_or_else(|| cx.todos.to_vec());
        let title = match &replacement {
            None => "Read the todo list".to_owned(),
            Some(todos) if todos.is_empty() => "Clear the todo list".to_owned(),
            Some(todos) => {
                let n_done = todos
                    .iter()
                    .filter(|todo| todo.status == TodoStatus::Done)
                    .count();
                format!("Update the todo list ({n_done} of {} done)", todos.len())
            }
        };
        let display = Display::Todo {
            todos: todos.clone(),
        };
        Ok(Call {
            accesses: Vec::new(),
            title,
            display: display.clone(),
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |_| {
                async move { outcome(&todos, replacement).with_display(display) }.boxed()
            }),
        })
    }
}

impl From<TodoArg> for Todo {
    fn from(arg: TodoArg) -> Self {
        let status = match arg.status {
            StatusArg::Pending => TodoStatus::Pending,
            StatusArg::InProgress => TodoStatus::InProgress,
            StatusArg::Done => TodoStatus::Done,
        };
        Self {
            title: arg.title,
            status,
        }
    }
}

fn outcome(todos: &[Todo], replacement: Option<Vec<Todo>>) -> Outcome {
    let text = match (&replacement, todos.is_empty()) {
        (Some(_), true) => "The todo list was cleared.".to_owned(),
        (None, true) => "The todo list is empty.".to_owned(),
        (Some(_), false) => {
            format!(
                "The todo list was updated:\n{}\nKeep it up to date as you go on.",
                listed(todos)
            )
        }
        (None, false) => format!("The todo list:\n{}", listed(todos)),
    };
    let mut outcome = Outcome::text(text);
    outcome.effects.extend(replacement.map(Effect::SetTodos));
    outcome
}

fn listed(todos: &[Todo]) -> String {
    let mut list = String::new();
    for todo in todos {
        let mark = match todo.status {
            TodoStatus::Pending => "[pending]",
            TodoStatus::InProgress => "[in progress]",
            TodoStatus::Done => "[done]",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(list, "- {mark} {}", todo.title);
    }
    list
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use longshore_protocol::value::tool::ProgressStream;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::kernel::message::Part;
    use crate::path::Workspace;
    use crate::schema::Validator;
    use crate::tool::{ExecCx, Progress};

    struct Silent;

    impl Progress for Silent {
        fn output(&self, _: ProgressStream, _: &str) {}

        fn status(&self, _: &str) {}
    }

    fn todo(title: &str, status: TodoStatus) -> Todo {
        Todo {
            title: title.to_owned(),
            status,
        }
    }

    fn resolve(value: Value, todos: &[Todo]) -> Result<Call, String> {
        let tool = TodoList::new();
        Validator::compile(&tool.spec().parameters)
            .unwrap()
            .check(&value)?;
        let cx = CallCx {
            session: "s".into(),
            agent: "main".into(),
            workspace: Arc::new(Workspace::of_dir("/ws")),
            todos: todos.into(),
            host_files: None,
        };
        tool.resolve(value, &cx).map_err(|refusal| refusal.message)
    }

    async fn check(
        value: Value,
        before: &[Todo],
        title: &str,
        text: &str,
        effects: &[Effect],
        after: &[Todo],
    ) {
        let call = resolve(value, before).unwrap();
        assert_eq!((call.title.as_str(), call.accesses.len()), (title, 0));
        let display = Display::Todo {
            todos: after.to_vec(),
        };
        assert_eq!(call.display, display);
        let outcome = (call.execute)(ExecCx {
            call: "call_1".into(),
            cancel: CancellationToken::new(),
            accesses: Vec::new(),
            progress: Arc::new(Silent),
            ask_user: None,
            results_dir: PathBuf::new(),
        })
        .await;
        assert_eq!(outcome.output, [Part::text(text)]);
        assert_eq!(outcome.effects, effects);
        assert_eq!(outcome.display, Some(display));
    }

    #[tokio::test]
    async fn read_replace_clear() {
        let before = [todo("old", TodoStatus::InProgress)];
        let after = vec![todo("a", TodoStatus::Done), todo("b", TodoStatus::Pending)];
        let list = "The todo list:\n- [in progress] old\n";
        check(json!({}), &before, "Read the todo list", list, &[], &before).await;
        check(
            json!({}),
            &[],
            "Read the todo list",
            "The todo list is empty.",
            &[],
            &[],
        )
        .await;
        check(
            json!({"todos": [{"title": "a", "status": "done"}, {"title": "b", "status": "pending"}]}),
            &before,
            "Update the todo list (1 of 2 done)",
            "The todo list was updated:\n- [done] a\n- [pending] b\n\nKeep it up to date as you go on.",
            &[Effect::SetTodos(after.clone())],
            &after,
        )
        .await;
        let cleared = [Effect::SetTodos(Vec::new())];
        check(
            json!({"todos": []}),
            &before,
            "Clear the todo list",
            "The todo list was cleared.",
            &cleared,
            &[],
        )
        .await;
    }

    #[test]
    fn entries_are_checked() {
        for (value, expected) in [
            (
                json!({"todos": [{"title": "", "status": "done"}]}),
                "/todos/0/title",
            ),
            (
                json!({"todos": [{"title": "x", "status": "finished"}]}),
                "/todos/0/status",
            ),
            (json!({"todos": [{"title": "x"}]}), "`status` is missing"),
        ] {
            let error = resolve(value, &[]).err().unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}
