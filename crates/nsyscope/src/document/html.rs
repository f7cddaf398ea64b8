//! A view as HTML.

use std::fmt::Write as _;

use super::{Block, Document, Grid, Kind};
use crate::text;

/// Text that can be nothing else in HTML, in elements and in attributes in double quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text::printable(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

impl Document {
    /// As the content of a section; its headings are of the given level.
    pub(crate) fn html(&self, level: u8) -> String {
        let mut out = String::new();
        let mut heading = String::new();
        for block in &self.0 {
            let _ = match block {
                Block::Title(title) => writeln!(out, "<h1>{}</h1>", escape(title)),
                Block::Heading(title) => {
                    heading.clone_from(title);
                    writeln!(out, "<h{level}>{}</h{level}>", escape(title))
                }
                Block::Paragraph(paragraph) => writeln!(out, "<p>{}</p>", escape(paragraph)),
                Block::Warning(paragraph) => writeln!(
                    out,
                    "<p class=\"warning\"><strong>Note:</strong> {}</p>",
                    escape(paragraph)
                ),
                Block::Bullets(items) => {
                    out.push_str("<ul>\n");
                    for item in items {
                        let _ = writeln!(out, "<li>{}</li>", escape(item.trim_start()));
                    }
                    writeln!(out, "</ul>")
                }
                Block::Facts(facts) => {
                    out.push_str("<dl>\n");
                    for (name, value) in facts {
                        let _ =
                            writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
                    }
                    writeln!(out, "</dl>")
                }
                Block::Grid(grid) => {
                    grid.html(&mut out, &heading);
                    Ok(())
                }
            };
        }
        out
    }
}

impl Grid {
    fn html(&self, out: &mut String, caption: &str) {
        let caption = escape(if caption.is_empty() { "Table" } else { caption });
        // A table wider than the page scrolls by itself, with the keyboard too.
        let _ = writeln!(
            out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n<table>\n\
             <caption class=\"unseen\">{caption}</caption>\n<thead><tr>"
        );
        // What a row is about comes first here: on a narrow page the rest scrolls beside it.
        let about = self
            .about
            .or_else(|| self.columns.iter().rposition(|column| column.kind == Kind::Words));
        let order = || {
            let rest = (0..self.columns.len()).filter(move |i| Some(*i) != about);
            about.into_iter().chain(rest)
        };
        for column in order().map(|i| &self.columns[i]) {
            let class = if column.kind == Kind::Number { " class=\"n\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(&column.title));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (i, row) in self.rows.iter().enumerate() {
            out.push_str(if self.strong.contains(&i) { "<tr class=\"sum\">" } else { "<tr>" });
            for i in order() {
                let cell = &row[i];
                let _ = match self.columns[i].kind {
                    Kind::Words | Kind::Number if Some(i) == about => {
                        write!(out, "<th scope=\"row\">{}</th>", escape(cell))
                    }
                    Kind::Number => write!(out, "<td class=\"n\">{}</td>", escape(cell)),
                    Kind::Words => write!(out, "<td>{}</td>", escape(cell)),
                    Kind::Name => write!(
                        out,
                        "<td class=\"name\"><code title=\"{0}\">{0}</code></td>",
                        escape(&text::truncate(cell, 400))
                    ),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n</div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let evil = "</code><img src=x onerror='alert(1)'>\" & \u{202e}\u{7}";
        let mut grid = Grid::new(&[("name", Kind::Name), ("<b>", Kind::Words)]);
        grid.row(vec![evil.to_owned(), evil.to_owned()]);
        let document = Document(vec![
            Block::Title(evil.to_owned()),
            Block::Warning(evil.to_owned()),
            Block::Bullets(vec![evil.to_owned()]),
            Block::Facts(vec![(evil.to_owned(), evil.to_owned())]),
            Block::Grid(grid),
        ]);
        let html = document.html(2);
        assert!(!html.contains("<img") && !html.contains("<b>") && !html.contains("onerror='"));
        assert!(!html.contains(['\u{202e}', '\u{7}']));
        assert_eq!(html.matches("&lt;img").count(), 8);
    }
}
