//! A table as Markdown, CSV, LaTeX and HTML.

use std::fmt::Write;

/// Rows under a header.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// File name without extension.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// Whether it depends on clocks.
    pub clocks: bool,
    /// Columns; all but the first `texts` hold numbers.
    pub columns: Vec<String>,
    /// Columns that hold text.
    pub texts: usize,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(name: &str, title: &str, note: &str, texts: usize, columns: Vec<String>) -> Self {
        let (name, title, note) = (name.to_owned(), title.to_owned(), note.to_owned());
        Self { name, title, note, clocks: false, columns, texts, rows: Vec::new() }
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        let rules: Vec<String> =
            (0..self.columns.len()).map(|c| if c < self.texts { "---".into() } else { "---:".into() }).collect();
        let mut text = format!("# {}\n\n{}\n\n", self.title, self.note);
        text += &row(&self.columns);
        text += &row(&rules);
        self.rows.iter().for_each(|cells| text += &row(cells));
        text
    }

    /// As CSV (RFC 4180).
    pub fn csv(&self) -> String {
        let cell = |cell: &String| match cell.contains([',', '"', '\n']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.clone(),
        };
        let row = |cells: &Vec<String>| cells.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
        std::iter::once(&self.columns).chain(&self.rows).map(row).collect()
    }

    /// As a LaTeX `tabular` (package booktabs).
    pub fn tex(&self) -> String {
        let row = |cells: &Vec<String>| cells.iter().map(|c| escape_tex(c)).collect::<Vec<_>>().join(" & ") + " \\\\\n";
        let align: String = (0..self.columns.len()).map(|c| if c < self.texts { 'l' } else { 'r' }).collect();
        let mut text = format!("% {}\n\\begin{{tabular}}{{{align}}}\n\\toprule\n", self.title);
        text += &row(&self.columns);
        text += "\\midrule\n";
        self.rows.iter().for_each(|cells| text += &row(cells));
        text + "\\bottomrule\n\\end{tabular}\n"
    }

    /// As an HTML table.
    pub fn html(&self) -> String {
        let mut text = String::from("<table><thead><tr>");
        for column in &self.columns {
            let _ = write!(text, "<th>{}</th>", escape_html(column));
        }
        text += "</tr></thead><tbody>";
        for cells in &self.rows {
            text += "<tr>";
            for (c, cell) in cells.iter().enumerate() {
                let class = if c < self.texts { "" } else { " class=\"n\"" };
                let _ = write!(text, "<td{class}>{}</td>", escape_html(cell));
            }
            text += "</tr>";
        }
        text + "</tbody></table>\n"
    }
}

fn escape_tex(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '<' => out.push_str("$<$"),
            '>' => out.push_str("$>$"),
            '∞' => out.push_str("$\\infty$"),
            c => out.push(c),
        }
    }
    out
}

/// Text that may stand in HTML and SVG.
pub(super) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number with three significant digits; `∞` and `-` for what is none.
pub(super) fn short(x: f64) -> String {
    if x.is_nan() {
        "-".into()
    } else if x.is_infinite() {
        "∞".into()
    } else if x == 0.0 {
        "0".into()
    } else if (0.001..10_000.0).contains(&x.abs()) {
        let digits = (2 - x.abs().log10().floor() as i32).clamp(0, 5) as usize;
        format!("{x:.digits$}")
    } else {
        format!("{x:.2e}")
    }
}

/// A fraction in percent.
pub(super) fn percent(x: f64) -> String {
    if x.is_finite() { format!("{:.2} %", 100.0 * x) } else { short(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_for_their_format() {
        let mut table = Table::new("t", "A table", "Note.", 1, vec!["a_b".into(), "x".into()]);
        table.rows.push(vec!["1,2 <\"q\">".into(), "5 %".into()]);
        assert_eq!(table.csv(), "a_b,x\n\"1,2 <\"\"q\"\">\",5 %\n");
        assert!(table.tex().contains("a\\_b & x") && table.tex().contains("5 \\%") && table.tex().contains("{lr}"));
        assert!(table.html().contains("1,2 &lt;&quot;q&quot;&gt;") && table.html().contains("<td class=\"n\">5 %"));
        assert!(table.markdown().contains("| --- | ---: |"));
    }

    #[test]
    fn numbers_have_three_digits() {
        let all = [0.0, 1.0, 12.345, 0.012345, 123_456.0, f64::INFINITY, f64::NAN].map(short);
        assert_eq!(all, ["0", "1.00", "12.3", "0.0123", "1.23e5", "∞", "-"]);
    }
}
