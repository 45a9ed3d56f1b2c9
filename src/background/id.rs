//! Names of tasks.

use longshore_protocol::id::TaskId;

use crate::kernel::task::TaskKind;
use crate::os::ids::IdSource;

/// Letters and digits after the prefix.
const SUFFIX_CHARS: usize = 8;

/// A fresh id that `is_taken` does not know.
pub(super) fn fresh(
    ids: &dyn IdSource,
    kind: TaskKind,
    is_taken: impl Fn(&TaskId) -> bool,
) -> TaskId {
    loop {
        let id = TaskId::from(format!("{}-{}", kind.prefix(), ids.short(SUFFIX_CHARS)));
        if !is_taken(&id) {
            return id;
        }
    }
}

/// Whether a text has the form of a task's id: lower-case words joined by hyphens, then eight letters or digits. To be
/// asked before a path is made of it.
pub fn is_task_id(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let Some((prefix, suffix)) = text.rsplit_once('-') else {
        return false;
    };
    text.len() <= 64
        && suffix.len() == SUFFIX_CHARS
        && is_word(suffix)
        && prefix.split('-').all(is_word)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::os::ids::SeededIds;

    #[test]
    fn forms() {
        for (text, expected) in [
            ("bash-0123abcz", true),
            ("sub-agent-0123abcz", true),
            ("x9-00000000", true),
            ("bash-0123abc", false),
            ("bash-0123abcdz", false),
            ("bash-0123ABCD", false),
            ("bash--0123abcd", false),
            ("-0123abcd", false),
            ("0123abcd", false),
            ("../bash-0123abcd", false),
            ("bash/-0123abcd", false),
            ("bash-0123a\0cd", false),
            ("", false),
        ] {
            assert_eq!(is_task_id(text), expected, "{text:?}");
        }
    }

    #[test]
    fn taken_ids_are_passed_over() {
        let ids = SeededIds::new(3);
        let first = fresh(&ids, TaskKind::Process, |_| false);
        assert!(is_task_id(first.as_str()) && first.as_str().starts_with("bash-"));
        let asked = RefCell::new(Vec::new());
        let same = SeededIds::new(3);
        let second = fresh(&same, TaskKind::Process, |id| {
            asked.borrow_mut().push(id.clone());
            *id == first
        });
        assert_ne!(second, first);
        assert_eq!(*asked.borrow(), [first, second]);
    }
}
