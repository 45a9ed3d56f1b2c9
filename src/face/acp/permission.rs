//! Approvals as permission requests. Nothing but the two options that say so approves: an unknown option, an answer of
//! the wrong shape and an error all refuse the call.

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionRequest, ToolCallStatus,
    ToolCallUpdate,
};
use longshore_protocol::value::approval::{ApprovalAnswer, ApprovalRequest, OptionId};
use serde_json::Value;
use serde_json::value::RawValue;

use super::card::{Card, text};

/// The method.
pub(super) const METHOD: &str = "session/request_permission";

const ONCE: &str = "approve_once";
const ALWAYS: &str = "approve_always";
const REJECT: &str = "reject";
/// Ids of earlier agents that some clients have built in.
const OLD_ONCE: &str = "approve";
const OLD_ALWAYS: &str = "approve_for_session";

/// The request for an approval. Its tool call says everything that is needed to decide.
pub(super) fn request(ask: &ApprovalRequest) -> RequestPermissionRequest {
    let card = Card {
        name: ask.tool.clone(),
        title: ask.title.clone(),
        display: ask.display.clone(),
        accesses: ask.accesses.clone(),
        input: ask.input.clone(),
    };
    let mut fields = card.fields().status(ToolCallStatus::Pending);
    if !ask.reason.message.is_empty() {
        let mut content = fields.content.take().unwrap_or_default();
        content.push(text(ask.reason.message.clone()));
        fields = fields.content(content);
    }
    let call = ToolCallUpdate::new(ask.tool_call_id.as_str().to_owned(), fields);
    let mut options = vec![PermissionOption::new(
        ONCE,
        "Allow once",
        PermissionOptionKind::AllowOnce,
    )];
    if let Some(session) = ask
        .options
        .iter()
        .find(|option| option.option_id == OptionId::AllowSession)
    {
        options.push(PermissionOption::new(
            ALWAYS,
            session.label.clone(),
            PermissionOptionKind::AllowAlways,
        ));
    }
    options.push(PermissionOption::new(
        REJECT,
        "Reject",
        PermissionOptionKind::RejectOnce,
    ));
    RequestPermissionRequest::new(ask.session_id.as_str().to_owned(), call, options)
}

/// What the client chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The dialog went away with its turn.
    Cancelled,
    /// An option.
    Selected(String),
    /// Nothing that can be understood.
    Unreadable,
}

/// Reads the answer to any permission request.
pub(super) fn outcome(answer: &RawValue) -> Outcome {
    let Ok(answer) = serde_json::from_str::<Value>(answer.get()) else {
        return Outcome::Unreadable;
    };
    let outcome = &answer["outcome"];
    match (outcome["outcome"].as_str(), outcome["optionId"].as_str()) {
        (Some("cancelled"), _) => Outcome::Cancelled,
        (Some("selected"), Some(option)) => Outcome::Selected(option.to_owned()),
        _ => Outcome::Unreadable,
    }
}

/// The answer to an approval.
pub(super) fn answer(ask: &ApprovalRequest, outcome: &Outcome) -> ApprovalAnswer {
    let offers_session = ask
        .options
        .iter()
        .any(|option| option.option_id == OptionId::AllowSession);
    let chosen = match outcome {
        Outcome::Selected(option) => match option.as_str() {
            ONCE | OLD_ONCE => OptionId::AllowOnce,
            ALWAYS | OLD_ALWAYS if offers_session => OptionId::AllowSession,
            REJECT => OptionId::Reject,
            other => {
                tracing::warn!(
                    option = other,
                    "an unknown permission option refuses the call"
                );
                OptionId::Reject
            }
        },
        // A client that closes its dialogs cancels the turn; its notification may come before or after this.
        Outcome::Cancelled => OptionId::RejectStop,
        Outcome::Unreadable => OptionId::Reject,
    };
    ApprovalAnswer {
        option_id: Some(chosen),
        ..ApprovalAnswer::default()
    }
}

#[cfg(test)]
mod tests {
    use longshore_protocol::value::approval::{ApprovalOption, ApprovalReason};
    use longshore_protocol::value::display::Display;
    use serde_json::json;

    use super::*;

