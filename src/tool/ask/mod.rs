//! Structured questions to the user.

use std::collections::HashSet;
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use longshore_protocol::value::question::{Choice, Question, QuestionAnswer, QuestionOption};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::output::one_line;
use super::{Call, CallCx, ExecCx, Outcome, Refusal, Tool, ToolSpec, args};
use crate::kernel::ask::{AskAnswer, AskOutcome};
use crate::kernel::rule::Subject;

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskArgs {
    /// One to four questions, asked together.
    #[schemars(length(min = 1, max = 4))]
    questions: Vec<QuestionArg>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuestionArg {
    /// The question, ending in a question mark.
    #[schemars(length(min = 1))]
    question: String,
    /// A label of at most 12 characters.
    header: String,
    /// Two to four answers to choose from.
    #[schemars(length(min = 2, max = 4))]
    options: Vec<OptionArg>,
    /// Whether several options may be chosen.
    #[serde(default)]
    multi_select: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OptionArg {
    /// A few words.
    #[schemars(length(min = 1))]
    label: String,
    /// What choosing it means.
    #[serde(default)]
    description: String,
}

/// AskUserQuestion: puts questions to whoever is attached.
#[derive(Debug)]
pub struct AskUserQuestion {
    spec: ToolSpec,
}

impl AskUserQuestion {
    /// The tool's name.
    pub const NAME: &'static str = "AskUserQuestion";

    /// Makes the tool.
    pub fn new() -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("ask.md").trim().into(),
            parameters: Arc::new(args::schema_of::<AskArgs>()),
            dedupe: false,
            own_budget: false,
        };
        Self { spec }
    }
}

impl Default for AskUserQuestion {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for AskUserQuestion {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, _: &CallCx) -> Result<Call, Refusal> {
        let args: AskArgs = args::typed(args)?;
        check_texts(&args.questions)?;
        let questions: Vec<_> = args
            .questions
            .into_iter()
            .enumerate()
            .map(to_question)
            .collect();
        let title = match questions.as_slice() {
            [only] => format!("Ask: {}", one_line(&only.question)),
            several => format!("Ask {} questions", several.len()),
        };
        Ok(Call {
            accesses: Vec::new(),
            title,
            display: Display::Question {
                questions: questions.clone(),
            },
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |cx| ask(questions, cx).boxed()),
        })
    }
}

/// Answers are told by text, so texts must tell questions and options apart.
fn check_texts(questions: &[QuestionArg]) -> Result<(), Refusal> {
    let mut texts = HashSet::new();
    for question in questions {
        let text = question.question.trim();
        if text.is_empty() {
            return Err(Refusal::new("A question has no text. Nothing was asked."));
        }
        if !texts.insert(text) {
            return Err(Refusal::new(format!(
                "The question «{text}» stands there twice. Nothing was asked."
            )));
        }
        let mut labels = HashSet::new();
        for option in &question.options {
            let label = option.label.trim();
            if label.is_empty() {
                return Err(Refusal::new(format!(
                    "An option of «{text}» has no label. Nothing was asked."
                )));
            }
            if !labels.insert(label) {
                return Err(Refusal::new(format!(
                    "The option «{label}» of «{text}» stands there twice. Nothing was asked."
                )));
            }
        }
    }
    Ok(())
}

fn to_question((index, arg): (usize, QuestionArg)) -> Question {
    let options = arg
        .options
        .into_iter()
        .enumerate()
        .map(|(option, arg)| QuestionOption {
            id: format!("opt_{index}_{option}"),
            label: arg.label.trim().to_owned(),
            description: arg.description,
        });
    Question {
        id: format!("q_{index}"),
        question: arg.question.trim().to_owned(),
        header: arg.header,
        options: options.collect(),
        multi_select: arg.multi_select,
        allow_other: true,
    }
}

async fn ask(questions: Vec<Question>, cx: ExecCx) -> Outcome {
    let Some(user) = cx.ask_user else {
        return Outcome::failed(
            "Nobody who is attached can answer questions of this kind. Do not call AskUserQuestion again; put the \
             question in your answer as text, or decide yourself.",
        );
    };
    let answer = user.ask(cx.call, questions.clone(), cx.cancel).await;
    match answer {
        AskOutcome::Answered {
            answer: AskAnswer::Question(answer),
            ..
        } => answered(&questions, &answer),
        AskOutcome::Answered {
            answer: AskAnswer::Approval(_),
            ..
        } => undelivered("the answer was of another kind"),
        AskOutcome::Unanswered { reason } => undelivered(reason.trim_end_matches('.')),
        AskOutcome::Withdrawn => {
            Outcome::failed("The question was taken back, because the turn was cancelled.")
        }
        AskOutcome::ModeChanged => Outcome::failed(
            "The user switched to a mode in which questions are not asked. Decide yourself, by what you know of their \
             wishes.",
        ),
    }
}

fn undelivered(reason: &str) -> Outcome {
    Outcome::failed(format!(
        "The question could not be delivered: {reason}. Decide yourself, or put the question in your answer as text."
    ))
}

/// The answers by question text, as a model reads them best; several choices also as a list, since labels may hold
/// commas.
fn answered(questions: &[Question], answer: &QuestionAnswer) -> Outcome {
    let (mut answers, mut structured) = (Map::new(), Map::new());
    if !answer.dismissed {
        for question in questions {
            let Some(choice) = answer.answers.get(&question.id) else {
                continue;
            };
            let Some(chosen) = chosen(question, choice) else {
                return undelivered("the answer named an option that was not on offer");
            };
            if chosen.is_empty() {
                continue;
            }
            answers.insert(question.question.clone(), chosen.join(", ").into());
            if question.multi_select {
                structured.insert(question.question.clone(), chosen.into());
            }
        }
    }
    let mut result = json!({"answers": answers});
    if !structured.is_empty() {
        result["answers_structured"] = structured.into();
    }
    if result["answers"].as_object().is_some_and(Map::is_empty) {
        result["note"] = if answer.dismissed {
            "The user closed the questions without answering. Go on by your own judgement, or ask in text.".into()
        } else {
            "The user skipped every question. Go on by your own judgement.".into()
        };
    }
    Outcome::text(result.to_string())
}

/// The labels chosen and the user's own words; none where an id is unknown.
fn chosen(question: &Question, choice: &Choice) -> Option<Vec<String>> {
    let label = |id: &String| {
        question
            .options
            .iter()
            .find(|option| option.id == *id)
            .map(|option| option.label.clone())
    };
    let mut chosen: Vec<String> = choice.option_ids.iter().map(label).collect::<Option<_>>()?;
    chosen.extend(
        choice
            .other
            .iter()
            .map(|words| words.trim().to_owned())
            .filter(|words| !words.is_empty()),
    );
    Some(chosen)
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
