//! What an export gives: files, each line with its reason, and what the target cannot express.

use serde::Serialize;

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its name, inside the folder of the export.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Something of the plan that the target cannot say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// What it is.
    pub what: String,
    /// The nearest that the target can say, which the files hold.
    pub nearest: String,
}

/// An export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Bundle {
    /// Its files, the one to launch first.
    pub files: Vec<File>,
    /// What is lost.
    pub losses: Vec<Loss>,
}

impl Bundle {
    /// Adds a file.
    pub fn file(&mut self, name: &str, text: String) {
        self.files.push(File { name: name.to_owned(), text });
    }

    /// Says that something is lost.
    pub fn lose(&mut self, what: impl Into<String>, nearest: impl Into<String>) {
        self.losses.push(Loss { what: what.into(), nearest: nearest.into() });
    }
}

/// Lines of a script or a document, each with its reason as a comment.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    list: Vec<(String, String)>,
}

/// Comments start in this column where lines are short enough.
const COLUMN: usize = 64;

impl Lines {
    /// A line with its reason.
    pub fn put(&mut self, line: impl Into<String>, reason: impl Into<String>) {
        self.list.push((line.into(), reason.into()));
    }

    /// The lines with `comment` in front of every reason.
    pub fn text(&self, indent: &str, comment: &str) -> String {
        let mut out = String::new();
        for (line, reason) in &self.list {
            let line = format!("{indent}{line}");
            if reason.is_empty() {
                out.push_str(&line);
            } else {
                out.push_str(&format!("{line:COLUMN$}  {comment} {reason}"));
            }
            out.push('\n');
        }
        out
    }

    /// The lines alone.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(line, _)| line.as_str())
    }
}
