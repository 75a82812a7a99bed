//! Aligned columns, and paragraphs wrapped under a hanging indent.

use super::{Style, WIDTH};
use std::fmt::Write;

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under a header. The last column, if it is text, wraps.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

const INDENT: usize = 2;
const GAP: usize = 2;
/// A wrapped column gets at least this much.
const NARROWEST: usize = 24;

fn columns_of(text: &str) -> usize {
    text.chars().count()
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self { columns: columns.iter().map(|(n, a)| ((*n).to_owned(), *a)).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty, further ones are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Without the columns in which `empty` holds for every cell.
    pub fn without(self, empty: impl Fn(&str) -> bool) -> Self {
        let kept = (0..self.columns.len()).map(|c| !self.rows.iter().all(|row| empty(&row[c]))).collect();
        self.keep(kept)
    }

    /// Without the column of this name.
    pub fn without_column(self, name: &str) -> Self {
        let kept = self.columns.iter().map(|(n, _)| n != name).collect();
        self.keep(kept)
    }

    fn keep(mut self, kept: Vec<bool>) -> Self {
        let keep = |c: usize| kept.get(c).copied().unwrap_or(true);
        self.columns = self.columns.into_iter().enumerate().filter(|(c, _)| keep(*c)).map(|(_, x)| x).collect();
        for row in &mut self.rows {
            *row = std::mem::take(row).into_iter().enumerate().filter(|(c, _)| keep(*c)).map(|(_, x)| x).collect();
        }
        self
    }

    /// The table as text, header included.
    pub fn render(&self, style: Style) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|c| {
                let cells = self.rows.iter().map(|row| columns_of(&row[c]));
                cells.chain([columns_of(&self.columns[c].0)]).max().unwrap_or(0)
            })
            .collect();
        let last = self.columns.len().saturating_sub(1);
        let before: usize = widths.iter().take(last).map(|w| w + GAP).sum::<usize>() + INDENT;
        let room = WIDTH.saturating_sub(before).max(NARROWEST);
        let mut text = String::new();
        if self.columns.iter().any(|(name, _)| !name.is_empty()) {
            let header: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
            let _ = writeln!(text, "{}", style.faint(self.line(&header, &widths, last).trim_end()));
        }
        for row in &self.rows {
            let mut row = row.clone();
            let wrapped = match row.last_mut() {
                Some(cell) if self.columns[last].1 == Align::Left => {
                    let mut lines = wrap(cell, room);
                    *cell = if lines.is_empty() { String::new() } else { lines.remove(0) };
                    lines
                }
                _ => Vec::new(),
            };
            let _ = writeln!(text, "{}", self.line(&row, &widths, last).trim_end());
            for line in wrapped {
                let _ = writeln!(text, "{:before$}{line}", "");
            }
        }
        text
    }

    fn line(&self, cells: &[String], widths: &[usize], last: usize) -> String {
        let mut text = " ".repeat(INDENT);
        for (c, ((cell, width), (_, align))) in cells.iter().zip(widths).zip(&self.columns).enumerate() {
            let pad = " ".repeat(width.saturating_sub(columns_of(cell)));
            match align {
                Align::Left if c == last => text.push_str(cell),
                Align::Left => text.extend([cell.as_str(), &pad]),
                Align::Right => text.extend([pad.as_str(), cell]),
            }
            if c != last {
                text.push_str("  ");
            }
        }
        text
    }
}

/// Lines of at most `width` columns, broken at blanks; a word that is longer stands alone.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns_of(line) + 1 + columns_of(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A paragraph behind a mark, indented below it.
pub fn paragraph(mark: &str, text: &str) -> String {
    let indent = columns_of(mark);
    let mut out = String::new();
    for (i, line) in wrap(text, WIDTH.saturating_sub(indent)).into_iter().enumerate() {
        let _ = if i == 0 { writeln!(out, "{mark}{line}") } else { writeln!(out, "{:indent$}{line}", "") };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_texts_left() {
        let mut table = Table::new(&[("stage", Align::Left), ("GB", Align::Right), ("what", Align::Left)]);
        table.row(["0".into(), "7.5".into(), "first".into()]);
        table.row(["10".into(), "71.2".into(), "last".into()]);
        let expected = "  stage    GB  what\n  0       7.5  first\n  10     71.2  last\n";
        assert_eq!(table.render(Style::default()), expected);
    }

    #[test]
    fn the_last_column_wraps_and_empty_columns_go() {
        let mut table = Table::new(&[("a", Align::Left), ("none", Align::Right), ("text", Align::Left)]);
        table.row(["x".into(), "0.0".into(), "word ".repeat(40)]);
        let text = table.without(|cell| cell == "0.0").render(Style::default());
        assert!(!text.contains("none"), "{text}");
        assert!(text.lines().count() > 2 && text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_word_longer_than_the_line_is_kept_whole() {
        assert_eq!(wrap("a bbbbbbbb c", 4), ["a", "bbbbbbbb", "c"]);
        assert!(wrap("", 4).is_empty());
    }
}
