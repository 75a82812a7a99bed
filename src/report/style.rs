//! Emphasis by ANSI escapes (ECMA-48, SGR), or none where colour is not wanted.

/// Whether and how text is emphasised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether escapes are written at all.
    pub color: bool,
}

impl Style {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
    /// A title.
    pub fn title(self, text: &str) -> String {
        self.wrap("1", text)
    }
    /// What matters less.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }
    /// Good news.
    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }
    /// Something to look at.
    pub fn warn(self, text: &str) -> String {
        self.wrap("33", text)
    }
    /// Bad news.
    pub fn bad(self, text: &str) -> String {
        self.wrap("1;31", text)
    }
}
