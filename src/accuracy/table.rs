//! Comma-separated tables (RFC 4180: quoted cells may hold commas, quotes and line breaks) with a header.

use crate::error::{InputError, Kind};
use crate::read;
use std::collections::BTreeMap;
use std::path::Path;

/// One row: cells by the name of their column, blanks trimmed, empty cells absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    cells: BTreeMap<String, String>,
    /// Line of the file on which it starts, from 1.
    pub line: usize,
    /// Line of an earlier row of the same `id`.
    pub repeats: Option<usize>,
}

impl Row {
    /// A row of the given cells.
    pub fn new<'a>(cells: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let filled = cells.into_iter().filter(|(_, value)| !value.trim().is_empty());
        Self { cells: filled.map(|(k, v)| (k.to_owned(), v.trim().to_owned())).collect(), ..Self::default() }
    }

    /// The cell of a column, if it is filled.
    pub fn text(&self, column: &str) -> Option<&str> {
        self.cells.get(column).map(String::as_str)
    }

    /// The cell of a column, or nothing written.
    pub fn or_blank(&self, column: &str) -> &str {
        self.text(column).unwrap_or_default()
    }

    /// A number; a cell that holds none is as good as empty.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column)?.parse::<f64>().ok().filter(|x| x.is_finite())
    }

    /// A whole number of at least 1, also where it is written as `8.0`.
    pub fn count(&self, column: &str) -> Option<u64> {
        let whole = |x: &f64| *x >= 1.0 && x.fract() == 0.0 && *x < 9e15;
        self.number(column).filter(whole).map(|x| x as u64)
    }

    /// Whether the cell says yes, where it says anything.
    pub fn flag(&self, column: &str) -> Option<bool> {
        match self.text(column)?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(true),
            "false" | "no" | "0" => Some(false),
            _ => None,
        }
    }
}

/// The rows of the file at `path`.
///
/// # Errors
/// When it cannot be read, or a row has another number of cells than the header, naming the line.
pub fn load(path: &Path) -> Result<Vec<Row>, InputError> {
    parse(&read::text(path)?).map_err(|e| e.in_file(path.display()))
}

/// Fills the empty cells of `rows` from those of `others` with the same `id`: a table of memory says less of a run than the
/// table of runs beside it.
pub fn complete(rows: &mut [Row], others: &[Row]) {
    let named = others.iter().filter(|row| row.repeats.is_none());
    let by_id: BTreeMap<&str, &Row> = named.filter_map(|row| Some((row.text("id")?, row))).collect();
    for row in rows {
        let Some(other) = row.text("id").and_then(|id| by_id.get(id)) else { continue };
        for (column, value) in &other.cells {
            row.cells.entry(column.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// The rows of a text.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str) -> Result<Vec<Row>, InputError> {
    let mut records = Records { text: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    let Some((_, header)) = records.next().transpose()? else {
        return Err(InputError::new(Kind::Syntax).found("an empty file").expected("a header and rows"));
    };
    for (i, name) in header.iter().map(|name| name.trim()).enumerate() {
        if !name.is_empty() && header[..i].iter().any(|earlier| earlier.trim() == name) {
            return Err(InputError::new(Kind::Inconsistent).at(name).found("two columns").expected("one of that name"));
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for record in records {
        let (line, cells) = record?;
        if cells.len() != header.len() {
            let found = format!("{} cells", cells.len());
            let error = InputError::new(Kind::Syntax).at(format!("line {line}")).found(found);
            return Err(error.expected(format!("{} as in the header", header.len())));
        }
        let pairs = header.iter().map(|name| name.trim()).zip(cells.iter().map(String::as_str));
        let row = Row::new(pairs);
        let repeats = row.text("id").and_then(|id| first.get(id).copied());
        if let (None, Some(id)) = (repeats, row.text("id")) {
            first.insert(id.to_owned(), line);
        }
        rows.push(Row { line, repeats, ..row });
    }
    Ok(rows)
}

struct Records<'t> {
    text: &'t str,
    line: usize,
}

impl Iterator for Records<'_> {
    type Item = Result<(usize, Vec<String>), InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.text.is_empty() {
            return None;
        }
        let start = self.line;
        let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
        let mut chars = self.text.char_indices().peekable();
        let mut end = self.text.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if quoted && chars.peek().is_some_and(|(_, n)| *n == '"') => {
                    cell.push('"');
                    chars.next();
                }
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(std::mem::take(&mut cell)),
                '\n' if !quoted => {
                    self.line += 1;
                    end = at + 1;
                    break;
                }
                '\r' if !quoted => {}
                _ => {
                    self.line += usize::from(c == '\n');
                    cell.push(c);
                }
            }
        }
        if quoted {
            self.text = "";
            let error = InputError::new(Kind::Syntax).at(format!("line {start}"));
            return Some(Err(error.found("a quoted cell without end").help("is the file cut off?")));
        }
        self.text = &self.text[end..];
        cells.push(cell);
        if cells.len() == 1 && cells[0].trim().is_empty() {
            return self.next();
        }
        Some(Ok((start, cells)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_cells_hold_commas_quotes_and_line_breaks() {
        let rows = parse("a,b,c\r\n1,\"x, \"\"y\"\"\nz\",\n\n4,5,6").unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].text("b"), Some("x, \"y\"\nz"));
        assert_eq!((rows[0].text("c"), rows[0].count("a")), (None, Some(1)));
        assert_eq!((rows[1].line, rows[1].number("c")), (5, Some(6.0)));
    }

    #[test]
    fn empty_cells_are_filled_from_the_row_of_the_same_name() {
        let mut rows = [Row::new([("id", "x"), ("tp", "2")]), Row::new([("id", "y")])];
        complete(&mut rows, &[Row::new([("id", "x"), ("tp", "4"), ("pp", "8")])]);
        assert_eq!((rows[0].count("tp"), rows[0].count("pp"), rows[1].count("pp")), (Some(2), Some(8), None));
    }

    #[test]
    fn rows_of_one_name_and_columns_of_one_name_are_seen() {
        let rows = parse("id,a\nx,1\ny,2\nx,3\n,4\n,5\n").unwrap();
        assert_eq!(rows.iter().map(|r| r.repeats).collect::<Vec<_>>(), [None, None, Some(2), None, None]);
        assert_eq!(parse("a,b,a\n1,2,3\n").unwrap_err().field.as_deref(), Some("a"));
    }

    #[test]
    fn a_row_of_another_length_is_named_by_its_line() {
        let error = parse("a,b\n1,2\n3\n").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("line 3"));
        assert!(parse("a,b\n\"1,2\n").unwrap_err().to_string().contains("without end"));
        assert!(parse("").is_err());
    }

    #[test]
    fn what_is_no_number_is_no_number() {
        let row = Row::new([("a", "nan"), ("b", "8.0"), ("c", "2.5"), ("d", "True"), ("e", "-1")]);
        assert_eq!((row.number("a"), row.count("b"), row.count("c"), row.flag("d")), (None, Some(8), None, Some(true)));
        assert_eq!(row.count("e"), None);
    }
}
