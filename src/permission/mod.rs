//! Permission: may this call run, must a person be asked, or is it refused?
//!
//! Pure: a decision is a function of the [`Facts`] of one call, the [`RuleSet`] and the session's grants. Nothing here
//! reads a file, asks anybody or remembers anything; real paths and the git probe are looked up before, and what an
//! *ask* means where nobody can be asked is up to the agent. Everything that can't be judged ends in an ask or a
//! refusal, never in an approval. Start with [`policy`], the table that [`decide`] walks; [`rule`] holds the grammar.

mod glob;
pub mod grant;
pub mod policy;
#[cfg(test)]
mod policy_tests;
pub mod rule;
#[cfg(test)]
mod rule_tests;
mod tools;

use longshore_protocol::value::approval::ApprovalReason;
use longshore_protocol::value::session::Mode;

use crate::kernel::access::RealAccess;
use crate::kernel::rule::{Grant, Subject};

pub use grant::grant_for;
pub use policy::decide;
pub use rule::{Anchors, RuleSet};

/// What is known of a call when it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// What its rules are matched against.
    pub subject: &'a Subject,
    /// What it touches, links resolved.
    pub accesses: &'a [RealAccess],
    /// The permission mode in force.
    pub mode: Mode,
    /// True where the session's directory is inside a git work tree, probed for this call.
    pub in_git_tree: bool,
    /// `permission.auto_ask = "deny"`: ask rules refuse in auto instead of being void there.
    pub auto_ask_denies: bool,
}

/// What was decided about a call, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub answer: Answer,
    /// The policy that decided; one of the names in [`policy::POLICIES`], stable.
    pub policy: &'static str,
    /// One sentence for people.
    pub reason: String,
    /// The rule or grant that decided, as written, where one did.
    pub rule: Option<String>,
}

/// The decision of a [`Verdict`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask {
        /// False where a grant would not stop the next ask, so that none should be offered.
        grantable: bool,
    },
    /// It does not run.
    Deny {
        /// What the model is told to do instead, full sentences that follow the verdict's reason.
        advice: String,
    },
}

impl Verdict {
    /// The reason as it stands in an approval request.
    pub fn approval_reason(&self) -> ApprovalReason {
        ApprovalReason {
            policy: self.policy.to_owned(),
            message: self.reason.clone(),
            rule: self.rule.clone(),
        }
    }
}

/// The first of the session's grants that covers the call, exactly as it was shown when it was given.
pub fn covering_grant<'a>(facts: &Facts<'_>, grants: &'a [Grant]) -> Option<&'a Grant> {
    grants.iter().find(|grant| grant::covers(grant, facts))
}
