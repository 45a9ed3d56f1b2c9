//! Turns, and what they work with.

use longshore_protocol::id::SessionId;
use longshore_protocol::method::turn::{
    CancelParams, CancelResult, StartParams, StartResult, SteerParams, SteerResult, TodoGetParams,
    TodoGetResult, ToolListParams, ToolListResult, WaitParams, WaitResult,
};

use super::page;
use crate::face::native::dispatch::Cx;
use crate::kernel::fault::Fault;
use crate::session::{Started, TurnEnd};

pub(in crate::face::native) async fn start(
    cx: Cx,
    params: StartParams,
) -> Result<StartResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let started = handle
        .start(params.input.into_parts(), params.when_busy)
        .await?;
    Ok(begun(&cx, &params.session_id, started))
}

pub(in crate::face::native) async fn steer(
    cx: Cx,
    params: SteerParams,
) -> Result<SteerResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let started = handle
        .steer(params.input.into_parts(), params.when_idle)
        .await?;
    Ok(begun(&cx, &params.session_id, started))
}

/// The turn's events begin once the reply is queued.
fn begun(cx: &Cx, session: &SessionId, started: Started) -> StartResult {
    let Started { turn, state, gate } = started;
    cx.deps().hub.started(session, &turn, &cx.host.id);
    cx.after(move || gate.release());
    StartResult {
        turn_id: turn,
        state,
    }
}

pub(in crate::face::native) async fn wait(cx: Cx, params: WaitParams) -> Result<WaitResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let TurnEnd {
        turn,
        reason,
        stop,
        text,
        usage,
        error,
    } = handle.wait(params.turn_id).await?;
    Ok(WaitResult {
        turn_id: turn,
        reason,
        stop_reason: stop,
        text,
        usage,
        error,
    })
}

pub(in crate::face::native) async fn cancel(
    cx: Cx,
    params: CancelParams,
) -> Result<CancelResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let cancelled = handle.cancel_with(params.turn_id, params.tasks).await?;
    Ok(CancelResult { cancelled })
}

pub(in crate::face::native) async fn tools(
    cx: Cx,
    params: ToolListParams,
) -> Result<ToolListResult, Fault> {
    let tools = cx
        .deps()
        .sessions
        .open(&params.session_id)
        .await?
        .tools()
        .await?;
    page(tools, params.cursor.as_deref(), params.limit)
}

pub(in crate::face::native) async fn todos(
    cx: Cx,
    params: TodoGetParams,
) -> Result<TodoGetResult, Fault> {
    let todos = cx
        .deps()
        .sessions
        .open(&params.session_id)
        .await?
        .todos()
        .await?;
    Ok(TodoGetResult { todos })
}
