//! Grants: rules born from a person's answer. A grant covers exactly what was shown when it was given.
//!
//! Paths are granted by where they really lead, so that a link that is turned elsewhere afterwards is asked about
//! again. Commands are bound to the directory they run in, searches to their root.

use std::path::Path;

use super::Facts;
use super::glob;
use super::rule::exact_parts;
use super::tools;
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::{Grant, Subject};

/// The grant that an answer "for this session" to this call would make; `None` where no rule says exactly this call, so
/// that only "once" can be offered.
pub fn grant_for(tool: &str, subject: &Subject, accesses: &[RealAccess]) -> Option<Grant> {
    match subject {
        Subject::None => Some(Grant {
            rule: glob::escape(tool),
            cwd: None,
        }),
        Subject::Command { command, cwd } => Some(Grant {
            rule: rule(tool, &glob::escape(command)),
            cwd: Some(cwd.clone()),
        }),
        Subject::Path(_) => {
            let path = only_path(accesses)?;
            Some(Grant {
                rule: rule(tool, &glob::escape(path.to_str()?)),
                cwd: None,
            })
        }
        Subject::Text(_) if tools::SEARCHERS.contains(&tool) => {
            let root = only_path(accesses)?;
            let rule = rule(tool, &format!("path={}", glob::escape(root.to_str()?)));
            Some(Grant {
                rule,
                cwd: Some(root.to_path_buf()),
            })
        }
        Subject::Text(text) => Some(Grant {
            rule: rule(tool, &glob::escape(text)),
            cwd: None,
        }),
    }
}

/// True where the call is the one the grant was given for.
pub(super) fn covers(grant: &Grant, facts: &Facts<'_>) -> bool {
    let Some((tool, argument)) = exact_parts(&grant.rule) else {
        return false;
    };
    if tool != facts.tool {
        return false;
    }
    let argument = argument.as_deref();
    match facts.subject {
        Subject::None => argument.is_none(),
        Subject::Command { command, cwd } => {
            argument.and_then(glob::literal).as_ref() == Some(command)
                && grant.cwd.as_ref() == Some(cwd)
        }
        Subject::Path(_) => argument
            .and_then(glob::literal)
            .is_some_and(|path| is_only_path(facts.accesses, &path)),
        Subject::Text(_) if tools::SEARCHERS.contains(&facts.tool) => argument
            .and_then(|argument| argument.strip_prefix("path="))
            .and_then(glob::literal)
            .is_some_and(|root| is_only_path(facts.accesses, &root)),
        Subject::Text(text) => argument.and_then(glob::literal).as_ref() == Some(text),
    }
}

fn rule(tool: &str, argument: &str) -> String {
    format!("{}({argument})", glob::escape(tool))
}

/// The one path that all accesses really lead to.
fn only_path(accesses: &[RealAccess]) -> Option<&Path> {
    let (first, others) = accesses.split_first()?;
    let is_file = |access: &RealAccess| matches!(access.access, Access::File(_));
    let same = others
        .iter()
        .all(|other| is_file(other) && other.real == first.real);
    (is_file(first) && same).then_some(first.real.as_path())
}

fn is_only_path(accesses: &[RealAccess], path: &str) -> bool {
    only_path(accesses).is_some_and(|only| only == Path::new(path))
}
