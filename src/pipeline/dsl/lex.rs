//! Text to tokens.

use super::{DslError, Span};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Number(i64),
    Text(String),
    /// Punctuation and operators.
    Sign(&'static str),
    End,
}

impl Token {
    pub fn describe(&self) -> String {
        match self {
            Token::Name(name) => format!("`{name}`"),
            Token::Number(n) => format!("`{n}`"),
            Token::Text(text) => format!("\"{text}\""),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the text".to_owned(),
        }
    }
}

/// Longer ones first.
const SIGNS: [&str; 24] = [
    "..", "->", "==", "!=", "<=", ">=", "&&", "||", "{", "}", "(", ")", "[", "]", ",", "=", "<", ">", "+", "-", "*",
    "/", "%", "&",
];

/// Tokens with their places. `#` starts a comment.
pub(super) fn lex(text: &str) -> Result<Vec<(Token, Span)>, DslError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let start = at;
        let take = |accept: fn(char) -> bool| rest.find(|c| !accept(c)).unwrap_or(rest.len());
        let token = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if c.is_ascii_digit() {
            at += take(|c| c.is_ascii_digit());
            let number = text[start..at].parse().map_err(|_| {
                DslError::new(text, Span(start, at), "a number that fits into 63 bits", &text[start..at])
            })?;
            Token::Number(number)
        } else if c.is_ascii_alphabetic() || c == '_' {
            at += take(|c| c.is_ascii_alphanumeric() || c == '_');
            Token::Name(text[start..at].to_owned())
        } else if c == '"' {
            let Some(length) = rest[1..].find(['"', '\n']).filter(|end| rest[1 + end..].starts_with('"')) else {
                return Err(DslError::new(text, Span(at, at + 1), "a closing `\"` on the same line", "none"));
            };
            at += length + 2;
            Token::Text(rest[1..=length].to_owned())
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            at += sign.len();
            Token::Sign(sign)
        } else if c == '!' {
            at += 1;
            Token::Sign("!")
        } else {
            let span = Span(at, at + c.len_utf8());
            return Err(DslError::new(text, span, "a name, a number, a text or an operator", &format!("`{c}`")));
        };
        tokens.push((token, Span(start, at)));
    }
    tokens.push((Token::End, Span(text.len(), text.len())));
    Ok(tokens)
}
