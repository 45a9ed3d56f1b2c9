//! The user's own commands.

use longshore_protocol::method::shell::{CancelParams, CancelResult, RunParams, RunResult};

use crate::face::native::dispatch::Cx;
use crate::kernel::fault::Fault;
use crate::session::shell_run::{ShellEnd, ShellRun};

pub(in crate::face::native) async fn run(cx: Cx, params: RunParams) -> Result<RunResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let ShellEnd {
        id,
        exit_code,
        signal,
        stdout,
        stderr,
        truncated,
        task,
    } = handle
        .run_shell(ShellRun {
            command: params.command,
            id: params.command_id,
            private: params.private,
        })
        .await?;
    Ok(RunResult {
        command_id: id,
        exit_code,
        signal,
        stdout,
        stderr,
        truncated,
        task_id: task,
    })
}

pub(in crate::face::native) async fn cancel(
    cx: Cx,
    params: CancelParams,
) -> Result<CancelResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let cancelled = handle.cancel_shell(params.command_id).await?;
    Ok(CancelResult { cancelled })
}
