//! Resolve, look at the disk once, and draw: everything known about a call before anyone is asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use longshore_protocol::id::{AgentId, SessionId};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::tool::AccessInfo;
use serde_json::Value;

use super::super::TurnCx;
use super::prepare::Prepared;
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::Subject;
use crate::path::Workspace;
use crate::tool::display::capped;
use crate::tool::host_files::HostFiles;
use crate::tool::output::printable;
use crate::tool::{CallCx, Execute, Outcome, Refusal, Tool};

/// A call that can be decided on.
pub(super) struct Resolved {
    /// The tool's name.
    pub(super) name: Arc<str>,
    /// How hosts see it.
    pub(super) drawn: Drawn,
    /// What it touches, links resolved.
    pub(super) accesses: Vec<RealAccess>,
    /// What rules are matched against.
    pub(super) subject: Subject,
    /// Does it.
    pub(super) execute: Once,
    /// The tool.
    pub(super) tool: Arc<dyn Tool>,
    /// Something the model has to be told beside the result.
    pub(super) note: Option<String>,
}

/// What runs a call, in a form that can be looked past from several places: it is only ever taken, once.
pub(super) struct Once(Mutex<Execute>);

impl Once {
    /// Takes it.
    pub(super) fn take(self) -> Execute {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How hosts see a call.
pub(super) struct Drawn {
    /// Its arguments.
    pub(super) input: Arc<Value>,
    /// One line.
    pub(super) title: String,
    /// The drawing.
    pub(super) display: Display,
    /// What it touches.
    pub(super) accesses: Vec<AccessInfo>,
}

/// A call that can't run, drawn all the same.
pub(super) struct Refused {
    /// How hosts see it.
    pub(super) drawn: Drawn,
    /// What the model is told.
    pub(super) outcome: Outcome,
}

impl Drawn {
    /// A call about which nothing but its name and arguments is known.
    pub(super) fn plain(call: &Prepared) -> Self {
        Self {
            input: call.input.clone(),
            title: call.name.to_string(),
            display: Display::Generic {
                summary: call.name.to_string(),
                detail: None,
            },
            accesses: Vec::new(),
        }
    }
}

/// Resolves a call.
pub(super) async fn resolve(
    cx: &TurnCx,
    agent: &(SessionId, AgentId),
    todos: &Arc<[Todo]>,
    prepared: Prepared,
) -> Result<Box<Resolved>, Box<Refused>> {
    let mut drawn = Drawn::plain(&prepared);
    let tool = match prepared.tool {
        Ok(tool) => tool,
        Err(outcome) => return Err(Box::new(Refused { drawn, outcome })),
    };
    let call_cx = CallCx {
        session: agent.0.clone(),
        agent: agent.1.clone(),
        workspace: cx.workspace.clone(),
        todos: todos.clone(),
        host_files: Some(HostFiles::new(
            cx.host_fs.clone(),
            agent.0.clone(),
            cx.turn.clone(),
        )),
    };
    let input = prepared.input.as_ref().clone();
    let call = match catch_unwind(AssertUnwindSafe(|| tool.resolve(input, &call_cx))) {
        Ok(Ok(call)) => call,
        Ok(Err(refusal)) => return Err(refused(drawn, refusal)),
        Err(_) => {
            tracing::error!(tool = %prepared.name, "tool panicked while it looked at its arguments");
            let message = format!(
                "{} failed by an internal error; the call was not run.",
                prepared.name
            );
            return Err(refused(drawn, Refusal::new(message)));
        }
    };
    drawn.title = printable(&call.title).into_owned();
    drawn.display = capped(call.display);
    let accesses = match cx.workspace.real_accesses(&call.accesses).await {
        Ok(accesses) => accesses,
        Err(error) => {
            let refusal = Refusal {
                kind: Some(error.kind()),
                message: error.to_string(),
            };
            return Err(refused(drawn, refusal));
        }
    };
    drawn.accesses = accesses.iter().map(RealAccess::info).collect();
    if let Some(real) = led_elsewhere(&cx.workspace, &accesses) {
        drawn.title = format!("{} → {}", drawn.title, printable(&real));
    }
    if let Some(preview) = call.preview {
        // A drawing that fails is no reason against the call.
        match AssertUnwindSafe(preview(accesses.clone()))
            .catch_unwind()
            .await
        {
            Ok(Some(display)) => drawn.display = capped(display),
            Ok(None) => {}
            Err(_) => tracing::error!(tool = %prepared.name, "tool panicked while it drew a call"),
        }
    }
    Ok(Box::new(Resolved {
        name: prepared.name,
        drawn,
        accesses,
        subject: call.subject,
        execute: Once(Mutex::new(call.execute)),
        tool,
        note: None,
    }))
}

/// Where a call's path really leads, for the line people see, if a link takes it to another file than it names. That
/// the workspace itself was opened through a link is nothing to tell.
fn led_elsewhere(workspace: &Workspace, accesses: &[RealAccess]) -> Option<String> {
    accesses.iter().find_map(|access| {
        let Access::File(file) = &access.access else {
            return None;
        };
        let real = workspace.show(&access.real);
        (access.crosses_link && real != workspace.show(&file.path)).then_some(real)
    })
}

fn refused(drawn: Drawn, refusal: Refusal) -> Box<Refused> {
    let Refusal { kind, message } = refusal;
    let code = kind.map(|kind| kind.as_str().to_owned());
    let outcome = Outcome::failed(message.as_str()).with_display(Display::Error { message, code });
    Box::new(Refused { drawn, outcome })
}
