//! `session/prompt`: one turn, from its place in the lane to its one answer.
//!
//! A cancel may come at any time. Before the turn has begun, the turn never begins; while it runs, it is cancelled and
//! waited for, since everything of it must be out before the answer. A prompt that was cancelled is always answered with
//! a result.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    ContentBlock, NoticeSeverity, PromptRequest, PromptResponse, SessionUpdate, StopReason, Usage,
};
use longshore_protocol::error::{ErrorKind, RpcError};
use longshore_protocol::id::TurnId;
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::turn::{StopReason as Stop, TurnReason, WhenBusy};
use longshore_protocol::value::usage::Usage as Spent;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::host::Host;
use super::input::{self, Prompt};
use super::lane::Ticket;
use super::project::{chunk, notice};
use super::service::reply;
use super::{Conn, Open, error, params};
use crate::hub::Hub;
use crate::kernel::fault::Fault;
use crate::kernel::port::HostConn as _;
use crate::rpc::Reply;
use crate::session::{Started, TurnEnd};

/// How long an answer to a cancelled prompt waits for its turn, which ends within two seconds unless the disk hangs.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// A prompt with its place in the lane.
pub(super) struct Accepted {
    hub: Arc<Hub>,
    host: Arc<Host>,
    open: Arc<Open>,
    prompt: Prompt,
    ticket: Ticket,
}

/// Takes a prompt in. Called in the order prompts and cancels arrive, and does not wait.
pub(super) fn accept(
    conn: &Arc<Conn>,
    members: Map<String, Value>,
    cancel: &CancellationToken,
) -> Result<Accepted, RpcError> {
    let request: PromptRequest = params::read(members)?;
    let open = conn.opened(&request.session_id.0)?;
    let prompt = input::read(request.prompt)?;
    let ticket = open
        .lane
        .enter(cancel)
        .map_err(|full| error::busy(full.0))?;
    Ok(Accepted {
        hub: Arc::clone(&conn.deps.hub),
        host: Arc::clone(conn.host()?),
        open,
        prompt,
        ticket,
    })
}

impl Accepted {
    /// Runs it to its answer.
    pub(super) async fn run(self) -> Reply {
        let Self {
            hub,
            host,
            open,
            prompt,
            ticket,
        } = self;
        let cancel = ticket.cancel().clone();
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(stopped(StopReason::Cancelled)),
            () = ticket.first() => match prompt {
                Prompt::UnknownCommand(name) => {
                    unknown_command(&host, &open, &name);
                    Ok(stopped(StopReason::EndTurn))
                }
                Prompt::Input(input) => turn(&hub, &host, &open, input, &cancel).await,
            },
        };
        // The next in the lane begins once this answer has its place.
        reply(result).after(move || drop(ticket))
    }
}

async fn turn(
    hub: &Hub,
    host: &Host,
    open: &Open,
    input: Vec<ContentPart>,
    cancel: &CancellationToken,
) -> Result<PromptResponse, RpcError> {
    let Started { turn, gate, .. } = match open.handle.start(input, WhenBusy::Queue).await {
        Ok(started) => started,
        // It was closed while this prompt waited.
        Err(fault) => return gone(fault, cancel),
    };
    hub.started(open.handle.id(), &turn, host.id());
    host.with(open.handle.id(), |projection| {
        projection.own_turn(turn.clone());
    });
    if cancel.is_cancelled() {
        cancel_turn(open, &turn).await;
    }
    gate.release();
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        ended = open.handle.wait(turn.clone()) => Some(ended),
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        cancel_turn(open, &turn).await;
        let end = tokio::time::timeout(CANCEL_LIMIT, open.handle.wait(turn.clone())).await;
        let Ok(ended) = end else {
            tracing::error!(%turn, "a cancelled turn did not end in time");
            return Ok(stopped(StopReason::Cancelled));
        };
        ended
    };
    match ended {
        Ok(end) => answer(&end, cancel),
        Err(fault) => gone(fault, cancel),
    }
}

async fn cancel_turn(open: &Open, turn: &TurnId) {
    if let Err(fault) = open.handle.cancel(Some(turn.clone())).await {
        tracing::debug!(%fault, %turn, "a turn to cancel was over");
    }
}

fn gone(fault: Fault, cancel: &CancellationToken) -> Result<PromptResponse, RpcError> {
    if cancel.is_cancelled() {
        return Ok(stopped(StopReason::Cancelled));
    }
    Err(match fault.kind {
        // Of a prompt, this is about the session's model, and not about a value of the request.
        ErrorKind::ModelUnknown => error::no_model(fault.message),
        _ => error::from_fault(&fault),
    })
}

