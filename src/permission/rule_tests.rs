//! The grammar of rules, and what is said about rules that do not do what they seem to.

use super::*;
use crate::kernel::access::Access;
use crate::kernel::rule::{RuleDecision, RuleText};

fn anchors() -> Anchors {
    Anchors {
        cwd: "/w".into(),
        real_cwd: "/w".into(),
        home: Some("/home/u".into()),
        ignore_case: false,
    }
}

fn compile(decision: RuleDecision, pattern: &str) -> (RuleSet, Vec<String>) {
    let rule = RuleText {
        decision,
        pattern: pattern.to_owned(),
        reason: None,
        place: "/c.toml:3".to_owned(),
    };
    let (set, warnings) = RuleSet::compile(&[rule], &anchors());
    for warning in &warnings {
        assert_eq!(
            (warning.file.as_deref(), warning.line),
            (Some("/c.toml"), Some(3))
        );
        assert_eq!(warning.topic, "permission");
    }
    (
        set,
        warnings
            .into_iter()
            .map(|warning| warning.message)
            .collect(),
    )
}

/// Compiles one rule and says whether it matches one call.
fn matches(
    decision: RuleDecision,
    pattern: &str,
    tool: &str,
    subject: &Subject,
    accesses: &[RealAccess],
) -> bool {
    let (set, warnings) = compile(decision, pattern);
    assert!(set.unreadable.is_empty(), "{pattern}: {warnings:?}");
    let facts = Facts {
        tool,
        subject,
        accesses,
        mode: Mode::Manual,
        in_git_tree: true,
        auto_ask_denies: false,
    };
    set.deny
        .iter()
        .chain(&set.ask)
        .chain(&set.allow)
        .any(|rule| rule.matches(&facts))
}

fn real(access: Access, path: &str) -> RealAccess {
    RealAccess {
        access,
        real: path.into(),
        inside: true,
        real_inside: true,
        ..RealAccess::all()
    }
}

#[test]
fn tools_are_named_by_globs() {
    use RuleDecision::{Allow, Ask, Deny};
    let cases = [
        (Allow, "Read", "Read", true),
        (Allow, " Read ", "Read", true),
        (Allow, "Read()", "Read", true),
        (Allow, "Read", "ReadMediaFile", false),
        (Allow, "Read*", "ReadMediaFile", true),
        (Allow, "*", "mcp__github__issues", true),
        (Allow, "mcp__github__*", "mcp__github__issues", true),
        (Allow, "mcp__github__*", "mcp__gitlab__issues", false),
        (Allow, "{Read,Grep}", "Grep", true),
        (Allow, "read", "Read", false),
        (Deny, "read", "Read", true),
        (Ask, "READ", "Read", true),
    ];
    for (decision, pattern, tool, expected) in cases {
        assert_eq!(
            matches(decision, pattern, tool, &Subject::None, &[]),
            expected,
            "{pattern} {tool}"
        );
    }
}

