//! The decision table, row by row.

use super::*;
use crate::kernel::access::Access;
use crate::kernel::rule::{RuleDecision, RuleText};

/// A call and the circumstances it is judged in; the default is an Edit inside a git work tree, in manual mode.
#[derive(Clone)]
struct Case {
    tool: &'static str,
    subject: Subject,
    accesses: Vec<RealAccess>,
    mode: Mode,
    in_git_tree: bool,
    auto_ask_denies: bool,
    rules: Vec<(RuleDecision, &'static str)>,
    grants: Vec<Grant>,
}

impl Case {
    fn new(tool: &'static str, subject: Subject, accesses: Vec<RealAccess>) -> Self {
        Self {
            tool,
            subject,
            accesses,
            mode: Mode::Manual,
            in_git_tree: true,
            auto_ask_denies: false,
            rules: Vec::new(),
            grants: Vec::new(),
        }
    }

    fn bash(command: &str) -> Self {
        let subject = Subject::Command {
            command: command.to_owned(),
            cwd: "/w".into(),
        };
        Self::new("Bash", subject, vec![RealAccess::all()])
    }

    fn edit(path: &str) -> Self {
        Self::new(
            "Edit",
            Subject::Path(path.into()),
            vec![placed(Access::read_write(path), path)],
        )
    }

    fn write(path: &str) -> Self {
        Self::new(
            "Write",
            Subject::Path(path.into()),
            vec![placed(Access::write(path), path)],
        )
    }

    fn read(path: &str) -> Self {
        Self::new(
            "Read",
            Subject::Path(path.into()),
            vec![placed(Access::read(path), path)],
        )
    }

    fn grep(root: &str) -> Self {
        Self::new(
            "Grep",
            Subject::Text("x".to_owned()),
            vec![placed(Access::search(root), root)],
        )
    }

    fn plain(tool: &'static str) -> Self {
        Self::new(tool, Subject::None, Vec::new())
    }

    fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    fn rule(mut self, decision: RuleDecision, pattern: &'static str) -> Self {
        self.rules.push((decision, pattern));
        self
    }

    fn real(mut self, path: &str) -> Self {
        let access = &self.accesses[0].access.clone();
        self.accesses = vec![RealAccess {
            real_inside: Path::new(path).starts_with("/w"),
            crosses_link: true,
            real: path.into(),
            access: access.clone(),
            ..self.accesses[0].clone()
        }];
        self
    }

    fn sensitive(mut self) -> Self {
        self.accesses[0].sensitive = true;
        self
    }

    fn guarded(mut self) -> Self {
        self.accesses[0].guarded = true;
        self
    }

    fn outside_git(mut self) -> Self {
        self.in_git_tree = false;
        self
    }

    fn auto_ask_denies(mut self) -> Self {
        self.auto_ask_denies = true;
        self
    }

    /// As after "allow for this session" to `other`.
    fn granted(mut self, other: &Self) -> Self {
        let grant = grant_for(other.tool, &other.subject, &other.accesses).expect("a grant");
        self.grants.push(grant);
        self
    }

    fn judge(&self) -> Verdict {
        let rules: Vec<RuleText> = self
            .rules
            .iter()
            .map(|(decision, pattern)| RuleText {
                decision: *decision,
                pattern: (*pattern).to_owned(),
                reason: Some("house rule".to_owned()),
                place: "/c.toml:1".to_owned(),
            })
            .collect();
        let anchors = Anchors {
            cwd: "/w".into(),
            real_cwd: "/w".into(),
            home: Some("/home/u".into()),
            ignore_case: false,
        };
        let (rules, _) = RuleSet::compile(&rules, &anchors);
        let facts = Facts {
            tool: self.tool,
            subject: &self.subject,
            accesses: &self.accesses,
            mode: self.mode,
            in_git_tree: self.in_git_tree,
            auto_ask_denies: self.auto_ask_denies,
        };
        decide(&facts, &rules, &self.grants)
    }