    fn ask(options: &[OptionId]) -> ApprovalRequest {
        ApprovalRequest {
            approval_id: "a1".into(),
            session_id: "s".into(),
            agent_id: "main".into(),
            turn_id: "t1".into(),
            tool_call_id: "call_1".into(),
            tool: "Bash".into(),
            title: "rm x".into(),
            display: Display::Command {
                command: "rm x".into(),
                cwd: "/w".into(),
                description: None,
            },
            accesses: Vec::new(),
            input: json!({"command": "rm x"}),
            options: options
                .iter()
                .map(|&option_id| ApprovalOption {
                    option_id,
                    label: format!("{option_id:?} label"),
                    rule: Some("Bash(rm x)".into()),
                })
                .collect(),
            reason: ApprovalReason {
                policy: "fallback".into(),
                message: "Commands are asked about.".into(),
                rule: None,
            },
            created_at: String::new(),
            expires_at: None,
        }
    }

    const ALL: [OptionId; 4] = [
        OptionId::AllowOnce,
        OptionId::AllowSession,
        OptionId::Reject,
        OptionId::RejectStop,
    ];

    #[test]
    fn a_request_says_what_is_needed_to_decide() {
        let request = serde_json::to_value(request(&ask(&ALL))).unwrap();
        assert_eq!(
            request,
            json!({
                "sessionId": "s",
                "toolCall": {
                    "toolCallId": "call_1", "kind": "execute", "status": "pending", "title": "rm x", "name": "Bash",
                    "content": [
                        {"type": "content", "content": {"type": "text", "text": "```\nrm x\n```"}},
                        {"type": "content", "content": {"type": "text", "text": "Commands are asked about."}},
                    ],
                    "locations": [],
                    "rawInput": {"command": "rm x"},
                },
                "options": [
                    {"optionId": "approve_once", "name": "Allow once", "kind": "allow_once"},
                    {"optionId": "approve_always", "name": "AllowSession label", "kind": "allow_always"},
                    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
                ],
            })
        );
        let small = super::request(&ask(&[
            OptionId::AllowOnce,
            OptionId::Reject,
            OptionId::RejectStop,
        ]));
        assert_eq!(small.options.len(), 2, "always only where it is on offer");
    }

    #[test]
    fn only_the_options_that_say_so_approve() {
        for (reply, all, without_session) in [
            (
                json!({"outcome": {"outcome": "selected", "optionId": "approve_once"}}),
                OptionId::AllowOnce,
                OptionId::AllowOnce,
            ),
            (
                json!({"outcome": {"outcome": "selected", "optionId": "approve"}}),
                OptionId::AllowOnce,
                OptionId::AllowOnce,
            ),
            (
                json!({"outcome": {"outcome": "selected", "optionId": "approve_always"}}),
                OptionId::AllowSession,
                OptionId::Reject,
            ),
            (
                json!({"outcome": {"outcome": "selected", "optionId": "reject"}}),
                OptionId::Reject,
                OptionId::Reject,
            ),
            (
                json!({"outcome": {"outcome": "selected", "optionId": "zzz"}}),
                OptionId::Reject,
                OptionId::Reject,
            ),
            (
                json!({"outcome": {"outcome": "selected"}}),
                OptionId::Reject,
                OptionId::Reject,
            ),
            (
                json!({"outcome": {"outcome": "allowed", "optionId": "approve_once"}}),
                OptionId::Reject,
                OptionId::Reject,
            ),
            (
                json!({"outcome": "approve_once"}),
                OptionId::Reject,
                OptionId::Reject,
            ),
            (json!(null), OptionId::Reject, OptionId::Reject),
            (json!([]), OptionId::Reject, OptionId::Reject),
            (
                json!({"outcome": {"outcome": "cancelled"}}),
                OptionId::RejectStop,
                OptionId::RejectStop,
            ),
        ] {
            let raw = RawValue::from_string(reply.to_string()).unwrap();
            let answered = |offered: &[OptionId]| answer(&ask(offered), &outcome(&raw)).option_id;
            assert_eq!(answered(&ALL), Some(all), "{reply}");
            assert_eq!(
                answered(&[OptionId::AllowOnce, OptionId::Reject, OptionId::RejectStop]),
                Some(without_session)
            );
        }
    }
}
