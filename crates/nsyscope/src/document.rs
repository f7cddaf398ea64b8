//! A report's view as a sequence of blocks, rendered as text or Markdown from the same values.

mod html;

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::text;

pub(crate) use html::escape;

/// How a view is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewOptions {
    /// Columns of the terminal or page.
    pub width: usize,
    /// Whether headings and warnings carry ANSI colours.
    pub color: bool,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self { width: 100, color: false }
    }
}

impl ViewOptions {
    /// 100 columns without colour.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the width in columns; at least 40 are used.
    #[must_use]
    pub fn width(mut self, width: usize) -> Self {
        self.width = width.max(40);
        self
    }

    /// The width in columns.
    pub fn columns(&self) -> usize {
        self.width
    }

    /// Sets whether ANSI colours are used.
    #[must_use]
    pub fn color(mut self, color: bool) -> Self {
        self.color = color;
        self
    }
}

/// One block of a view.
pub(crate) enum Block {
    /// The title of the whole.
    Title(String),
    /// The heading of a section.
    Heading(String),
    /// Running text.
    Paragraph(String),
    /// What the reader must know first.
    Warning(String),
    /// A list of sentences.
    Bullets(Vec<String>),
    /// Names and what they are.
    Facts(Vec<(String, String)>),
    /// A table.
    Grid(Grid),
}

/// A table: columns and rows of text that is already formatted.
pub(crate) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Rows that sum up or set apart, by index: shown in bold.
    strong: Vec<usize>,
    /// The column that says what a row is about; `None`: the last one of words.
    about: Option<usize>,
}

struct Column {
    title: String,
    kind: Kind,
    /// Left out of text that is narrower than this.
    from_width: usize,
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Words, to the left.
    Words,
    /// Numbers, to the right.
    Number,
    /// A kernel's name: to the left, cut to the width that is left, verbatim in Markdown.
    Name,
}

impl Grid {
    pub(crate) fn new(columns: &[(&str, Kind)]) -> Self {
        Self {
            columns: columns
                .iter()
                .map(|(title, kind)| Column {
                    title: (*title).to_owned(),
                    kind: *kind,
                    from_width: 0,
                })
                .collect(),
            rows: Vec::new(),
            strong: Vec::new(),
            about: None,
        }
    }

    /// Says which column tells what a row is about: on a page it comes first and heads the row.
    pub(crate) fn about(mut self, title: &str) -> Self {
        self.about = self.columns.iter().position(|column| column.title == title);
        self
    }

    /// Leaves a column out of text that is narrower than `width`.
    pub(crate) fn only_from(mut self, title: &str, width: usize) -> Self {
        for column in &mut self.columns {
            if column.title == title {
                column.from_width = width;
            }
        }
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    pub(crate) fn strong_row(&mut self, cells: Vec<String>) {
        self.strong.push(self.rows.len());
        self.row(cells);
    }

    /// The columns that text of a width shows, by index.
    fn shown(&self, width: usize) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(move |(_, column)| column.from_width <= width)
    }

    /// The width that is left for names beside the other columns.
    fn name_width(&self, width: usize) -> usize {
        let others: usize = self
            .shown(width)
            .filter(|(_, column)| column.kind != Kind::Name)
            .map(|(i, column)| {
                self.rows
                    .iter()
                    .map(|row| row[i].chars().count())
                    .chain([column.title.chars().count()])
                    .max()
                    .unwrap_or(0)
            })
            .sum();
        let names = self.columns.iter().filter(|c| c.kind == Kind::Name).count().max(1);
        let padding = 2 * self.shown(width).count() + 2;
        (width.saturating_sub(others + padding) / names).max(20)
    }

