//! The decision table: policies in the order in which they are asked; the first that speaks decides.

use longshore_protocol::value::session::Mode;

use super::rule::{Rule, RuleSet};
use super::{Answer, Facts, Verdict, covering_grant, tools};
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::{Grant, Subject};

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Policy {
    /// Stable name, as it stands in verdicts, approval requests and logs.
    pub name: &'static str,
    judge: fn(&Ctx<'_>) -> Option<Judgement>,
}

/// The table. Rows that forbid come before those that approve; what can't be judged asks before anything approves.
pub const POLICIES: [Policy; 19] = [
    Policy {
        name: "question_in_auto",
        judge: question_in_auto,
    },
    Policy {
        name: "deny_rule",
        judge: deny_rule,
    },
    Policy {
        name: "unreadable_rule",
        judge: unreadable_rule,
    },
    Policy {
        name: "unjudged_deny_rule",
        judge: unjudged_deny_rule,
    },
    Policy {
        name: "unjudged_ask_rule",
        judge: unjudged_ask_rule,
    },
    Policy {
        name: "sensitive_in_auto",
        judge: sensitive_in_auto,
    },
    Policy {
        name: "guarded_in_auto",
        judge: guarded_in_auto,
    },
    Policy {
        name: "ask_rule_in_auto",
        judge: ask_rule_in_auto,
    },
    Policy {
        name: "auto_mode",
        judge: auto_mode,
    },
    Policy {
        name: "grant",
        judge: grant,
    },
    Policy {
        name: "ask_rule",
        judge: ask_rule,
    },
    Policy {
        name: "allow_rule",
        judge: allow_rule,
    },
    Policy {
        name: "sensitive_file",
        judge: sensitive_file,
    },
    Policy {
        name: "guarded_path",
        judge: guarded_path,
    },
    Policy {
        name: "yolo_mode",
        judge: yolo_mode,
    },
    Policy {
        name: "outside_workspace",
        judge: outside_workspace,
    },
    Policy {
        name: "default_approved",
        judge: default_approved,
    },
    Policy {
        name: "workspace_write",
        judge: workspace_write,
    },
    Policy {
        name: "fallback",
        judge: fallback,
    },
];

/// Judges a call. Never approves by default: the last row asks.
pub fn decide(facts: &Facts<'_>, rules: &RuleSet, grants: &[Grant]) -> Verdict {
    let cx = Ctx {
        facts,
        rules,
        grant: covering_grant(facts, grants),
    };
    POLICIES
        .iter()
        .find_map(|policy| {
            let Judgement {
                answer,
                reason,
                rule,
            } = (policy.judge)(&cx)?;
            Some(Verdict {
                answer,
                policy: policy.name,
                reason,
                rule,
            })
        })
        .unwrap_or_else(|| {
            let Judgement {
                answer,
                reason,
                rule,
            } = ask("No policy speaks about this call.");
            Verdict {
                answer,
                policy: "fallback",
                reason,
                rule,
            }
        })
}

struct Ctx<'a> {
    facts: &'a Facts<'a>,
    rules: &'a RuleSet,
    grant: Option<&'a Grant>,
}

struct Judgement {
    answer: Answer,
    reason: String,
    rule: Option<String>,
}

impl Ctx<'_> {
    fn is_auto(&self) -> bool {
        self.facts.mode == Mode::Auto
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.facts.tool)
    }

    /// The allow rule that covers the call. A command is covered only by a rule for exactly it, in the session's own
    /// directory: everything else would need its parts judged.
    fn allow_rule(&self) -> Option<&Rule> {
        self.rules
            .allow
            .iter()
            .find(|rule| match self.facts.subject {
                Subject::Command { command, cwd } => {
                    rule.names(self.facts.tool)
                        && rule.is_command(command)
                        && *cwd == self.rules.cwd
                }
                _ => self.facts.tool != tools::BASH && rule.matches(self.facts),
            })
    }

    fn ask_rule(&self) -> Option<&Rule> {
        self.rules.ask.iter().find(|rule| rule.matches(self.facts))
    }

    /// A person has said yes to this call, by a rule or by an earlier answer.
    fn is_covered(&self) -> bool {
        self.grant.is_some() || self.allow_rule().is_some()
    }

    fn sensitive(&self) -> Option<&RealAccess> {
        self.facts.accesses.iter().find(|access| access.sensitive)
    }

    fn guarded(&self) -> Option<&RealAccess> {
        self.facts
            .accesses
            .iter()
            .find(|access| access.guarded && (access.access.writes() || in_git_dir(access)))
    }

    fn outside(&self) -> Option<&RealAccess> {
        self.facts.accesses.iter().find(|access| {
            matches!(access.access, Access::File(_))
                && !(access.real_inside && (access.inside || !access.access.writes()))
        })
    }
}

