//! Whether an answer is one of those on offer: the same check for answers of hosts and for those given out of band.
//!
//! An answer is never bent into another one: what is not on offer is refused with a sentence that says why.

use std::collections::BTreeSet;

use longshore_protocol::value::approval::{
    ApprovalAnswer, ApprovalRequest, Decision, OptionId, Scope,
};
use longshore_protocol::value::question::{Choice, Question, QuestionAnswer, QuestionRequest};

use crate::kernel::ask::{Ask, AskAnswer};

/// Checks an answer and writes it in its one form: an approval by `option_id`, a question without empty choices.
pub(super) fn check(ask: &Ask, answer: AskAnswer) -> Result<AskAnswer, String> {
    match (ask, answer) {
        (Ask::Approval(ask), AskAnswer::Approval(answer)) => {
            approval(ask, answer).map(AskAnswer::Approval)
        }
        (Ask::Question(ask), AskAnswer::Question(answer)) => {
            question(ask, answer).map(AskAnswer::Question)
        }
        (Ask::Approval(_), AskAnswer::Question(_)) => {
            Err("an approval can't be answered with choices".to_owned())
        }
        (Ask::Question(_), AskAnswer::Approval(_)) => {
            Err("a question can't be answered with a decision".to_owned())
        }
    }
}

fn approval(ask: &ApprovalRequest, answer: ApprovalAnswer) -> Result<ApprovalAnswer, String> {
    let decided = answer
        .decision
        .map(|decision| match (decision, answer.scope) {
            (Decision::Allow, None | Some(Scope::Once)) => OptionId::AllowOnce,
            (Decision::Allow, Some(Scope::Session)) => OptionId::AllowSession,
            (Decision::Reject, _) => OptionId::Reject,
            (Decision::Cancel, _) => OptionId::RejectStop,
        });
    let chosen = match (answer.option_id, decided) {
        (None, None) => return Err("the answer has neither optionId nor decision".to_owned()),
        (Some(option), Some(decided)) if option != decided => {
            return Err("optionId and decision contradict each other".to_owned());
        }
        (Some(option), _) | (None, Some(option)) => option,
    };
    if !ask.options.iter().any(|option| option.option_id == chosen) {
        let offered: Vec<_> = ask
            .options
            .iter()
            .map(|option| option_name(option.option_id))
            .collect();
        return Err(format!(
            "{} is not on offer, only {} are",
            option_name(chosen),
            offered.join(", ")
        ));
    }
    Ok(ApprovalAnswer {
        option_id: Some(chosen),
        decision: None,
        scope: None,
        ..answer
    })
}

fn option_name(option: OptionId) -> &'static str {
    match option {
        OptionId::AllowOnce => "allow_once",
        OptionId::AllowSession => "allow_session",
        OptionId::Reject => "reject",
        OptionId::RejectStop => "reject_stop",
    }
}

fn question(ask: &QuestionRequest, answer: QuestionAnswer) -> Result<QuestionAnswer, String> {
    if answer.dismissed {
        return Ok(QuestionAnswer {
            dismissed: true,
            ..QuestionAnswer::default()
        });
    }
    let mut answers = answer.answers;
    for (id, chosen) in &mut answers {
        let question = ask
            .questions
            .iter()
            .find(|question| question.id == *id)
            .ok_or_else(|| format!("there is no question {id:?}"))?;
        choice(question, chosen)?;
    }
    answers.retain(|_, chosen| *chosen != Choice::default());
    Ok(QuestionAnswer {
        answers,
        dismissed: false,
    })
}

