//! Rules: `Tool` or `Tool(argument)`, compiled once per session.
//!
//! The tool part is a glob over names. `Tool()` is `Tool`; `(!p)` is everything that does not match `p`; `(path=p)`
//! names the root of a search. The argument runs from the first `(` to the final `)`. What forbids is read widely, what
//! approves narrowly: a deny or ask rule matches if the path *or* its real path does, in any case; an allow rule only
//! if both do, letter for letter. A rule that can't be read has no effect if it was to allow; otherwise its tool is
//! asked about in every mode, all tools where even the name can't be read.

use std::path::{Path, PathBuf};

use longshore_protocol::value::failure::Warning;

use super::Facts;
use super::glob::{self, PathGlob, Reach, TextGlob};
use super::tools;
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::{RuleDecision, RuleText, Subject};

/// Where relative patterns are anchored, and how the disk compares names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchors {
    /// The session's directory, as given.
    pub cwd: PathBuf,
    /// The same with links resolved.
    pub real_cwd: PathBuf,
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// True where the disk takes two names that differ in case for one.
    pub ignore_case: bool,
}

/// All rules in force for one session, compiled.
#[derive(Clone, Debug)]
pub struct RuleSet {
    pub(super) deny: Vec<Rule>,
    pub(super) ask: Vec<Rule>,
    pub(super) allow: Vec<Rule>,
    pub(super) unreadable: Vec<Rule>,
    /// Literal commands are approved only in this directory.
    pub(super) cwd: PathBuf,
}

/// A rule, compiled.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// As written.
    pub(super) text: String,
    pub(super) reason: Option<String>,
    /// `None` is every tool.
    tool: Option<ToolPattern>,
    argument: Argument,
    forbids: bool,
}

#[derive(Clone, Debug)]
struct ToolPattern {
    glob: TextGlob,
    fold: bool,
    written: String,
}

#[derive(Clone, Debug)]
enum Argument {
    /// Any, or none.
    Any,
    Pattern(Box<Pattern>),
}

#[derive(Clone, Debug)]
struct Pattern {
    negated: bool,
    /// True for `path=`.
    root: bool,
    path: PathGlob,
    text: TextGlob,
    /// The one text it stands for.
    literal: Option<String>,
}

/// A rule's two parts.
struct Parts<'a> {
    tool: &'a str,
    argument: Option<&'a str>,
}

/// Why a rule can't be read, and as much of its tool as could be.
struct Unreadable {
    tool: Option<ToolPattern>,
    why: String,
}

impl Anchors {
    /// The anchors of a session directory. Names are compared as the system's usual disk does it.
    pub fn new(
        cwd: impl Into<PathBuf>,
        real_cwd: impl Into<PathBuf>,
        home: Option<PathBuf>,
    ) -> Self {
        Self {
            cwd: cwd.into(),
            real_cwd: real_cwd.into(),
            home,
            ignore_case: cfg!(any(target_os = "macos", windows)),
        }
    }
}

impl RuleSet {
    /// Compiles rules, in the order in which those of one class are to be tried, and says which have no or another
    /// effect than written.
    pub fn compile(rules: &[RuleText], anchors: &Anchors) -> (Self, Vec<Warning>) {
        let mut set = Self {
            deny: Vec::new(),
            ask: Vec::new(),
            allow: Vec::new(),
            unreadable: Vec::new(),
            cwd: anchors.cwd.clone(),
        };
        let mut warnings = Vec::new();
        for rule in rules {
            set.add(rule, anchors, &mut warnings);
        }
        (set, warnings)
    }

    fn add(&mut self, rule: &RuleText, anchors: &Anchors, warnings: &mut Vec<Warning>) {
        let compiled = Rule::compile(rule, anchors);
        let mut warn = |message: String| warnings.push(warning(rule, &message));
        let rule_readable = match (rule.decision, compiled) {
            (RuleDecision::Allow, Err(unreadable)) => {
                warn(format!(
                    "can't be read ({}); it allows nothing",
                    unreadable.why
                ));
                return;
            }
            (RuleDecision::Unreadable, compiled) => {
                let tool = match compiled {
                    Ok(rule) => rule.tool,
                    Err(unreadable) => unreadable.tool,
                };
                warn(format!(
                    "has no decision that can be read; {}",
                    asked_about(tool.as_ref())
                ));
                self.unreadable.push(Rule::unreadable(rule, tool));
                return;
            }
            (_, Err(unreadable)) => {
                warn(format!(
                    "can't be read ({}); {}",
                    unreadable.why,
                    asked_about(unreadable.tool.as_ref())
                ));
                self.unreadable
                    .push(Rule::unreadable(rule, unreadable.tool));
                return;
            }
            (_, Ok(compiled)) => compiled,
        };
        for message in rule_readable.remarks(rule.decision) {
            warn(message);
        }
        match rule.decision {
            RuleDecision::Allow => self.allow.push(rule_readable),
            RuleDecision::Deny => self.deny.push(rule_readable),
            RuleDecision::Ask | RuleDecision::Unreadable => self.ask.push(rule_readable),
        }
    }
}

