//! Lines as older versions wrote them, made into lines of today.
//!
//! A journal is never rewritten: each line is led through the steps from its own version to this one whenever it is read,
//! so that a journal may hold lines of several versions. `tests/fixtures/journals` has a journal of each.

use serde_json::{Map, Value};

use super::record::VERSION;

/// Makes a line of a version into one of the next.
type Step = fn(Map<String, Value>) -> Result<Map<String, Value>, String>;

/// The step from version n to n + 1 stands at n - 1; a new version does not compile without its step.
const STEPS: [Step; VERSION as usize - 1] = [];

/// What stands before the fields of a kind.
const HEAD: [&str; 6] = ["v", "seq", "after", "at", "agent", "type"];

/// A line of any version, with its fields in any order, as a line of this version that can be read in one pass.
///
/// # Errors
/// One sentence: it is no line, or of a version that this build does not know.
pub(super) fn migrate(line: Value) -> Result<Value, String> {
    migrate_by(line, &STEPS)
}

fn migrate_by(line: Value, steps: &[Step]) -> Result<Value, String> {
    let Value::Object(mut line) = line else {
        return Err("it is no object".to_owned());
    };
    let latest = steps.len() as u64 + 1;
    let version = line.get("v").and_then(Value::as_u64).unwrap_or(0);
    if version > latest {
        return Err(format!("it was written by a newer version ({version})"));
    }
    let begin = version.checked_sub(1).ok_or("it names no version")?;
    for step in steps.iter().skip(begin as usize) {
        line = step(line)?;
    }
    line.insert("v".to_owned(), latest.into());
    let mut sorted = Map::with_capacity(line.len());
    for name in HEAD {
        if let Some(value) = line.shift_remove(name) {
            sorted.insert(name.to_owned(), value);
        }
    }
    sorted.extend(line);
    Ok(Value::Object(sorted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn renamed(mut line: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let old = line.remove("old").ok_or("no old")?;
        line.insert("new".to_owned(), old);
        Ok(line)
    }

    fn doubled(mut line: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let n = line.get("new").and_then(Value::as_u64).ok_or("no number")?;
        line.insert("new".to_owned(), (2 * n).into());
        Ok(line)
    }

    #[test]
    fn each_line_takes_the_steps_from_its_own_version() {
        let steps: [Step; 2] = [renamed, doubled];
        let through = |line| migrate_by(line, &steps);
        for (line, expected) in [
            (json!({"v": 1, "old": 4}), Ok(json!({"v": 3, "new": 8}))),
            (json!({"v": 2, "new": 4}), Ok(json!({"v": 3, "new": 8}))),
            (json!({"v": 3, "new": 4}), Ok(json!({"v": 3, "new": 4}))),
            (
                json!({"v": 4}),
                Err("it was written by a newer version (4)"),
            ),
            (json!({"v": 0}), Err("it names no version")),
            (json!({"old": 4}), Err("it names no version")),
            (json!({"v": 1}), Err("no old")),
            (json!(7), Err("it is no object")),
        ] {
            assert_eq!(through(line), expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn fields_may_stand_in_any_order() {
        let line =
            json!({"agent": "main", "at": 1, "seq": 2, "turn": "t", "type": "x", "v": VERSION});
        let sorted = migrate(line).unwrap();
        let names: Vec<&String> = sorted.as_object().unwrap().keys().collect();
        assert_eq!(names, ["v", "seq", "at", "agent", "type", "turn"]);
    }
}
