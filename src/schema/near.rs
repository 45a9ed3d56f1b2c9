//! Names that look alike.

/// The candidates most like `name`, best first, at most `limit`.
///
/// Alike means: the same but for case and separators, one a part of the other, or few edits apart for its length.
pub fn nearest<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
    limit: usize,
) -> Vec<&'c str> {
    let wanted = plain(name);
    let mut alike: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| Some((distance(&wanted, &plain(candidate))?, candidate)))
        .collect();
    alike.sort_unstable();
    alike
        .into_iter()
        .take(limit)
        .map(|(_, candidate)| candidate)
        .collect()
}

fn plain(name: &str) -> Vec<char> {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .take(120)
        .collect()
}

/// Edits from one to the other, or none where they are not alike.
fn distance(a: &[char], b: &[char]) -> Option<usize> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.is_empty() {
        return None;
    }
    let edits = edits(a, b);
    let is_part = short.len() >= 3 && long.windows(short.len()).any(|window| window == short);
    (edits <= long.len() / 3 || is_part).then_some(edits)
}

/// Insertions, deletions, replacements and swaps of neighbours.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (previous[j] + usize::from(ca != cb))
                .min(previous[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn alike_or_not() {
        let names = ["path", "n_lines", "line_offset", "old_string"];
        for (name, expected) in [
            ("nLines", &["n_lines"][..]),
            ("pth", &["path"]),
            ("file_path", &["path"]),
            ("oldstring", &["old_string"]),
            ("offset", &["line_offset"]),
            ("bogus", &[]),
            ("", &[]),
        ] {
            assert_eq!(nearest(name, names, 1), expected, "{name}");
        }
        assert_eq!(
            nearest("mian.rs", ["main.rs", "lib.rs", "mine.rs"], 2),
            ["main.rs", "mine.rs"]
        );
    }
}