#[test]
fn paths_match_by_class() {
    use RuleDecision::{Allow, Ask, Deny};
    // Decision, pattern, declared path, real path, expected.
    let cases = [
        (
            Deny,
            "Edit(/r/secrets.env)",
            "/r/Secrets.env",
            "/r/Secrets.env",
            true,
        ),
        (
            Deny,
            "Edit(/r/x/../secrets.env)",
            "/r/secrets.env",
            "/r/secrets.env",
            true,
        ),
        (
            Deny,
            "Edit(!./src/**)",
            "/w/README.md",
            "/w/README.md",
            true,
        ),
        (Deny, "Edit(!./src/**)", "/w/src/a.ts", "/w/src/a.ts", false),
        (Deny, "Edit(!./src/**)", "/w/SRC/a.ts", "/w/SRC/a.ts", true),
        (Deny, "Edit(!./src/**)", "/w/src/link", "/etc/passwd", true),
        (Deny, "Edit(/etc/*)", "/w/link", "/etc/passwd", true),
        (Deny, "Edit(link)", "/w/link", "/etc/passwd", true),
        (Ask, "Edit(/etc/*)", "/w/link", "/etc/passwd", true),
        (Allow, "Edit(./**)", "/w/link", "/etc/passwd", false),
        (Allow, "Edit(/etc/*)", "/w/link", "/etc/passwd", false),
        (Allow, "Edit(./**)", "/w/a", "/w/b", true),
        (Allow, "Edit(./**)", "/w/a/b/c", "/w/a/b/c", true),
        (Allow, "Edit(./*)", "/w/a/b", "/w/a/b", false),
        (Allow, "Edit(a.rs)", "/w/A.rs", "/w/A.rs", false),
        (Allow, "Edit(!/w/src/**)", "/w/a", "/w/a", true),
        (Allow, "Edit(!/w/src/**)", "/w/Src/a", "/w/Src/a", false),
        (Allow, "Edit(!/w/src/**)", "/w/a", "/w/src/a", false),
        (
            Allow,
            "Edit(~/notes/*)",
            "/home/u/notes/a",
            "/home/u/notes/a",
            true,
        ),
        (Allow, "Edit(path=a)", "/w/a", "/w/a", true),
        (Allow, r"Edit(a\(1\).rs)", "/w/a(1).rs", "/w/a(1).rs", true),
        (Allow, "Edit(a(1).rs)", "/w/a(1).rs", "/w/a(1).rs", true),
    ];
    for (decision, pattern, path, real_path, expected) in cases {
        let subject = Subject::Path(path.into());
        let accesses = [real(Access::write(path), real_path)];
        let matched = matches(decision, pattern, "Edit", &subject, &accesses);
        assert_eq!(
            matched, expected,
            "{decision:?} {pattern} {path} {real_path}"
        );
    }
    let unseen = Subject::Path("/w/a".into());
    assert!(
        !matches(Allow, "Edit(a)", "Edit", &unseen, &[]),
        "an allow rule needs the real path"
    );
    assert!(matches(Deny, "Edit(a)", "Edit", &unseen, &[]));
}

#[test]
fn searches_match_by_pattern_or_root() {
    use RuleDecision::{Allow, Deny};
    let cases = [
        (Allow, "Grep(TODO*)", "TODO: a/b\nc", "/w", "/w", true),
        (Allow, "Grep(TODO*)", "FIXME", "/w", "/w", false),
        (Allow, "Grep(path=/o/**)", "x", "/o", "/o", true),
        (Allow, "Grep(path=/o/**)", "x", "/o/sub", "/o/sub", true),
        (Allow, "Grep(path=/o/**)", "x", "/o/link", "/etc", false),
        (Allow, "Grep(path=/o)", "x", "/o/sub", "/o/sub", false),
        (
            Deny,
            "Grep(path=secrets/**)",
            "x",
            "/w/secrets",
            "/w/secrets",
            true,
        ),
        (Deny, "Grep(path=/etc)", "x", "/w/link", "/etc", true),
        (Deny, "Grep(!path=/w/**)", "x", "/o", "/o", true),
        (Deny, "Grep(!path=/w/**)", "x", "/w/a", "/w/a", false),
        (Allow, r"Grep(\path=x)", "path=x", "/w", "/w", true),
    ];
    for (decision, pattern, text, root, real_root, expected) in cases {
        let subject = Subject::Text(text.to_owned());
        let matched = matches(
            decision,
            pattern,
            "Grep",
            &subject,
            &[real(Access::search(root), real_root)],
        );
        assert_eq!(matched, expected, "{decision:?} {pattern} {text} {root}");
    }
}

#[test]
fn commands_match_as_one_string() {
    use RuleDecision::Deny;
    let cases = [
        ("Bash(rm -rf*)", "rm -rf /tmp/x", true),
        ("Bash(rm -rf*)", "cd / && rm -rf x", false),
        ("Bash(*sudo*)", "a\nsudo b", true),
        ("Bash(rm x)", "rm x", true),
        ("Bash(rm x)", "rm xy", false),
        (r"Bash(ls \*)", "ls *", true),
        ("Bash(FOO=1 make)", "FOO=1 make", true),
    ];
    for (pattern, command, expected) in cases {
        let subject = Subject::Command {
            command: command.to_owned(),
            cwd: "/w".into(),
        };
        assert_eq!(
            matches(Deny, pattern, "Bash", &subject, &[]),
            expected,
            "{pattern} {command}"
        );
    }
}

