//! Text from a capture, made fit for people: no control characters, no host paths.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Most bytes of a text file that people write: rules, thresholds, lists of windows.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a text file that people write, or a pipe; an endless one ends in an error, not in all memory.
///
/// # Errors
/// It cannot be read, is not UTF-8, or is larger than 64 MiB.
pub fn read_file(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        let message = format!("it is larger than {} MiB", MOST_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })
}

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
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
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
    let ends_path = |c: char| c.is_whitespace() || "\"'`,;()[]{}<>|".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // What precedes the rest; a path begins where no word is.
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let windows = c.is_ascii_alphabetic() && rest[1..].starts_with(":\\");
        if (c == '/' || windows) && !before.is_alphanumeric() && !"._~-".contains(before) {
            let path = &rest[..rest.find(ends_path).unwrap_or(rest.len())];
            let folders = path.trim_start_matches('/');
            if windows || folders.contains('/') {
                let name = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next();
                out.push_str("…/");
                out.push_str(name.unwrap_or_default());
                rest = &rest[path.len()..];
                before = 'x';
                continue;
            }
        }
        out.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
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
        assert_eq!(without_paths("a / b and 3/4, and/or/not"), "a / b and 3/4, and/or/not");
        assert_eq!(without_paths("file:///home/me/x.so,/opt/me/y.so"), "file:…/x.so,…/y.so");
        assert_eq!(without_paths("echo 1 >/proc/sys/kernel/level"), "echo 1 >…/level");
        assert_eq!(without_paths("in /home/me/."), "in …/.");
        assert_eq!(without_paths("at /tmp µs"), "at /tmp µs");
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