/// How a turn's end is told. Whatever became of a prompt that was cancelled, it is cancelled.
fn answer(end: &TurnEnd, cancel: &CancellationToken) -> Result<PromptResponse, RpcError> {
    let reason = match (end.reason, end.stop) {
        _ if cancel.is_cancelled() => StopReason::Cancelled,
        (TurnReason::Cancelled, _) | (_, Stop::Cancelled) => StopReason::Cancelled,
        (_, Stop::MaxSteps) => StopReason::MaxTurnRequests,
        (_, Stop::Refusal) => StopReason::Refusal,
        (_, Stop::MaxTokens) => StopReason::MaxTokens,
        (TurnReason::Completed, Stop::EndTurn) => StopReason::EndTurn,
        (TurnReason::Failed, Stop::EndTurn) | (_, Stop::Error) => {
            return Err(match &end.error {
                Some(failure) => error::from_failure(failure),
                None => error::error(
                    ErrorKind::InternalError,
                    "The turn failed; the log of the agent says more.",
                ),
            });
        }
    };
    Ok(stopped(reason).usage(usage(&end.usage)))
}

fn stopped(reason: StopReason) -> PromptResponse {
    PromptResponse::new(reason)
}

fn usage(spent: &Spent) -> Option<Usage> {
    if spent.total() == 0 {
        return None;
    }
    let some = |tokens: u64| Some(tokens).filter(|tokens| *tokens > 0);
    let usage = Usage::new(spent.total(), spent.input(), spent.output)
        .thought_tokens(spent.reasoning)
        .cached_read_tokens(some(spent.input_cache_read))
        .cached_write_tokens(some(spent.input_cache_creation));
    Some(usage)
}

fn unknown_command(host: &Host, open: &Open, name: &str) {
    let words = format!("There is no command /{name}.");
    let update = if host.caps().notices {
        notice(NoticeSeverity::Warning, words, None)
    } else {
        SessionUpdate::AgentMessageChunk(chunk(
            ContentBlock::from(words),
            &format!("unknown-command-{name}"),
        ))
    };
    host.send(open.handle.id(), update);
}

#[cfg(test)]
mod tests {
    use longshore_protocol::value::failure::Failure;
    use serde_json::json;

    use super::*;

    fn told(reason: TurnReason, stop: Stop, kind: Option<ErrorKind>, is_cancelled: bool) -> Value {
        let end = TurnEnd {
            turn: "t1".into(),
            reason,
            stop,
            text: String::new(),
            usage: Spent::default(),
            error: kind.map(|kind| Failure {
                kind,
                message: "no".to_owned(),
                retryable: false,
                status: None,
                retry_at: None,
            }),
        };
        let cancel = CancellationToken::new();
        if is_cancelled {
            cancel.cancel();
        }
        match answer(&end, &cancel) {
            Ok(response) => serde_json::to_value(response.stop_reason).unwrap(),
            Err(error) => json!(error.code),
        }
    }

    #[test]
    fn ends_of_turns() {
        use TurnReason::{Cancelled, Completed, Failed};
        for (reason, stop, error, expected) in [
            (Completed, Stop::EndTurn, None, json!("end_turn")),
            (Completed, Stop::MaxTokens, None, json!("max_tokens")),
            (Cancelled, Stop::Cancelled, None, json!("cancelled")),
            (
                Failed,
                Stop::MaxSteps,
                Some(ErrorKind::MaxSteps),
                json!("max_turn_requests"),
            ),
            (
                Failed,
                Stop::Refusal,
                Some(ErrorKind::Filtered),
                json!("refusal"),
            ),
            (
                Failed,
                Stop::Error,
                Some(ErrorKind::RateLimited),
                json!(-32603),
            ),
            (
                Failed,
                Stop::Error,
                Some(ErrorKind::ContextOverflow),
                json!(-32603),
            ),
            (
                Failed,
                Stop::Error,
                Some(ErrorKind::AuthRequired),
                json!(-32000),
            ),
            (Failed, Stop::Error, None, json!(-32603)),
        ] {
            assert_eq!(told(reason, stop, error, false), expected);
            assert_eq!(
                told(reason, stop, error, true),
                json!("cancelled"),
                "a cancel is never an error"
            );
        }
    }

    #[test]
    fn tokens_are_told_where_there_are_any() {
        assert_eq!(usage(&Spent::default()), None);
        let spent = Spent {
            input_other: 3,
            input_cache_read: 2,
            output: 4,
            reasoning: Some(1),
            ..Spent::default()
        };
        assert_eq!(
            serde_json::to_value(usage(&spent)).unwrap(),
            json!({"totalTokens": 9, "inputTokens": 5, "outputTokens": 4, "thoughtTokens": 1, "cachedReadTokens": 2})
        );
    }
}
