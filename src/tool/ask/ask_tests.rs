use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use futures::future::BoxFuture;
use longshore_protocol::id::ToolCallId;
use longshore_protocol::value::tool::ProgressStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::kernel::message::Part;
use crate::path::Workspace;
use crate::schema::Validator;
use crate::tool::{AskUser, Progress};

/// Answers what it was made with, and remembers what it was asked.
struct User {
    answer: Mutex<Option<AskOutcome>>,
    asked: Mutex<Vec<Question>>,
}

impl AskUser for User {
    fn ask(
        &self,
        _: ToolCallId,
        questions: Vec<Question>,
        _: CancellationToken,
    ) -> BoxFuture<'static, AskOutcome> {
        *self.asked.lock().unwrap() = questions;
        let answer = self.answer.lock().unwrap().take().unwrap();
        async move { answer }.boxed()
    }
}

struct Silent;

impl Progress for Silent {
    fn output(&self, _: ProgressStream, _: &str) {}

    fn status(&self, _: &str) {}
}

fn resolve(value: Value) -> Result<Call, String> {
    let tool = AskUserQuestion::new();
    Validator::compile(&tool.spec().parameters)
        .unwrap()
        .check(&value)?;
    let cx = CallCx {
        session: "s".into(),
        agent: "main".into(),
        workspace: Arc::new(Workspace::of_dir("/ws")),
        todos: Arc::default(),
        host_files: None,
    };
    tool.resolve(value, &cx).map_err(|refusal| refusal.message)
}

fn two_questions() -> Value {
    json!({"questions": [
        {"question": "Which?", "header": "Pick", "options": [{"label": "A, b"}, {"label": "C", "description": "see"}]},
        {"question": "What else?", "header": "More", "options": [{"label": "A, b"}, {"label": "D"}], "multi_select": true},
    ]})
}

async fn run(user: Option<Arc<User>>) -> Outcome {
    let call = resolve(two_questions()).unwrap();
    (call.execute)(ExecCx {
        call: "call_1".into(),
        cancel: CancellationToken::new(),
        accesses: Vec::new(),
        progress: Arc::new(Silent),
        ask_user: user.map(|user| user as Arc<dyn AskUser>),
        results_dir: PathBuf::new(),
    })
    .await
}

async fn ending(outcome: AskOutcome) -> (String, bool) {
    let user = Arc::new(User {
        answer: Mutex::new(Some(outcome)),
        asked: Mutex::default(),
    });
    let outcome = run(Some(Arc::clone(&user))).await;
    assert_eq!(user.asked.lock().unwrap().len(), 2);
    match outcome.output.as_slice() {
        [Part::Text(text)] => (text.to_string(), outcome.is_error),
        other => panic!("{other:?}"),
    }
}

fn choice(ids: &[&str], other: Option<&str>) -> Choice {
    Choice {
        option_ids: ids.iter().map(|&id| id.to_owned()).collect(),
        other: other.map(str::to_owned),
    }
}

async fn answers(answers: &[(&str, Choice)], dismissed: bool) -> (Value, bool) {
    let answers: BTreeMap<_, _> = answers
        .iter()
        .map(|(id, choice)| ((*id).to_owned(), choice.clone()))
        .collect();
    let answer = AskAnswer::Question(QuestionAnswer { answers, dismissed });
    let (text, is_error) = ending(AskOutcome::Answered {
        answer,
        by: "h1".into(),
    })
    .await;
    (
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
        is_error,
    )
}

#[tokio::test]
async fn answers_by_question_text() {
    let both = [
        ("q_0", choice(&["opt_0_1"], None)),
        ("q_1", choice(&["opt_1_0", "opt_1_1"], Some(" and E "))),
    ];
    assert_eq!(
        answers(&both, false).await,
        (
            json!({
                "answers": {"Which?": "C", "What else?": "A, b, D, and E"},
                "answers_structured": {"What else?": ["A, b", "D", "and E"]}
            }),
            false
        )
    );
    let own_words = [
        ("q_0", choice(&[], Some("neither"))),
        ("q_1", choice(&[], Some("  "))),
    ];
    assert_eq!(
        answers(&own_words, false).await,
        (json!({"answers": {"Which?": "neither"}}), false)
    );
}

#[tokio::test]
async fn skipped_and_dismissed_are_no_errors() {
    for dismissed in [false, true] {
        let (result, is_error) = answers(&[], dismissed).await;
        assert_eq!((result["answers"].clone(), is_error), (json!({}), false));
        assert_eq!(
            result["note"].as_str().unwrap().contains("closed"),
            dismissed
        );
    }
}

#[tokio::test]
async fn other_endings() {
    let (text, is_error) = answers(&[("q_0", choice(&["opt_1_0"], None))], false).await;
    assert!(
        is_error && text.as_str().unwrap().contains("not on offer"),
        "never another question's label"
    );
    for (outcome, expected) in [
        (
            AskOutcome::Unanswered {
                reason: "No host came.".to_owned(),
            },
            "could not be delivered: No host came. Decide",
        ),
        (AskOutcome::Withdrawn, "cancelled"),
        (AskOutcome::ModeChanged, "Decide yourself"),
    ] {
        let (text, is_error) = ending(outcome).await;
        assert!(is_error && text.contains(expected), "{text}");
    }
    let nobody = run(None).await;
    assert!(
        nobody.is_error
            && format!("{:?}", nobody.output).contains("Do not call AskUserQuestion again")
    );
}

#[test]
fn questions_as_hosts_get_them() {
    let call = resolve(two_questions()).unwrap();
    assert_eq!(call.title, "Ask 2 questions");
    let Display::Question { questions } = call.display else {
        panic!("no questions")
    };
    let ids: Vec<_> = questions
        .iter()
        .flat_map(|q| q.options.iter().map(|option| option.id.as_str()))
        .collect();
    assert_eq!(ids, ["opt_0_0", "opt_0_1", "opt_1_0", "opt_1_1"]);
    assert!(questions.iter().all(|question| question.allow_other));
    assert_eq!(
        questions
            .iter()
            .map(|question| question.multi_select)
            .collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn ambiguous_texts_are_refused() {
    let question = |text: &str, labels: [&str; 2]| json!({"question": text, "header": "h", "options": labels.map(|label| json!({"label": label}))});
    for (questions, expected) in [
        (
            json!([
                question("Same?", ["a", "b"]),
                question(" Same? ", ["a", "b"])
            ]),
            "«Same?» stands there twice",
        ),
        (
            json!([question("Which?", ["a", " a"])]),
            "«a» of «Which?» stands there twice",
        ),
        (json!([question(" ", ["a", "b"])]), "no text"),
        (json!([question("Which?", ["a", " "])]), "no label"),
        (json!([]), "at least 1 item"),
        (
            json!([{"question": "Q?", "header": "h", "options": [{"label": "only"}]}]),
            "at least 2 items",
        ),
    ] {
        let error = resolve(json!({"questions": questions})).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
