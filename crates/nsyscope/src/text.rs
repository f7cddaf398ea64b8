//! Text from a capture, made fit for people: no control characters, no host paths.

use std::borrow::Cow;

/// Replaces control characters (terminal escapes, line breaks, bidirectional overrides)
/// by a visible stand-in, so that no name can do anything to a terminal or a page.
pub fn printable(text: &str) -> Cow<'_, str> {
    let hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
    };
    if text.contains(hostile) {
        Cow::Owned(text.chars().map(|c| if hostile(c) { '\u{fffd}' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Keeps at most `width` characters, ending in `…` where some were cut.
pub fn truncate(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// A count with thousands separated.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Joins lines and runs of blanks, so that a message is one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Shortens absolute paths to their last component: a report says nothing about the
/// folders of the machine that recorded the capture.
pub fn without_paths(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 {
            out.push(' ');
        }
        let opening = word.len() - word.trim_start_matches(['(', '"', '\'', '[', '`']).len();
        let (lead, body) = word.split_at(opening);
        out.push_str(lead);
        let windows = body.as_bytes().get(1..3) == Some(b":\\");
        if (body.starts_with('/') && body[1..].contains('/')) || windows {
            out.push_str("…/");
            out.push_str(body.rsplit(['/', '\\']).next().unwrap_or_default());
        } else {
            out.push_str(body);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_characters_become_visible() {
        assert_eq!(printable("plain µ name"), "plain µ name");
        assert_eq!(printable("\u{1b}[31mred\nline\u{202e}"), "\u{fffd}[31mred\u{fffd}line\u{fffd}");
    }

    #[test]
    fn paths_lose_their_folders() {
        assert_eq!(without_paths("see /home/me/run/log.txt for more"), "see …/log.txt for more");
        assert_eq!(without_paths("(C:\\Users\\me\\x.log)"), "(…/x.log)");
        assert_eq!(without_paths("a / b and 3/4"), "a / b and 3/4");
    }

    #[test]
    fn messages_become_one_line() {
        assert_eq!(one_line(" a\n b\r\n\tc  "), "a b c");
    }

    #[test]
    fn cutting_counts_characters() {
        assert_eq!(truncate("äöüß", 4), "äöüß");
        assert_eq!(truncate("äöüßx", 4), "äöü…");
    }
}