    /// Judges and compares, as `allow policy`, `ask policy`, `ask! policy` (no grant helps) or `deny policy`.
    #[track_caller]
    fn gives(&self, expected: &str) {
        let verdict = self.judge();
        let answer = match &verdict.answer {
            Answer::Allow => "allow",
            Answer::Ask { grantable: true } => "ask",
            Answer::Ask { grantable: false } => "ask!",
            Answer::Deny { advice } => {
                assert!(advice.ends_with('.'), "{advice}");
                "deny"
            }
        };
        assert_eq!(
            format!("{answer} {}", verdict.policy),
            expected,
            "{verdict:?}"
        );
        assert!(verdict.reason.ends_with('.'), "{}", verdict.reason);
    }
}

use std::path::Path;

fn placed(access: Access, path: &str) -> RealAccess {
    let inside = Path::new(path).starts_with("/w");
    RealAccess {
        access,
        real: path.into(),
        inside,
        real_inside: inside,
        ..RealAccess::all()
    }
}

use Mode::{Auto, Manual, Yolo};
use RuleDecision::{Allow, Ask, Deny, Unreadable};

#[test]
fn without_rules_by_mode() {
    // Call, manual, yolo, auto.
    let cases = [
        (
            Case::edit("/w/a"),
            "allow workspace_write",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::write("/w/a"),
            "allow workspace_write",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::write("/w/a").outside_git(),
            "ask fallback",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::write("/o/a"),
            "ask outside_workspace",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::edit("/w/link/a").real("/o/a"),
            "ask outside_workspace",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::edit("/o/link").real("/w/a"),
            "ask outside_workspace",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::edit("/w/link/a").real("/w/b/a"),
            "allow workspace_write",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::read("/w/a"),
            "allow default_approved",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::read("/o/a"),
            "ask outside_workspace",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::read("/w/link").real("/o/a"),
            "ask outside_workspace",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::read("/o/link").real("/w/a"),
            "allow default_approved",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::grep("/w"),
            "allow default_approved",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::grep("/o"),
            "ask outside_workspace",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::bash("ls"),
            "ask fallback",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::plain("TodoList"),
            "allow default_approved",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::plain("AskUserQuestion"),
            "allow default_approved",
            "allow yolo_mode",
            "deny question_in_auto",
        ),
        (
            Case::plain("mcp__x__y"),
            "ask fallback",
            "allow yolo_mode",
            "allow auto_mode",
        ),
        (
            Case::edit("/w/.env").sensitive(),
            "ask sensitive_file",
            "ask sensitive_file",
            "deny sensitive_in_auto",
        ),
        (
            Case::write("/w/.git/config").guarded(),
            "ask guarded_path",
            "ask guarded_path",
            "deny guarded_in_auto",
        ),
        (
            Case::write("/w/.longshore/local.toml").guarded(),
            "ask guarded_path",
            "ask guarded_path",
            "deny guarded_in_auto",
        ),
        (
            Case::write("/w/.mcp.json").guarded(),
            "ask guarded_path",
            "ask guarded_path",
            "deny guarded_in_auto",
        ),
        (
            Case::read("/w/.git/config").guarded(),
            "ask guarded_path",
            "ask guarded_path",
            "deny guarded_in_auto",
        ),
        (
            Case::read("/w/.longshore/x").guarded(),
            "allow default_approved",
            "allow yolo_mode",
            "allow auto_mode",
        ),
    ];
    for (case, manual, yolo, auto) in cases {
        case.clone().mode(Manual).gives(manual);
        case.clone().mode(Yolo).gives(yolo);
        case.mode(Auto).gives(auto);
    }
}

#[test]
fn a_reading_tool_that_would_write_is_not_approved_by_its_name() {
    Case::new(
        "Read",
        Subject::Path("/w/a".into()),
        vec![placed(Access::write("/w/a"), "/w/a")],
    )
    .gives("ask fallback");
    Case::new("Write", Subject::Path("/w/a".into()), vec![]).gives("ask fallback");
    Case::new(
        "Write",
        Subject::Path("/w/a".into()),
        vec![RealAccess::all()],
    )
    .gives("ask fallback");
}

#[test]
fn classes_of_rules_in_order() {
    let edit = Case::edit("/o/a")
        .rule(Ask, "Edit(/o/*)")
        .rule(Allow, "Edit");
    edit.gives("ask ask_rule");
    edit.clone().granted(&edit).gives("allow grant");
    edit.clone()
        .granted(&edit)
        .rule(Deny, "Edit(/o/a)")
        .gives("deny deny_rule");
    Case::edit("/o/a")
        .rule(Allow, "Edit(/o/*)")
        .gives("allow allow_rule");
    for mode in [Manual, Yolo, Auto] {
        Case::read("/w/a")
            .rule(Deny, "Read")
            .rule(Allow, "Read")
            .mode(mode)
            .gives("deny deny_rule");
        Case::read("/w/a")
            .rule(Deny, "*")
            .mode(mode)
            .gives("deny deny_rule");
    }
    Case::read("/w/a")
        .rule(Ask, "Read")
        .mode(Yolo)
        .gives("ask ask_rule");
    Case::read("/w/link")
        .real("/o/a")
        .rule(Allow, "Read(/w/**)")
        .gives("ask outside_workspace");
    Case::read("/o/a")
        .rule(Allow, "Read(/o/**)")
        .gives("allow allow_rule");
}

#[test]
fn ask_rules_in_auto() {
    let read = Case::read("/w/a").rule(Ask, "Read").mode(Auto);
    read.gives("allow auto_mode");
    let read = read.auto_ask_denies();
    read.gives("deny ask_rule_in_auto");
    read.clone().granted(&read).gives("allow auto_mode");
    Case::bash("ls")
        .rule(Ask, "Bash")
        .mode(Auto)
        .auto_ask_denies()
        .gives("deny ask_rule_in_auto");
    Case::bash("ls")
        .rule(Ask, "Bash(rm *)")
        .mode(Auto)
        .auto_ask_denies()
        .gives("ask unjudged_ask_rule");
}

#[test]
fn what_a_person_allowed_covers_protected_paths() {
    let git = Case::write("/w/.git/config").guarded();
    git.clone()
        .rule(Allow, "Write(.git/config)")
        .gives("allow allow_rule");
    git.clone()
        .rule(Allow, "Write(.git/config)")
        .mode(Auto)
        .gives("allow auto_mode");
    git.clone()
        .granted(&git)
        .mode(Auto)
        .gives("allow auto_mode");
    git.clone().granted(&git).gives("allow grant");
    Case::write("/w/.git/hooks/x")
        .guarded()
        .granted(&git)
        .mode(Auto)
        .gives("deny guarded_in_auto");
}

#[test]
fn unreadable_rules_ask_in_every_mode() {
    for mode in [Manual, Yolo, Auto] {
        for decision in [Deny, Ask] {
            let read = Case::read("/w/a")
                .rule(decision, "Read([a)")
                .rule(Allow, "Read")
                .mode(mode);
            read.gives("ask! unreadable_rule");
            read.clone().granted(&read).gives("ask! unreadable_rule");
            Case::grep("/w")
                .rule(decision, "")
                .mode(mode)
                .gives("ask! unreadable_rule");
        }
        Case::plain("TodoList")
            .rule(Unreadable, "TodoList")
            .mode(mode)
            .gives("ask! unreadable_rule");
        Case::read("/w/a")
            .rule(Deny, "Bash(git *")
            .mode(mode)
            .gives(match mode {
                Manual => "allow default_approved",
                Yolo => "allow yolo_mode",
                Auto => "allow auto_mode",
            });
    }
    Case::read("/o/a")
        .rule(Allow, "Read([a)")
        .gives("ask outside_workspace");
}

#[test]
fn commands_are_allowed_only_when_exact() {
    let exact = |command: &str| Case::bash(command).rule(Allow, "Bash(cargo test)");
    exact("cargo test").gives("allow allow_rule");
    for other in [
        "cargo test ",
        "cargo test; rm -rf /",
        "cargo  test",
        "cargo test\nls",
        "Cargo test",
    ] {
        exact(other).gives("ask fallback");
    }
    let mut elsewhere = exact("cargo test");
    elsewhere.subject = Subject::Command {
        command: "cargo test".to_owned(),
        cwd: "/o".into(),
    };
    elsewhere.gives("ask fallback");
    for pattern in [
        "Bash",
        "Bash()",
        "Bash(*)",
        "*",
        "Bash(git *)",
        "Bash(git statu?)",
        "Bash(!rm)",
        "B*(git status)",
    ] {
        Case::bash("git status")
            .rule(Allow, pattern)
            .gives("ask fallback");
    }
    Case::bash("ls *")
        .rule(Allow, r"Bash(ls \*)")
        .gives("allow allow_rule");
    Case::bash("git log && curl x")
        .rule(Allow, "Bash(git *)")
        .gives("ask fallback");
}

#[test]
fn deny_rules_for_commands_can_not_be_dodged() {
    for mode in [Manual, Yolo, Auto] {
        Case::bash("ls")
            .rule(Deny, "Bash")
            .mode(mode)
            .gives("deny deny_rule");
        Case::bash("rm -rf /tmp/x")
            .rule(Deny, "Bash(rm -rf*)")
            .mode(mode)
            .gives("deny deny_rule");
        Case::bash("rm x")
            .rule(Deny, "Bash(rm x)")
            .mode(mode)
            .gives("deny deny_rule");
        let dodges = [
            "cd /x && rm y",
            "echo $(rm y)",
            "bash -c 'rm y'",
            "xargs rm",
            r"r\m y",
            "\"rm\" y",
            "/bin/rm y",
            " rm y",
            "ls\rrm y",
            "ls",
        ];
        for command in dodges {
            for pattern in ["Bash(rm *)", "Bash(rm y)", "Bash(!ls)"] {
                let case = Case::bash(command)
                    .rule(Deny, pattern)
                    .rule(Allow, "Bash(ls)")
                    .mode(mode);
                case.gives("ask! unjudged_deny_rule");
                case.clone().granted(&case).gives("ask! unjudged_deny_rule");
            }
            let case = Case::bash(command).rule(Ask, "Bash(rm *)").mode(mode);
            case.gives("ask unjudged_ask_rule");
            case.clone().granted(&case).gives(if mode == Auto {
                "allow auto_mode"
            } else {
                "allow grant"
            });
        }
    }
}

#[test]
fn grants_cover_exactly_what_was_shown() {
    let mkdir = Case::bash("mkdir foo");
    mkdir.clone().granted(&mkdir).gives("allow grant");
    for other in [
        "mkdir bar",
        "mkdir foox",
        "mkdir foo && touch y",
        "mkdir -p foo",
        "mkdir foo ",
    ] {
        Case::bash(other).granted(&mkdir).gives("ask fallback");
    }
    let mut elsewhere = mkdir.clone();
    elsewhere.subject = Subject::Command {
        command: "mkdir foo".to_owned(),
        cwd: "/w/sub".into(),
    };
    elsewhere.granted(&mkdir).gives("ask fallback");
    let star = Case::bash("ls *");
    Case::bash("ls a").granted(&star).gives("ask fallback");
    star.clone().granted(&star).gives("allow grant");

    let edit = Case::edit("/o/a[1]");
    edit.clone().granted(&edit).gives("allow grant");
    Case::edit("/o/a1")
        .granted(&edit)
        .gives("ask outside_workspace");
    Case::write("/o/a[1]")
        .granted(&edit)
        .gives("ask outside_workspace");

    let through_link = Case::edit("/w/link").real("/o/a");
    through_link
        .clone()
        .granted(&through_link)
        .gives("allow grant");
    Case::edit("/w/link")
        .real("/o/b")
        .granted(&through_link)
        .gives("ask outside_workspace");

    let grep = Case::grep("/o");
    grep.clone().granted(&grep).gives("allow grant");
    Case::grep("/o/sub")
        .granted(&grep)
        .gives("ask outside_workspace");
    Case::grep("/")
        .granted(&grep)
        .gives("ask outside_workspace");

    let tool = Case::plain("mcp__x__y");
    tool.clone().granted(&tool).gives("allow grant");
    Case::plain("mcp__x__z")
        .granted(&tool)
        .gives("ask fallback");
}

#[test]
fn grants_are_shown_as_rules() {
    let cases = [
        (
            Case::bash("ls * | wc"),
            Some((r"Bash(ls \* \| wc)", Some("/w"))),
        ),
        (Case::edit("/o/a"), Some(("Edit(/o/a)", None))),
        (
            Case::edit("/w/link").real("/o/a"),
            Some(("Edit(/o/a)", None)),
        ),
        (Case::grep("/o"), Some(("Grep(path=/o)", Some("/o")))),
        (Case::plain("mcp__x__y"), Some(("mcp__x__y", None))),
        (
            Case::new("Edit", Subject::Path("/w/a".into()), vec![]),
            None,
        ),
        (
            Case::new("Grep", Subject::Text("x".into()), vec![RealAccess::all()]),
            None,
        ),
        (
            Case::new(
                "Write",
                Subject::Path("/w/a".into()),
                vec![
                    placed(Access::write("/w/a"), "/w/a"),
                    placed(Access::write("/w/b"), "/w/b"),
                ],
            ),
            None,
        ),
    ];
    for (case, expected) in cases {
        let grant = grant_for(case.tool, &case.subject, &case.accesses);
        let expected = expected.map(|(rule, cwd): (&str, Option<&str>)| Grant {
            rule: rule.to_owned(),
            cwd: cwd.map(Into::into),
        });
        assert_eq!(grant, expected);
    }
}

#[test]
fn damaged_or_widened_grants_cover_nothing() {
    for rule in [
        "Bash",
        "Bash(*)",
        "Bash(mkdir *)",
        "*(mkdir foo)",
        "Bash(!x)",
        "Bash(mkdir foo",
        "",
    ] {
        let mut case = Case::bash("mkdir foo");
        case.grants.push(Grant {
            rule: rule.to_owned(),
            cwd: Some("/w".into()),
        });
        case.gives("ask fallback");
    }
    let mut unbound = Case::bash("mkdir foo");
    unbound.grants.push(Grant {
        rule: "Bash(mkdir foo)".to_owned(),
        cwd: None,
    });
    unbound.gives("ask fallback");
}

#[test]
fn verdicts_name_their_rule_and_its_reason() {
    let verdict = Case::read("/w/a").rule(Deny, "Read(a)").judge();
    assert_eq!(verdict.rule.as_deref(), Some("Read(a)"));
    assert_eq!(
        verdict.reason,
        "The rule `Read(a)` denies this call of Read (house rule)."
    );
    let reason = Case::read("/w/link").real("/o/a").judge().approval_reason();
    assert_eq!(reason.policy, "outside_workspace");
    assert_eq!(
        reason.message,
        "The call reads `/w/link` (really `/o/a`), which is outside the workspace, through a link."
    );
}

#[test]
fn names_of_policies_are_unique() {
    let mut names: Vec<_> = policy::POLICIES.iter().map(|policy| policy.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), policy::POLICIES.len());
}