    fn text(&self, out: &mut String, options: &ViewOptions) {
        let strong = options.color.then(|| Style::new().bold());
        let width = options.width;
        let name_width = self.name_width(width);
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.shown(width).map(|(_, column)| column.title.as_str()));
        for row in &self.rows {
            table.add_row(self.shown(width).map(|(i, column)| {
                let cell = text::printable(&row[i]);
                if column.kind == Kind::Name {
                    text::truncate(unqualified(&cell), name_width)
                } else {
                    cell.into_owned()
                }
            }));
        }
        for (at, (_, column)) in self.shown(width).enumerate() {
            if let Some(out) = table.column_mut(at) {
                out.set_cell_alignment(match column.kind {
                    Kind::Number => CellAlignment::Right,
                    Kind::Words | Kind::Name => CellAlignment::Left,
                });
            }
        }
        for (i, line) in table.lines().enumerate() {
            let line = line.trim_end();
            let is_strong = i == 0 || self.strong.contains(&(i - 1));
            match strong {
                Some(style) if is_strong => {
                    let _ = writeln!(out, " {}{line}{}", style.render(), style.render_reset());
                }
                _ => {
                    let _ = writeln!(out, " {line}");
                }
            }
        }
    }

    fn markdown(&self, out: &mut String) {
        let cells = |cells: Vec<String>| {
            let mut line = String::from("|");
            for cell in cells {
                let _ = write!(line, " {cell} |");
            }
            line.push('\n');
            line
        };
        out.push_str(&cells(self.columns.iter().map(|c| escape_markdown(&c.title)).collect()));
        out.push_str(&cells(
            self.columns
                .iter()
                .map(|c| if c.kind == Kind::Number { "---:" } else { ":---" }.to_owned())
                .collect(),
        ));
        for (i, row) in self.rows.iter().enumerate() {
            let strong = self.strong.contains(&i);
            out.push_str(&cells(
                row.iter()
                    .zip(&self.columns)
                    .map(|(cell, column)| {
                        let cell = text::printable(cell);
                        match column.kind {
                            Kind::Name if !cell.is_empty() => code(&text::truncate(&cell, 200)),
                            _ if strong && !cell.is_empty() => {
                                format!("**{}**", escape_markdown(&cell))
                            }
                            _ => escape_markdown(&cell),
                        }
                    })
                    .collect(),
            ));
        }
    }
}

/// A kernel's name without `void` and the namespaces before the function, which would fill a
/// narrow column and tell nothing apart.
fn unqualified(name: &str) -> &str {
    let mut rest = name.strip_prefix("void ").unwrap_or(name);
    loop {
        let word = ["<unnamed>", "(anonymous namespace)"]
            .into_iter()
            .find(|anonymous| rest.starts_with(anonymous))
            .map_or_else(
                || rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()),
                str::len,
            );
        match rest[word..].strip_prefix("::") {
            Some(inner) if word > 0 && !inner.is_empty() => rest = inner,
            _ => return rest,
        }
    }
}

/// Text that Markdown shows as it is.
fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            _ => out.push(c),
        }
    }
    out
}

/// A code span inside a table cell: nothing but a pipe and a backtick can end it.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}

/// A view.
pub(crate) struct Document(pub(crate) Vec<Block>);

impl Document {
    /// For a terminal.
    pub(crate) fn text(&self, options: &ViewOptions) -> String {
        let mut out = String::new();
        let styled = |style: Style, text: &str| {
            if options.color {
                format!("{}{text}{}", style.render(), style.render_reset())
            } else {
                text.to_owned()
            }
        };
        let bold = Style::new().bold();
        let heading = AnsiColor::Cyan.on_default().bold();
        let warning = AnsiColor::Yellow.on_default();
        for block in &self.0 {
            match block {
                Block::Title(title) => {
                    for line in wrap(&text::printable(title), options.width) {
                        let _ = writeln!(out, "{}", styled(bold, &line));
                    }
                }
                Block::Heading(title) => {
                    let _ = writeln!(out, "\n{}", styled(heading, title));
                }
                Block::Paragraph(paragraph) => {
                    for line in wrap(&text::printable(paragraph), options.width - 2) {
                        let _ = writeln!(out, "  {line}");
                    }
                }
                Block::Warning(paragraph) => {
                    for (i, line) in
                        wrap(&text::printable(paragraph), options.width - 4).iter().enumerate()
                    {
                        let lead = if i == 0 { "!" } else { " " };
                        let _ = writeln!(out, "  {}", styled(warning, &format!("{lead} {line}")));
                    }
                }
                Block::Bullets(items) => {
                    for item in items {
                        for (i, line) in
                            wrap(&text::printable(item), options.width - 4).iter().enumerate()
                        {
                            let lead = if i == 0 { "-" } else { " " };
                            let _ = writeln!(out, "  {lead} {line}");
                        }
                    }
                }
                Block::Facts(facts) => {
                    let widest =
                        facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
                    let left = options.width.saturating_sub(widest + 4).max(20);
                    for (name, value) in facts {
                        for (i, line) in wrap(&text::printable(value), left).iter().enumerate() {
                            let name = if i == 0 { name.as_str() } else { "" };
                            let _ = writeln!(out, "  {name:widest$}  {line}");
                        }
                    }
                }
                Block::Grid(grid) => grid.text(&mut out, options),
            }
        }
        out
    }