fn choice(question: &Question, chosen: &mut Choice) -> Result<(), String> {
    let id = &question.id;
    let mut seen = BTreeSet::new();
    for option in &chosen.option_ids {
        if !question.options.iter().any(|offered| offered.id == *option) {
            return Err(format!("question {id:?} has no option {option:?}"));
        }
        if !seen.insert(option) {
            return Err(format!(
                "option {option:?} of question {id:?} is chosen twice"
            ));
        }
    }
    if chosen
        .other
        .as_ref()
        .is_some_and(|text| text.trim().is_empty())
    {
        chosen.other = None;
    }
    if chosen.other.is_some() && !question.allow_other {
        return Err(format!("question {id:?} takes no answer in own words"));
    }
    let n_chosen = chosen.option_ids.len() + usize::from(chosen.other.is_some());
    if n_chosen > 1 && !question.multi_select {
        return Err(format!("question {id:?} takes one answer, not {n_chosen}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::hub::fakes;

    fn check_json(ask: &Ask, answer: Value) -> Result<Value, String> {
        let answer = match ask {
            Ask::Approval(_) => AskAnswer::Approval(serde_json::from_value(answer).unwrap()),
            Ask::Question(_) => AskAnswer::Question(serde_json::from_value(answer).unwrap()),
        };
        check(ask, answer).map(|answer| match answer {
            AskAnswer::Approval(answer) => serde_json::to_value(answer).unwrap(),
            AskAnswer::Question(answer) => serde_json::to_value(answer).unwrap(),
        })
    }

    /// On offer: `allow_once`, `allow_session`, `reject`.
    #[test]
    fn approvals_are_options_on_offer_in_either_spelling() {
        let ask = fakes::approval("s1", "a1");
        for (answer, expected) in [
            (json!({"optionId": "allow_once"}), Ok("allow_once")),
            (json!({"decision": "allow"}), Ok("allow_once")),
            (
                json!({"decision": "allow", "scope": "once"}),
                Ok("allow_once"),
            ),
            (
                json!({"decision": "allow", "scope": "session"}),
                Ok("allow_session"),
            ),
            (
                json!({"decision": "reject", "scope": "session"}),
                Ok("reject"),
            ),
            (
                json!({"optionId": "reject", "decision": "reject"}),
                Ok("reject"),
            ),
            (
                json!({"decision": "cancel"}),
                Err("reject_stop is not on offer"),
            ),
            (
                json!({"optionId": "reject", "decision": "allow"}),
                Err("contradict"),
            ),
            (json!({"scope": "once"}), Err("neither")),
            (json!({}), Err("neither")),
        ] {
            match (check_json(&ask, answer.clone()), expected) {
                (Ok(checked), Ok(option)) => {
                    assert_eq!(checked, json!({"optionId": option}), "{answer}");
                }
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{answer}: {reason}"),
                (got, _) => panic!("{answer}: {got:?}"),
            }
        }
        let checked = check_json(
            &ask,
            json!({"decision": "reject", "feedback": "no", "editedInput": {"a": 1}}),
        );
        assert_eq!(
            checked,
            Ok(json!({"optionId": "reject", "feedback": "no", "editedInput": {"a": 1}}))
        );
    }

    /// `q_0` takes one of two options; `q_1` several of two, or own words.
    #[test]
    fn questions_take_only_what_they_offer() {
        let ask = fakes::question("s1", "q1");
        let one = |id: &str, choice: Value| json!({"answers": {id: choice}});
        for (answer, expected) in [
            (
                one("q_0", json!({"optionIds": ["opt_0_1"]})),
                Ok(one("q_0", json!({"optionIds": ["opt_0_1"]}))),
            ),
            (
                one(
                    "q_1",
                    json!({"optionIds": ["opt_1_0", "opt_1_1"], "other": "both"}),
                ),
                Ok(one(
                    "q_1",
                    json!({"optionIds": ["opt_1_0", "opt_1_1"], "other": "both"}),
                )),
            ),
            (
                one("q_1", json!({"other": " "})),
                Ok(json!({"answers": {}})),
            ),
            (json!({}), Ok(json!({"answers": {}}))),
            (
                json!({"dismissed": true, "answers": {"q_9": {}}}),
                Ok(json!({"answers": {}, "dismissed": true})),
            ),
            (one("q_9", json!({})), Err("no question")),
            (
                one("q_0", json!({"optionIds": ["opt_1_0"]})),
                Err("no option"),
            ),
            (
                one("q_0", json!({"optionIds": ["opt_0_0", "opt_0_1"]})),
                Err("takes one answer"),
            ),
            (one("q_0", json!({"other": "mine"})), Err("own words")),
            (
                one("q_1", json!({"optionIds": ["opt_1_0", "opt_1_0"]})),
                Err("twice"),
            ),
        ] {
            match (check_json(&ask, answer.clone()), expected) {
                (Ok(checked), Ok(expected)) => assert_eq!(checked, expected, "{answer}"),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{answer}: {reason}"),
                (got, _) => panic!("{answer}: {got:?}"),
            }
        }
    }

    #[test]
    fn an_answer_of_the_other_kind_is_refused() {
        let approval = AskAnswer::Approval(ApprovalAnswer::default());
        assert!(check(&fakes::question("s1", "q1"), approval).is_err());
        let question = AskAnswer::Question(QuestionAnswer::default());
        assert!(check(&fakes::approval("s1", "a1"), question).is_err());
    }
}