impl Rule {
    fn compile(rule: &RuleText, anchors: &Anchors) -> Result<Self, Box<Unreadable>> {
        let forbids = rule.decision != RuleDecision::Allow;
        let parts = Parts::split(&rule.pattern).map_err(|why| Unreadable {
            tool: readable_tool(&rule.pattern, forbids),
            why: why.to_owned(),
        })?;
        let tool =
            ToolPattern::new(parts.tool, forbids).map_err(|why| Unreadable { tool: None, why })?;
        let argument = match parts.argument {
            None | Some("") => Argument::Any,
            Some(argument) => match Pattern::new(argument, &tool, anchors, forbids) {
                Ok(pattern) => Argument::Pattern(Box::new(pattern)),
                Err(why) => {
                    return Err(Box::new(Unreadable {
                        tool: Some(tool),
                        why,
                    }));
                }
            },
        };
        Ok(Self {
            text: rule.pattern.clone(),
            reason: rule.reason.clone(),
            tool: Some(tool),
            argument,
            forbids,
        })
    }

    fn unreadable(rule: &RuleText, tool: Option<ToolPattern>) -> Self {
        Self {
            text: rule.pattern.clone(),
            reason: rule.reason.clone(),
            tool,
            argument: Argument::Any,
            forbids: true,
        }
    }

    /// True where the rule is about this tool, whatever the argument.
    pub(super) fn names(&self, tool: &str) -> bool {
        self.tool
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(tool))
    }

    /// True where the rule covers the call. A shell command is covered as one string; whether that is enough is for the
    /// policies to say.
    pub(super) fn matches(&self, facts: &Facts<'_>) -> bool {
        if !self.names(facts.tool) {
            return false;
        }
        let Argument::Pattern(pattern) = &self.argument else {
            return true;
        };
        match facts.subject {
            Subject::None => false,
            Subject::Path(path) => {
                let reals: Vec<&Path> = facts.accesses.iter().filter_map(real_path).collect();
                pattern.matches_path(path, &reals, self.forbids)
            }
            Subject::Command { command, .. } => pattern.matches_text(command),
            Subject::Text(_) if pattern.root => {
                facts.accesses.iter().any(|access| match &access.access {
                    Access::All => false,
                    Access::File(file) => {
                        pattern.matches_root(&file.path, &access.real, self.forbids)
                    }
                })
            }
            Subject::Text(text) => pattern.matches_text(text),
        }
    }

    /// True where the rule covers every command, so that its parts need not be judged.
    pub(super) fn covers_all_commands(&self) -> bool {
        match &self.argument {
            Argument::Any => true,
            Argument::Pattern(pattern) => {
                !pattern.negated
                    && pattern.literal.is_none()
                    && pattern.text.is_match("")
                    && pattern.text.is_match("a\n")
            }
        }
    }

    /// True where the rule stands for exactly this command and names the shell alone.
    pub(super) fn is_command(&self, command: &str) -> bool {
        self.literal_command()
            .is_some_and(|literal| literal == command)
    }

    /// True where the argument is excluded rather than named (`!p`): a whole command line can't be judged by it.
    pub(super) fn is_negated(&self) -> bool {
        matches!(&self.argument, Argument::Pattern(pattern) if pattern.negated)
    }

    fn literal_command(&self) -> Option<&str> {
        let tool = self.tool.as_ref()?;
        match &self.argument {
            Argument::Pattern(pattern) if tool.written == tools::BASH && !pattern.negated => {
                pattern.literal.as_deref()
            }
            _ => None,
        }
    }

    /// What a person who wrote the rule should know.
    fn remarks(&self, decision: RuleDecision) -> Vec<String> {
        let mut remarks = Vec::new();
        let Some(tool) = &self.tool else {
            return remarks;
        };
        let has_argument = matches!(self.argument, Argument::Pattern(_));
        if self.names(tools::BASH) {
            match decision {
                RuleDecision::Allow if self.literal_command().is_none() => remarks.push(
                    "has no effect on Bash calls: only rules for one exact command, such as `Bash(cargo test)`, do".to_owned(),
                ),
                RuleDecision::Deny if !self.covers_all_commands() => remarks.push(
                    "can't yet be checked against every part of a shell command: other Bash calls are asked about, in every mode"
                        .to_owned(),
                ),
                RuleDecision::Ask => {
                    remarks.push("makes every Bash call ask, in every mode".to_owned());
                }
                _ => {}
            }
        }
        if glob::literal(&tool.written).is_some() {
            let name = tool.written.as_str();
            if !tools::all().any(|known| known == name) && !name.starts_with("mcp__") {
                let near = tools::all().find(|known| known.eq_ignore_ascii_case(name));
                remarks.push(match near {
                    Some(near) => format!("names no built-in tool; did you mean `{near}`?"),
                    None => "names no built-in tool".to_owned(),
                });
            }
            if has_argument && tools::WITHOUT_ARGUMENT.contains(&name) {
                remarks.push(format!(
                    "never matches: {name} has nothing an argument could be matched against"
                ));
            }
        }
        remarks
    }
}