    /// For GitHub and other renderers of Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        for block in &self.0 {
            match block {
                Block::Title(title) => {
                    let _ = writeln!(out, "# {}\n", escape_markdown(&text::printable(title)));
                }
                Block::Heading(title) => {
                    let _ = writeln!(out, "## {}\n", escape_markdown(title));
                }
                Block::Paragraph(paragraph) => {
                    let _ = writeln!(out, "{}\n", escape_markdown(&text::printable(paragraph)));
                }
                Block::Warning(paragraph) => {
                    let _ = writeln!(
                        out,
                        "> **Note:** {}\n",
                        escape_markdown(&text::printable(paragraph))
                    );
                }
                Block::Bullets(items) => {
                    for item in items {
                        let _ = writeln!(out, "- {}", escape_markdown(&text::printable(item)));
                    }
                    out.push('\n');
                }
                Block::Facts(facts) => {
                    for (name, value) in facts {
                        let _ = writeln!(
                            out,
                            "- **{}**: {}",
                            escape_markdown(name),
                            escape_markdown(&text::printable(value))
                        );
                    }
                    out.push('\n');
                }
                Block::Grid(grid) => {
                    grid.markdown(&mut out);
                    out.push('\n');
                }
            }
        }
        out
    }
}

const UNITS: [&str; 9] = ["%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB"];

/// Breaks text at blanks into lines of at most `width` characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let words: Vec<&str> = text.split_whitespace().collect();
    for (i, word) in words.iter().enumerate() {
        // A number stays with its unit.
        let unit = words.get(i + 1).filter(|next| {
            word.ends_with(|c: char| c.is_ascii_digit())
                && UNITS
                    .contains(&next.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '%'))
        });
        let needed = word.chars().count() + unit.map_or(0, |unit| 1 + unit.chars().count());
        if !line.is_empty() && line.chars().count() + 1 + needed > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_out_of_a_cell() {
        let mut grid = Grid::new(&[("n|m", Kind::Words), ("name", Kind::Name)]);
        grid.row(vec!["<b>".into(), "a|b`c\u{1b}[31m\nd".into()]);
        let mut markdown = String::new();
        grid.markdown(&mut markdown);
        assert_eq!(markdown.lines().count(), 3);
        assert!(
            markdown.contains("&lt;b&gt;") && markdown.contains("`a\\|b'c\u{fffd}[31m\u{fffd}d`")
        );
        let mut text = String::new();
        grid.text(&mut text, &ViewOptions::default());
        assert!(!text.contains('\u{1b}') && text.lines().count() == 2);
    }

    #[test]
    fn a_narrow_column_shows_the_function() {
        for (name, shown) in [
            ("void at::native::<unnamed>::softmax_warp<float>(int)", "softmax_warp<float>(int)"),
            ("at::(anonymous namespace)::spin(long)", "spin(long)"),
            ("triton_poi_fused_2", "triton_poi_fused_2"),
            ("std::enable_if<a::b>::type f(int)", "enable_if<a::b>::type f(int)"),
            ("void ", ""),
            ("::", "::"),
            ("a::", "a::"),
        ] {
            assert_eq!(unqualified(name), shown);
        }
    }

    #[test]
    fn long_text_wraps_at_blanks() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibilities", 8), ["incomprehensibilities"]);
        assert_eq!(wrap("it takes 14.1 % (2.5 s) of", 14), ["it takes", "14.1 % (2.5 s)", "of"]);
    }
}
