//! How results are put together for the model: lines within the limits, and in brackets what was left out and why.

use std::path::Path;

use longshore_protocol::value::display::Display;

use super::{Ended, Root, SEARCH_TIME, Tally};
use crate::path::Workspace;
use crate::tool::Outcome;
use crate::tool::lines::Lines;
use crate::tool::output::{cut_display, printable};

/// Protected files that are named.
const MAX_NAMED: usize = 10;

/// Places that could not be searched that are named.
const MAX_TROUBLES: usize = 5;

/// Text of a result, growing line by line within the limit of an output.
#[derive(Debug, Default)]
pub(in super::super) struct Report {
    lines: Lines,
    notices: Vec<String>,
    truncated: bool,
    n_not_text: usize,
}

/// A path as results show it: from the working directory where it lies below it, with control characters escaped.
pub(in super::super) fn shown_path(workspace: &Workspace, root: &Root, relative: &Path) -> String {
    printable(&workspace.show(&root.declared_path(relative))).into_owned()
}

impl Report {
    /// A path as [`shown_path`] writes it, for a line of this report.
    pub(in super::super) fn path(
        &mut self,
        workspace: &Workspace,
        root: &Root,
        relative: &Path,
    ) -> String {
        if relative.to_str().is_none() {
            self.n_not_text += 1;
        }
        shown_path(workspace, root, relative)
    }

    /// Adds a line, cut where it is too long for one; false when it would go over the limit of the whole, and then it is
    /// left out.
    pub(in super::super) fn line(&mut self, line: &str) -> bool {
        let line = format!("{line}\n");
        let added = self.lines.write_whole(&line);
        self.truncated |= !added;
        added
    }

    /// Adds a remark, shown in brackets after the lines.
    pub(in super::super) fn notice(&mut self, notice: impl Into<String>) {
        self.notices.push(notice.into());
    }

    /// More was found than is shown.
    pub(in super::super) fn incomplete(&mut self) {
        self.truncated = true;
    }

    /// Says what the search left out.
    pub(in super::super) fn left_out(
        &mut self,
        tally: &Tally,
        ended: Ended,
        workspace: &Workspace,
        root: &Root,
    ) {
        if ended == Ended::TimedOut {
            self.notice(format!(
                "The search was stopped after {} seconds; the results are incomplete. Narrow it down.",
                SEARCH_TIME.as_secs()
            ));
            self.truncated = true;
        }
        if self.n_not_text > 0 {
            self.notice(format!(
                "Names that are not UTF-8 are shown with \u{FFFD} for what can't be shown, and can't be given to \
                 other tools ({}).",
                self.n_not_text
            ));
        }
        let troubles = tally.troubles();
        if !troubles.is_empty() {
            let named = troubles
                .iter()
                .take(MAX_TROUBLES)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            let more = if troubles.len() > MAX_TROUBLES {
                ", …"
            } else {
                ""
            };
            self.notice(format!(
                "Not everything could be looked at ({}): {named}{more}.",
                troubles.len()
            ));
        }
        let skipped = tally.skipped();
        if !skipped.is_empty() {
            let names: Vec<_> = skipped
                .iter()
                .take(MAX_NAMED)
                .map(|path| shown_path(workspace, root, path))
                .collect();
            let more = if skipped.len() > MAX_NAMED {
                ", …"
            } else {
                ""
            };
            let files = match skipped.len() {
                1 => "1 protected file without opening it".to_owned(),
                n => format!("{n} protected files without opening them"),
            };
            self.notice(format!("Skipped {files}: {}{more}.", names.join(", ")));
        }
    }

    /// The outcome, drawn as results for `query`.
    pub(in super::super) fn into_outcome(mut self, query: &str) -> Outcome {
        self.truncated |= self.lines.is_cut();
        let mut whole = self.lines.into_text();
        for notice in &self.notices {
            whole.push('[');
            whole.push_str(notice);
            whole.push_str("]\n");
        }
        whole.truncate(whole.trim_end_matches('\n').len());
        let (text, is_cut) = cut_display(&whole);
        let display = Display::SearchResults {
            query: query.to_owned(),
            text: text.to_owned(),
            truncated: is_cut || self.truncated,
        };
        let mut outcome = Outcome::text(whole).with_display(display);
        outcome.truncated = self.truncated;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use super::*;
    use crate::kernel::limits::{OUTPUT_CHARS, OUTPUT_LINE_CHARS};
    use crate::tool::file::testing::text;

    fn root() -> Root {
        Root {
            declared: "/ws/src".into(),
            real: "/ws/src".into(),
            is_file: false,
        }
    }

    #[test]
    fn paths() {
        let workspace = Workspace::of_dir("/ws");
        assert_eq!(
            shown_path(&workspace, &root(), Path::new("a.ts")),
            "src/a.ts"
        );
        assert_eq!(
            shown_path(&workspace, &root(), Path::new("a\nb\u{1b}")),
            "src/a\\nb\\u{1b}"
        );
        assert_eq!(shown_path(&workspace, &root(), Path::new("")), "src");
    }

    #[test]
    fn lines_within_the_limit_and_what_was_left_out() {
        let workspace = Workspace::of_dir("/ws");
        let tally = Tally::default();
        (0..12).for_each(|n| tally.skip(PathBuf::from(format!(".env.{n:02}"))));
        (0..6).for_each(|n| tally.trouble(format!("src/d{n} (permission denied)")));
        let mut report = Report::default();
        let line = "x".repeat(3000);
        let n_lines = (0..100).take_while(|_| report.line(&line)).count();
        assert_eq!(n_lines, OUTPUT_CHARS / OUTPUT_LINE_CHARS);
        assert!(!report.line("y"));
        let name = Path::new(OsStr::from_bytes(b"a\xFF"));
        assert_eq!(report.path(&workspace, &root(), name), "src/a\u{FFFD}");
        report.left_out(&tally, Ended::TimedOut, &workspace, &root());
        let outcome = report.into_outcome("q");
        assert!(outcome.truncated);
        let text = text(&outcome);
        let mut notices: Vec<&str> = text.lines().skip(n_lines).collect();
        assert!(notices[0].contains("20 seconds"));
        assert!(
            notices
                .remove(1)
                .ends_with("can't be given to other tools (1).]")
        );
        assert!(
            notices[1].starts_with(
                "[Not everything could be looked at (6): src/d0 (permission denied), "
            )
        );
        assert!(notices[1].ends_with("src/d4 (permission denied), ….]"));
        assert!(
            notices[2]
                .starts_with("[Skipped 12 protected files without opening them: src/.env.00, ")
        );
        assert!(notices[2].ends_with("src/.env.09, ….]"));
    }
}
