//! Standard output and standard error. A reader that went away is no error: the rest is not written.

use crate::report::Style;
use clap::ValueEnum;
use serde_json::Value;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On terminals, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How answers and errors are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// One JSON object instead of text.
    pub json: bool,
    color: Color,
}

impl Output {
    pub(super) fn new(json: bool, color: Color) -> Self {
        Self { json, color }
    }

    fn style(self, terminal: bool) -> Style {
        // https://no-color.org: present and not empty.
        let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Style {
            color: match self.color {
                Color::Auto => terminal && !refused,
                Color::Always => true,
                Color::Never => false,
            },
        }
    }

    /// Emphasis on standard error.
    pub(super) fn error_style(self) -> Style {
        self.style(io::stderr().is_terminal())
    }

    /// Writes the answer: `text` for people, `document` with `--json`.
    pub(super) fn answer(self, document: &Value, text: impl FnOnce(Style) -> String) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = if self.json {
            writeln!(out, "{document:#}")
        } else {
            out.write_all(text(self.style(io::stdout().is_terminal())).as_bytes())
        };
        match written.and_then(|()| out.flush()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Writes a line to standard error, if anybody listens.
pub(super) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", text.trim_end());
}