fn question_in_auto(cx: &Ctx<'_>) -> Option<Judgement> {
    (cx.is_auto() && cx.facts.tool == tools::ASK_USER).then(|| Judgement {
        answer: Answer::Deny {
            advice: "The user has chosen the auto mode and is not to be asked. Decide yourself from what you know, and \
                     say in your answer what you assumed."
                .to_owned(),
        },
        reason: "Questions are not put to the user in auto mode.".to_owned(),
        rule: None,
    })
}

fn deny_rule(cx: &Ctx<'_>) -> Option<Judgement> {
    let is_command = matches!(cx.facts.subject, Subject::Command { .. });
    let rule = cx.rules.deny.iter().find(|rule| {
        // An excluded pattern speaks of the parts of a command, and those can't be judged yet.
        rule.matches(cx.facts) && !(is_command && rule.is_negated())
    })?;
    Some(by_rule(
        Answer::Deny {
            advice: "Do not try to reach the same by another tool; find a way that does not need it, or tell the user \
                     what is in the way."
                .to_owned(),
        },
        format!("The rule `{}` denies this call of {}{}.", rule.text, cx.facts.tool, because(rule)),
        rule,
    ))
}

fn unreadable_rule(cx: &Ctx<'_>) -> Option<Judgement> {
    let rule = cx
        .rules
        .unreadable
        .iter()
        .find(|rule| rule.names(cx.facts.tool))?;
    Some(ask_always(
        format!(
            "The rule `{}` can't be read and might deny this call, so it is asked about.",
            rule.text
        ),
        rule,
    ))
}

fn unjudged_deny_rule(cx: &Ctx<'_>) -> Option<Judgement> {
    let rule = cx
        .rules
        .deny
        .iter()
        .find(|rule| is_shell(cx) && rule.names(cx.facts.tool))?;
    Some(ask_always(
        format!(
            "The rule `{}` can't yet be checked against every part of a shell command, so each command is asked about.",
            rule.text
        ),
        rule,
    ))
}

fn unjudged_ask_rule(cx: &Ctx<'_>) -> Option<Judgement> {
    if cx.grant.is_some() || (cx.is_auto() && cx.facts.auto_ask_denies && cx.ask_rule().is_some()) {
        return None;
    }
    let rule = cx
        .rules
        .ask
        .iter()
        .find(|rule| is_shell(cx) && rule.names(cx.facts.tool))?;
    Some(by_rule(
        Answer::Ask { grantable: true },
        format!(
            "The rule `{}` asks about shell commands{}.",
            rule.text,
            because(rule)
        ),
        rule,
    ))
}

fn sensitive_in_auto(cx: &Ctx<'_>) -> Option<Judgement> {
    let access = cx
        .sensitive()
        .filter(|_| cx.is_auto() && !cx.is_covered())?;
    Some(deny_in_auto(format!(
        "{} may hold secrets and is not touched in auto mode.",
        shown(access)
    )))
}

fn guarded_in_auto(cx: &Ctx<'_>) -> Option<Judgement> {
    let access = cx.guarded().filter(|_| cx.is_auto() && !cx.is_covered())?;
    Some(deny_in_auto(format!(
        "{} controls what runs here and is not touched in auto mode.",
        shown(access)
    )))
}

fn ask_rule_in_auto(cx: &Ctx<'_>) -> Option<Judgement> {
    if !cx.is_auto() || !cx.facts.auto_ask_denies || cx.grant.is_some() {
        return None;
    }
    let rule = cx.ask_rule()?;
    Some(by_rule(
        Answer::Deny {
            advice: "Find a way that does not need it, or tell the user what is in the way."
                .to_owned(),
        },
        format!(
            "The rule `{}` asks about this call, which is a refusal in auto mode.",
            rule.text
        ),
        rule,
    ))
}

fn auto_mode(cx: &Ctx<'_>) -> Option<Judgement> {
    cx.is_auto()
        .then(|| allow("Auto mode runs calls without asking."))
}

fn grant(cx: &Ctx<'_>) -> Option<Judgement> {
    let grant = cx.grant?;
    Some(Judgement {
        answer: Answer::Allow,
        reason: "It was allowed for this session.".to_owned(),
        rule: Some(grant.rule.clone()),
    })
}

fn ask_rule(cx: &Ctx<'_>) -> Option<Judgement> {
    let rule = cx.ask_rule()?;
    Some(by_rule(
        Answer::Ask { grantable: true },
        format!(
            "The rule `{}` asks about this call{}.",
            rule.text,
            because(rule)
        ),
        rule,
    ))
}

