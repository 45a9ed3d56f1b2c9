//! Open asks, out of band.

use longshore_protocol::id::SessionId;
use longshore_protocol::method::ask::{
    ApprovalListResult, ApprovalResolveParams, ListParams, QuestionListResult,
    QuestionResolveParams, ResolveResult,
};
use longshore_protocol::value::session::OpenAsks;

use super::page;
use crate::face::native::dispatch::Cx;
use crate::kernel::ask::{AskAnswer, AskId};
use crate::kernel::fault::Fault;

pub(in crate::face::native) async fn approvals(
    cx: Cx,
    params: ListParams,
) -> Result<ApprovalListResult, Fault> {
    let open = open(&cx, &params.session_id).await?;
    page(open.approvals, params.cursor.as_deref(), params.limit)
}

pub(in crate::face::native) async fn questions(
    cx: Cx,
    params: ListParams,
) -> Result<QuestionListResult, Fault> {
    let open = open(&cx, &params.session_id).await?;
    page(open.questions, params.cursor.as_deref(), params.limit)
}

/// Those of a session that is not loaded are in its journal.
async fn open(cx: &Cx, session: &SessionId) -> Result<OpenAsks, Fault> {
    if let Some(handle) = cx.deps().sessions.loaded(session) {
        // A session that has just been loaded has put its asks once it answers.
        handle.view().await?;
        return Ok(cx.deps().hub.open_asks(session));
    }
    cx.deps().sessions.stored_asks(session).await
}

pub(in crate::face::native) async fn resolve_approval(
    cx: Cx,
    params: ApprovalResolveParams,
) -> Result<ResolveResult, Fault> {
    let (session, id) = (
        params.session_id.clone(),
        AskId::Approval(params.approval_id.clone()),
    );
    resolve(&cx, &session, &id, AskAnswer::Approval(params.answer())).await
}

pub(in crate::face::native) async fn resolve_question(
    cx: Cx,
    params: QuestionResolveParams,
) -> Result<ResolveResult, Fault> {
    let (session, id) = (
        params.session_id.clone(),
        AskId::Question(params.question_id.clone()),
    );
    resolve(&cx, &session, &id, AskAnswer::Question(params.answer())).await
}

async fn resolve(
    cx: &Cx,
    session: &SessionId,
    id: &AskId,
    answer: AskAnswer,
) -> Result<ResolveResult, Fault> {
    let sessions = &cx.deps().sessions;
    let loaded = match sessions.loaded(session) {
        Some(handle) => Some(handle),
        // It goes on with the answer.
        None if has(&sessions.stored_asks(session).await?, id) => {
            Some(sessions.open(session).await?)
        }
        None => None,
    };
    if let Some(handle) = loaded {
        handle.view().await?;
    }
    cx.deps().hub.resolve(session, id, answer, cx.host_id())?;
    Ok(ResolveResult {})
}

fn has(open: &OpenAsks, id: &AskId) -> bool {
    match id {
        AskId::Approval(id) => open.approvals.iter().any(|ask| ask.approval_id == *id),
        AskId::Question(id) => open.questions.iter().any(|ask| ask.question_id == *id),
    }
}
