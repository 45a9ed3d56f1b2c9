//! Questions: one form where the client fills in forms, else one permission request after another.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    CreateElicitationRequest, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    EnumOption, MultiSelectPropertySchema, PermissionOption, PermissionOptionKind,
    RequestPermissionRequest, StringPropertySchema, ToolCallId, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use longshore_protocol::value::question::{Choice, Question, QuestionAnswer, QuestionRequest};
use serde_json::Value;
use serde_json::value::RawValue;

use super::card::{one_line, text};
use super::permission::Outcome;

/// The method of forms.
pub(super) const METHOD: &str = "elicitation/create";

/// All questions as one form. The answer to question `n` is the field `q<n>`; own words are `q<n>_other`.
pub(super) fn form(ask: &QuestionRequest) -> CreateElicitationRequest {
    let mut schema = ElicitationSchema::new();
    for (n, question) in ask.questions.iter().enumerate() {
        let options: Vec<EnumOption> = question
            .options
            .iter()
            .map(|option| {
                let described = EnumOption::new(option.id.clone(), option.label.clone());
                described
                    .description(Some(option.description.clone()).filter(|words| !words.is_empty()))
            })
            .collect();
        let (key, is_required) = (format!("q{n}"), !question.allow_other);
        let title = Some(question.header.clone()).filter(|header| !header.is_empty());
        schema = if question.multi_select {
            let field = MultiSelectPropertySchema::titled(options)
                .title(title)
                .description(question.question.clone());
            // Own words may stand alone, so then nothing need be chosen.
            let field = if is_required {
                field.min_items(1_u64)
            } else {
                field
            };
            schema.property(key, field, is_required)
        } else {
            let field = StringPropertySchema::new()
                .title(title)
                .description(question.question.clone())
                .one_of(options);
            schema.property(key, field, is_required)
        };
        if question.allow_other {
            let words = StringPropertySchema::new()
                .title("Other")
                .description("An answer in your own words, instead of the ones on offer");
            schema = schema.property(format!("q{n}_other"), words, false);
        }
    }
    let scope = ElicitationSessionScope::new(ask.session_id.as_str().to_owned())
        .tool_call_id(ToolCallId::new(ask.tool_call_id.as_str()));
    let message = match ask.questions.as_slice() {
        [question] => question.question.clone(),
        questions => questions
            .iter()
            .map(|question| question.question.as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    };
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), message)
}