impl ToolPattern {
    fn new(written: &str, fold: bool) -> Result<Self, String> {
        if written.is_empty() {
            return Err("the tool is missing".to_owned());
        }
        if let Some(odd) = written
            .chars()
            .find(|c| !(c.is_ascii_alphanumeric() || "_-.:*?[]{},^!\\".contains(*c)))
        {
            return Err(format!("{odd:?} can't stand in the name of a tool"));
        }
        let pattern = if fold {
            written.to_ascii_lowercase()
        } else {
            written.to_owned()
        };
        Ok(Self {
            glob: TextGlob::new(&pattern)?,
            fold,
            written: written.to_owned(),
        })
    }

    fn is_match(&self, tool: &str) -> bool {
        if self.fold {
            self.glob.is_match(&tool.to_ascii_lowercase())
        } else {
            self.glob.is_match(tool)
        }
    }
}

impl Pattern {
    fn new(
        argument: &str,
        tool: &ToolPattern,
        anchors: &Anchors,
        forbids: bool,
    ) -> Result<Self, String> {
        let (negated, rest) = match argument.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, argument),
        };
        let takes_path = tools::SEARCHERS
            .into_iter()
            .chain(tools::FILE_READERS)
            .chain(tools::FILE_WRITERS);
        let (root, rest) = match rest.strip_prefix("path=") {
            Some(path) if takes_path.into_iter().any(|name| tool.is_match(name)) => (true, path),
            _ => (false, rest),
        };
        // What is excluded is read the other way round: wide exclusions would narrow what a deny rule forbids.
        let reach = if forbids == negated {
            Reach::Exact
        } else {
            Reach::Wide
        };
        Ok(Self {
            negated,
            root,
            path: PathGlob::new(rest, anchors, reach)?,
            text: TextGlob::new(rest)?,
            literal: glob::literal(rest),
        })
    }

    fn matches_text(&self, text: &str) -> bool {
        self.text.is_match(text) != self.negated
    }

    fn matches_path(&self, path: &Path, reals: &[&Path], forbids: bool) -> bool {
        let hit = |path: &Path| self.path.is_match(path) != self.negated;
        if forbids {
            hit(path) || reals.iter().any(|real| hit(real))
        } else {
            hit(path) && !reals.is_empty() && reals.iter().all(|real| hit(real))
        }
    }

    /// A search touches what is below its root, so that `dir/**` covers a search at `dir`.
    fn matches_root(&self, path: &Path, real: &Path, forbids: bool) -> bool {
        let hit = |path: &Path| {
            (self.path.is_match(path) || self.path.is_match(&path.join("\u{1}"))) != self.negated
        };
        if forbids {
            hit(path) || hit(real)
        } else {
            hit(path) && hit(real)
        }
    }
}

impl<'a> Parts<'a> {
    fn split(pattern: &'a str) -> Result<Self, &'static str> {
        let pattern = pattern.trim();
        match pattern.split_once('(') {
            None if pattern.is_empty() => Err("it is empty"),
            None => Ok(Self {
                tool: pattern,
                argument: None,
            }),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(argument) => Ok(Self {
                    tool: tool.trim_end(),
                    argument: Some(argument),
                }),
                None => Err("the closing `)` is missing at its end"),
            },
        }
    }
}

/// The exact tool and argument of a rule that stands for one call, as grants do.
pub(super) fn exact_parts(rule: &str) -> Option<(String, Option<String>)> {
    let parts = Parts::split(rule).ok()?;
    let tool = glob::literal(parts.tool)?;
    match parts.argument {
        None => Some((tool, None)),
        Some(argument) if argument.starts_with('!') => None,
        Some(argument) => Some((tool, Some(argument.to_owned()))),
    }
}

fn real_path(access: &RealAccess) -> Option<&Path> {
    match access.access {
        Access::All => None,
        Access::File(_) => Some(&access.real),
    }
}

fn readable_tool(pattern: &str, fold: bool) -> Option<ToolPattern> {
    let (tool, _) = pattern.trim().split_once('(')?;
    ToolPattern::new(tool.trim_end(), fold).ok()
}

fn asked_about(tool: Option<&ToolPattern>) -> String {
    match tool {
        Some(tool) => format!(
            "every call of {} is asked about, in every mode",
            tool.written
        ),
        None => "every call of every tool is asked about, in every mode".to_owned(),
    }
}

fn warning(rule: &RuleText, message: &str) -> Warning {
    let (file, line) = match rule.place.rsplit_once(':') {
        Some((file, line)) => match line.parse() {
            Ok(line) => (Some(file.to_owned()), Some(line)),
            Err(_) => (None, None),
        },
        None => (None, None),
    };
    Warning {
        topic: "permission".to_owned(),
        message: format!("{}: rule `{}` {message}", rule.place, rule.pattern),
        file,
        line,
        key: None,
    }
}
