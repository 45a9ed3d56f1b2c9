//! Tasks in the background.

use std::time::Duration;

use longshore_protocol::id::SessionId;
use longshore_protocol::method::task::{
    DetachParams, DetachResult, GetParams, GetResult, ListParams, ListResult, OutputParams,
    OutputResult, StopParams, StopResult,
};

use super::page;
use crate::background::{Tasks, Which, Whose, Window};
use crate::face::native::dispatch::Cx;
use crate::face::native::error::invalid_params;
use crate::kernel::fault::Fault;
use crate::kernel::limits::{TASK_OUTPUT_BYTES, TASK_OUTPUT_MAX_BYTES};
use crate::session::tasks::{self, wire};

pub(in crate::face::native) async fn list(cx: Cx, params: ListParams) -> Result<ListResult, Fault> {
    let tasks = tasks_of(&cx, &params.session_id).await?;
    let which = if params.active_only {
        Which::Active
    } else {
        Which::All
    };
    let found = tasks.list(Whose::Anyones, which);
    page(
        found.iter().map(wire).collect(),
        params.cursor.as_deref(),
        params.limit,
    )
}

pub(in crate::face::native) async fn get(cx: Cx, params: GetParams) -> Result<GetResult, Fault> {
    let tasks = tasks_of(&cx, &params.session_id).await?;
    let info = tasks.get(Whose::Anyones, &params.task_id)?;
    Ok(GetResult { task: wire(&info) })
}

pub(in crate::face::native) async fn output(
    cx: Cx,
    params: OutputParams,
) -> Result<OutputResult, Fault> {
    let limit = params
        .limit
        .map_or(TASK_OUTPUT_BYTES, |limit| limit as usize);
    if limit == 0 || limit > TASK_OUTPUT_MAX_BYTES {
        let expected = format!("1 to {TASK_OUTPUT_MAX_BYTES}");
        let message = format!("limit is {limit}; it must be {expected}.");
        return Err(invalid_params("/limit", &expected, message));
    }
    let tasks = tasks_of(&cx, &params.session_id).await?;
    let part = params.offset.map_or(Window::Tail, Window::From);
    let wait = Duration::from_millis(u64::from(params.wait.unwrap_or_default()));
    let read = tasks::output(&tasks, &params.task_id, part, limit, wait).await?;
    Ok(OutputResult {
        task: wire(&read.info),
        offset: read.start,
        text: read.text,
        next_offset: read.next_offset,
        eof: read.is_eof,
    })
}

pub(in crate::face::native) async fn stop(cx: Cx, params: StopParams) -> Result<StopResult, Fault> {
    let tasks = tasks_of(&cx, &params.session_id).await?;
    let task = tasks::stop(&tasks, &params.task_id, params.reason).await?;
    Ok(StopResult { task })
}

pub(in crate::face::native) async fn detach(
    cx: Cx,
    params: DetachParams,
) -> Result<DetachResult, Fault> {
    let tasks = tasks_of(&cx, &params.session_id).await?;
    let info = tasks.detach(Whose::Anyones, &params.task_id).await?;
    Ok(DetachResult { task: wire(&info) })
}

async fn tasks_of(cx: &Cx, session: &SessionId) -> Result<Tasks, Fault> {
    let handle = cx.deps().sessions.open(session).await?;
    Ok(handle.tasks().clone())
}