#[test]
fn arguments_never_match_tools_without_one() {
    assert!(!matches(
        RuleDecision::Deny,
        "TodoList(x)",
        "TodoList",
        &Subject::None,
        &[]
    ));
    let (_, warnings) = compile(RuleDecision::Deny, "TodoList(x)");
    assert!(warnings[0].contains("never matches"), "{warnings:?}");
}

#[test]
fn unreadable_rules_ask_unless_they_were_to_allow() {
    // Pattern, the tools it then asks about.
    let cases: [(&str, &[&str], &[&str]); 8] = [
        ("Bash(git *", &["Bash", "bash"], &["Read"]),
        ("Bash(git *) x", &["Bash"], &["Read"]),
        ("Edit([a)", &["Edit"], &["Write"]),
        ("Edit({a)", &["Edit"], &["Write"]),
        (r"Edit(a\)", &["Edit"], &["Write"]),
        ("", &["Read", "Bash", "mcp__x__y"], &[]),
        ("Ba sh(x)", &["Read", "Bash"], &[]),
        ("[Bash", &["Read", "Bash"], &[]),
    ];
    for (pattern, tools, others) in cases {
        for decision in [RuleDecision::Deny, RuleDecision::Ask] {
            let (set, warnings) = compile(decision, pattern);
            assert_eq!(
                (set.unreadable.len(), set.deny.len(), set.ask.len()),
                (1, 0, 0),
                "{pattern}"
            );
            assert!(
                warnings[0].contains("is asked about, in every mode"),
                "{warnings:?}"
            );
            assert!(
                tools.iter().all(|tool| set.unreadable[0].names(tool)),
                "{pattern}"
            );
            assert!(
                !others.iter().any(|tool| set.unreadable[0].names(tool)),
                "{pattern}"
            );
        }
        let (set, warnings) = compile(RuleDecision::Allow, pattern);
        assert!(
            set.unreadable.is_empty() && set.allow.is_empty(),
            "{pattern}"
        );
        assert!(warnings[0].contains("allows nothing"), "{warnings:?}");
    }
}

#[test]
fn a_rule_whose_decision_is_unreadable_asks_about_its_tool() {
    let (set, warnings) = compile(RuleDecision::Unreadable, "Write(src/*)");
    assert!(set.unreadable[0].names("Write") && !set.unreadable[0].names("Read"));
    assert_eq!(
        warnings,
        [
            "/c.toml:3: rule `Write(src/*)` has no decision that can be read; every call of Write is asked about, in every mode"
        ]
    );
    let (set, _) = compile(RuleDecision::Unreadable, "");
    assert!(set.unreadable[0].names("Read"));
}

#[test]
fn rules_that_do_less_or_more_than_written_are_said() {
    use RuleDecision::{Allow, Ask, Deny};
    let cases = [
        (Allow, "Bash", Some("no effect on Bash calls")),
        (Allow, "Bash(*)", Some("no effect on Bash calls")),
        (Allow, "Bash(git *)", Some("no effect on Bash calls")),
        (Allow, "Bash(!rm)", Some("no effect on Bash calls")),
        (Allow, "*", Some("no effect on Bash calls")),
        (Allow, "Bash(cargo test)", None),
        (Allow, r"Bash(ls \*)", None),
        (Deny, "Bash", None),
        (Deny, "Bash(*)", None),
        (Deny, "*", None),
        (Deny, "Bash(rm *)", Some("other Bash calls are asked about")),
        (Deny, "Bash(rm x)", Some("other Bash calls are asked about")),
        (Ask, "Bash(git push)", Some("makes every Bash call ask")),
        (Allow, "Edit(src/**)", None),
        (Deny, "bash", Some("did you mean `Bash`?")),
        (Allow, "Reed", Some("names no built-in tool")),
        (Allow, "mcp__github__x", None),
    ];
    for (decision, pattern, expected) in cases {
        let (_, warnings) = compile(decision, pattern);
        match expected {
            Some(expected) => assert!(
                warnings.iter().any(|w| w.contains(expected)),
                "{pattern}: {warnings:?}"
            ),
            None => assert!(warnings.is_empty(), "{pattern}: {warnings:?}"),
        }
    }
}