fn allow_rule(cx: &Ctx<'_>) -> Option<Judgement> {
    let rule = cx.allow_rule()?;
    Some(by_rule(
        Answer::Allow,
        format!("The rule `{}` allows this call.", rule.text),
        rule,
    ))
}

fn sensitive_file(cx: &Ctx<'_>) -> Option<Judgement> {
    Some(ask(format!("{} may hold secrets.", shown(cx.sensitive()?))))
}

fn guarded_path(cx: &Ctx<'_>) -> Option<Judgement> {
    Some(ask(format!(
        "{} controls what runs here.",
        shown(cx.guarded()?)
    )))
}

fn yolo_mode(cx: &Ctx<'_>) -> Option<Judgement> {
    (cx.facts.mode == Mode::Yolo).then(|| allow("Yolo mode runs calls without asking."))
}

fn outside_workspace(cx: &Ctx<'_>) -> Option<Judgement> {
    let access = cx.outside()?;
    let by_link = if access.inside && !access.real_inside {
        ", through a link"
    } else {
        ""
    };
    let verb = if access.access.writes() {
        "writes"
    } else {
        "reads"
    };
    Some(ask(format!(
        "The call {verb} {}, which is outside the workspace{by_link}.",
        shown(access)
    )))
}

fn default_approved(cx: &Ctx<'_>) -> Option<Judgement> {
    let looks_only = !cx
        .facts
        .accesses
        .iter()
        .any(|access| access.access.writes());
    let approved =
        cx.is_one_of(&tools::HARMLESS) || (cx.is_one_of(&tools::FILE_READERS) && looks_only);
    approved.then(|| allow("The tool only looks, or changes nothing outside the session."))
}

fn workspace_write(cx: &Ctx<'_>) -> Option<Judgement> {
    let accesses = cx.facts.accesses;
    let inside = !accesses.is_empty()
        && accesses.iter().all(|access| {
            matches!(access.access, Access::File(_))
                && access.inside
                && access.real_inside
                && !access.guarded
        });
    (cx.is_one_of(&tools::FILE_WRITERS) && inside && cx.facts.in_git_tree)
        .then(|| allow("The call writes inside the workspace, which is a git work tree."))
}

#[expect(clippy::unnecessary_wraps, reason = "a row like the others")]
fn fallback(cx: &Ctx<'_>) -> Option<Judgement> {
    let reason = if matches!(cx.facts.subject, Subject::Command { .. }) {
        "Shell commands are asked about.".to_owned()
    } else if cx.is_one_of(&tools::FILE_WRITERS) && !cx.facts.in_git_tree {
        "The workspace is not a git work tree, so that a write can't be undone.".to_owned()
    } else {
        format!("No rule allows this call of {}.", cx.facts.tool)
    };
    Some(ask(reason))
}

fn is_shell(cx: &Ctx<'_>) -> bool {
    cx.facts.tool == tools::BASH || matches!(cx.facts.subject, Subject::Command { .. })
}

/// Reading longshore's own directory is ordinary, since long outputs are kept there; a repository's control directory
/// is not.
fn in_git_dir(access: &RealAccess) -> bool {
    let Access::File(file) = &access.access else {
        return false;
    };
    [&file.path, &access.real].into_iter().any(|path| {
        path.components()
            .any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
    })
}

fn shown(access: &RealAccess) -> String {
    match &access.access {
        Access::All => "It".to_owned(),
        Access::File(file) if file.path == access.real => format!("`{}`", file.path.display()),
        Access::File(file) => format!(
            "`{}` (really `{}`)",
            file.path.display(),
            access.real.display()
        ),
    }
}

fn because(rule: &Rule) -> String {
    rule.reason
        .as_ref()
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default()
}

fn allow(reason: &str) -> Judgement {
    Judgement {
        answer: Answer::Allow,
        reason: reason.to_owned(),
        rule: None,
    }
}

fn ask(reason: impl Into<String>) -> Judgement {
    Judgement {
        answer: Answer::Ask { grantable: true },
        reason: reason.into(),
        rule: None,
    }
}

fn ask_always(reason: String, rule: &Rule) -> Judgement {
    by_rule(Answer::Ask { grantable: false }, reason, rule)
}

fn by_rule(answer: Answer, reason: String, rule: &Rule) -> Judgement {
    Judgement {
        answer,
        reason,
        rule: Some(rule.text.clone()),
    }
}

fn deny_in_auto(reason: String) -> Judgement {
    Judgement {
        answer: Answer::Deny {
            advice: "An allow rule for exactly this path, or the manual or yolo mode, would let the user decide. Find \
                     another way, or tell the user what is in the way."
                .to_owned(),
        },
        reason,
        rule: None,
    }
}
