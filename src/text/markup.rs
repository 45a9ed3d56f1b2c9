//! Text from outside inside of tags that the engine writes.

use std::fmt::Write as _;

/// A text as the value of an attribute: it can end neither the value nor the tag nor the line.
pub fn attribute(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(safe, "&#{};", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_an_attribute() {
        assert_eq!(
            attribute("a\" />\n<b>&é\u{7f}"),
            "a&quot; /&gt;&#10;&lt;b&gt;&amp;é&#127;"
        );
    }
}