/// The answer that a filled-in form is. What is not on offer is left out, as if its question had been skipped.
pub(super) fn form_answer(ask: &QuestionRequest, answer: &RawValue) -> QuestionAnswer {
    let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
    if answer["action"] != "accept" {
        return QuestionAnswer {
            dismissed: true,
            ..QuestionAnswer::default()
        };
    }
    let mut answers = BTreeMap::new();
    for (n, question) in ask.questions.iter().enumerate() {
        let content = &answer["content"];
        let other = content[format!("q{n}_other")]
            .as_str()
            .map(str::trim)
            .filter(|words| !words.is_empty());
        let chosen = match &content[format!("q{n}")] {
            Value::String(one) => vec![one.clone()],
            Value::Array(several) => several
                .iter()
                .filter_map(|one| one.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        let choice = choice(question, &chosen, other);
        if choice != Choice::default() {
            answers.insert(question.id.clone(), choice);
        }
    }
    QuestionAnswer {
        answers,
        dismissed: false,
    }
}

fn choice(question: &Question, chosen: &[String], other: Option<&str>) -> Choice {
    let other = other.filter(|_| question.allow_other).map(str::to_owned);
    let mut option_ids: Vec<String> = question
        .options
        .iter()
        .map(|option| option.id.clone())
        .filter(|id| chosen.contains(id))
        .collect();
    if !question.multi_select {
        // Own words win where both were given.
        option_ids.truncate(usize::from(other.is_none()));
    }
    Choice { option_ids, other }
}

/// One permission request of those that stand for a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A question of which one answer is chosen.
    Whole {
        /// Which question.
        question: usize,
    },
    /// One answer of a question of which several may be chosen: yes or no.
    YesNo {
        /// Which question.
        question: usize,
        /// Which answer.
        option: usize,
    },
}

/// The requests that stand for the form, in order.
pub(super) fn parts(ask: &QuestionRequest) -> Vec<Part> {
    let mut parts = Vec::new();
    for (question, asked) in ask.questions.iter().enumerate() {
        if asked.multi_select {
            parts.extend((0..asked.options.len()).map(|option| Part::YesNo { question, option }));
        } else {
            parts.push(Part::Whole { question });
        }
    }
    parts
}

/// The request for a part.
pub(super) fn request(ask: &QuestionRequest, part: Part) -> Option<RequestPermissionRequest> {
    let (n, question) = match part {
        Part::Whole { question: n } | Part::YesNo { question: n, .. } => (n, ask.questions.get(n)?),
    };
    let allow = |id: String, name: &str| {
        PermissionOption::new(id, name.to_owned(), PermissionOptionKind::AllowOnce)
    };
    let refuse = |id: String, name: &str| {
        PermissionOption::new(id, name.to_owned(), PermissionOptionKind::RejectOnce)
    };
    let (title, described, options) = match part {
        Part::Whole { .. } => {
            let described: Vec<String> = question
                .options
                .iter()
                .filter(|option| !option.description.is_empty())
                .map(|option| format!("{}: {}", option.label, option.description))
                .collect();
            let mut options: Vec<PermissionOption> = question
                .options
                .iter()
                .enumerate()
                .map(|(i, option)| allow(format!("q{n}_opt_{i}"), &option.label))
                .collect();
            options.push(refuse(format!("q{n}_skip"), "Skip"));
            (question.question.clone(), described.join("\n"), options)
        }
        Part::YesNo { option: i, .. } => {
            let option = question.options.get(i)?;
            let options = vec![
                allow(format!("q{n}_opt_{i}"), "Yes"),
                refuse(format!("q{n}_skip"), "No"),
            ];
            (
                format!("{} {}?", question.question, option.label),
                option.description.clone(),
                options,
            )
        }
    };
    let mut content = vec![text(question.question.clone())];
    if !described.is_empty() {
        content.push(text(described));
    }
    let fields = ToolCallUpdateFields::new()
        .title(one_line(&title))
        .status(ToolCallStatus::Pending)
        .content(content);
    let call = ToolCallUpdate::new(ask.tool_call_id.as_str().to_owned(), fields);
    Some(RequestPermissionRequest::new(
        ask.session_id.as_str().to_owned(),
        call,
        options,
    ))
}

/// Adds what a part was answered with. False where the user closed the dialog.
pub(super) fn add(
    ask: &QuestionRequest,
    part: Part,
    outcome: &Outcome,
    answer: &mut QuestionAnswer,
) -> bool {
    let Outcome::Selected(selected) = outcome else {
        return *outcome != Outcome::Cancelled;
    };
    let (n, wanted) = match part {
        Part::Whole { question } => (question, None),
        Part::YesNo { question, option } => (question, Some(option)),
    };
    let Some(question) = ask.questions.get(n) else {
        return true;
    };
    for (i, option) in question.options.iter().enumerate() {
        if *selected == format!("q{n}_opt_{i}") && wanted.is_none_or(|wanted| wanted == i) {
            answer
                .answers
                .entry(question.id.clone())
                .or_default()
                .option_ids
                .push(option.id.clone());
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use longshore_protocol::value::question::QuestionOption;
    use serde_json::json;

    use super::*;

    fn ask() -> QuestionRequest {
        let question = |n: usize, multi_select, allow_other| Question {
            id: format!("q_{n}"),
            question: format!("Question {n}?"),
            header: format!("H{n}"),
            options: ["a", "b"]
                .iter()
                .enumerate()
                .map(|(i, label)| QuestionOption {
                    id: format!("opt_{n}_{i}"),
                    label: (*label).to_owned(),
                    description: if i == 0 {
                        "the first".to_owned()
                    } else {
                        String::new()
                    },
                })
                .collect(),
            multi_select,
            allow_other,
        };
        QuestionRequest {
            question_id: "q1".into(),
            session_id: "s".into(),
            agent_id: "main".into(),
            turn_id: "t1".into(),
            tool_call_id: "call_1".into(),
            questions: vec![question(0, false, false), question(1, true, true)],
            created_at: String::new(),
        }
    }

    #[test]
    fn a_form_has_a_field_for_each_question() {
        let offered = |n: usize| json!([{"const": format!("opt_{n}_0"), "title": "a", "description": "the first"}, {"const": format!("opt_{n}_1"), "title": "b"}]);
        assert_eq!(
            serde_json::to_value(form(&ask())).unwrap(),
            json!({
                "mode": "form",
                "sessionId": "s",
                "toolCallId": "call_1",
                "message": "Question 0?\nQuestion 1?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {
                        "q0": {"type": "string", "title": "H0", "description": "Question 0?", "oneOf": offered(0)},
                        "q1": {"type": "array", "title": "H1", "description": "Question 1?", "items": {"anyOf": offered(1)}},
                        "q1_other": {"type": "string", "title": "Other",
                            "description": "An answer in your own words, instead of the ones on offer"},
                    },
                    "required": ["q0"],
                },
            })
        );
    }

    #[test]
    fn forms_are_checked_again() {
        for (reply, expected) in [
            (
                json!({"action": "accept", "content": {"q0": "opt_0_1", "q1": ["opt_1_1", "opt_1_0", "x"], "q1_other": " mine "}}),
                json!({"answers": {"q_0": {"optionIds": ["opt_0_1"]}, "q_1": {"optionIds": ["opt_1_0", "opt_1_1"], "other": "mine"}}}),
            ),
            (
                json!({"action": "accept", "content": {"q0": "opt_1_1", "q0_other": "no", "q1": 7}}),
                json!({"answers": {}}),
            ),
            (json!({"action": "accept"}), json!({"answers": {}})),
            (
                json!({"action": "decline"}),
                json!({"answers": {}, "dismissed": true}),
            ),
            (
                json!({"action": "wave"}),
                json!({"answers": {}, "dismissed": true}),
            ),
            (json!(7), json!({"answers": {}, "dismissed": true})),
        ] {
            let raw = RawValue::from_string(reply.to_string()).unwrap();
            assert_eq!(
                serde_json::to_value(form_answer(&ask(), &raw)).unwrap(),
                expected,
                "{reply}"
            );
        }
        let mut single = ask();
        single.questions[0].allow_other = true;
        let raw = RawValue::from_string(
            json!({"action": "accept", "content": {"q0": "opt_0_0", "q0_other": "own"}})
                .to_string(),
        )
        .unwrap();
        let expected = json!({"answers": {"q_0": {"other": "own"}}});
        assert_eq!(
            serde_json::to_value(form_answer(&single, &raw)).unwrap(),
            expected
        );
    }

    #[test]
    fn permissions_stand_for_a_form_one_after_another() {
        let ask = ask();
        let parts = parts(&ask);
        let yes_no = |option| Part::YesNo {
            question: 1,
            option,
        };
        assert_eq!(parts, [Part::Whole { question: 0 }, yes_no(0), yes_no(1)]);
        let shown: Vec<Value> = parts
            .iter()
            .map(|part| {
                let request = serde_json::to_value(request(&ask, *part).unwrap()).unwrap();
                let options = request["options"].as_array().unwrap().iter();
                let options: Vec<String> = options
                    .map(|option| {
                        format!(
                            "{} {} {}",
                            option["optionId"].as_str().unwrap(),
                            option["name"].as_str().unwrap(),
                            option["kind"].as_str().unwrap()
                        )
                    })
                    .collect();
                json!([
                    request["toolCall"]["toolCallId"],
                    request["toolCall"]["title"],
                    options
                ])
            })
            .collect();
        assert_eq!(
            json!(shown),
            json!([
                [
                    "call_1",
                    "Question 0?",
                    [
                        "q0_opt_0 a allow_once",
                        "q0_opt_1 b allow_once",
                        "q0_skip Skip reject_once"
                    ]
                ],
                [
                    "call_1",
                    "Question 1? a?",
                    ["q1_opt_0 Yes allow_once", "q1_skip No reject_once"]
                ],
                [
                    "call_1",
                    "Question 1? b?",
                    ["q1_opt_1 Yes allow_once", "q1_skip No reject_once"]
                ],
            ])
        );
        let mut answer = QuestionAnswer::default();
        let selected = |id: &str| Outcome::Selected(id.to_owned());
        assert!(add(&ask, parts[0], &selected("q0_opt_1"), &mut answer));
        assert!(
            add(&ask, parts[1], &selected("q1_opt_1"), &mut answer),
            "not the answer that was asked about"
        );
        assert!(add(&ask, parts[1], &selected("q1_skip"), &mut answer));
        assert!(add(&ask, parts[2], &selected("q1_opt_1"), &mut answer));
        assert!(
            add(&ask, parts[2], &Outcome::Unreadable, &mut answer),
            "counts as skipped"
        );
        assert!(!add(&ask, parts[2], &Outcome::Cancelled, &mut answer));
        assert_eq!(
            serde_json::to_value(answer).unwrap(),
            json!({"answers": {"q_0": {"optionIds": ["opt_0_1"]}, "q_1": {"optionIds": ["opt_1_1"]}}})
        );
    }
}
