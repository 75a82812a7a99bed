//! The part of a launch script that says what is run: assignments, arrays, `export`, line continuations, `#SBATCH` lines,
//! and the words of commands with their variables put in.
//!
//! Conditions are not evaluated: what both branches set, the later one sets. What a command would print is unknown and
//! stands as it is written.

use crate::error::{InputError, Kind};
use std::collections::BTreeMap;

/// Longest text of words that a script makes of its variables.
const LONGEST: usize = 1 << 20;

/// A script, read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// Words of each command, in order.
    pub commands: Vec<Vec<String>>,
    /// Exported variables, and those set in front of a command.
    pub environment: BTreeMap<String, String>,
    /// Options of `#SBATCH` lines.
    pub sbatch: Vec<String>,
    variables: BTreeMap<String, Vec<String>>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// A quote or a parenthesis that is not closed.
    pub fn parse(text: &str) -> Result<Self, InputError> {
        let mut script = Script::default();
        for line in text.lines() {
            if let Some(options) = line.trim_start().strip_prefix("#SBATCH") {
                script.sbatch.extend(options.split_whitespace().map(str::to_owned));
            }
        }
        let mut reader = Reader { text: text.chars().collect(), at: 0, made: 0 };
        while let Some(statement) = reader.statement(&mut script)? {
            script.run(statement);
        }
        Ok(script)
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<String> {
        let from_environment = || self.environment.get(name).cloned();
        self.variables.get(name).map(|v| v.join(" ")).or_else(from_environment)
    }

    fn run(&mut self, mut words: Vec<String>) {
        while words.first().is_some_and(|w| matches!(w.as_str(), "then" | "else" | "do" | "{" | "exec" | "time")) {
            words.remove(0);
        }
        let export = words.first().is_some_and(|w| w == "export");
        if export {
            words.remove(0);
        }
        let ahead = words.iter().take_while(|w| assignment(w).is_some()).count();
        for (name, value) in words[..ahead].iter().filter_map(|w| assignment(w)) {
            self.variables.insert(name.to_owned(), vec![value.to_owned()]);
            // Before a command an assignment is part of its environment.
            if export || words.len() > ahead {
                self.environment.insert(name.to_owned(), value.to_owned());
            }
        }
        if export {
            for name in &words[ahead..] {
                if let Some(value) = self.variables.get(name.as_str()) {
                    self.environment.insert(name.clone(), value.join(" "));
                }
            }
        } else if words.len() > ahead {
            self.commands.push(words.split_off(ahead));
        }
    }
}

/// `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let named = (first.is_ascii_alphabetic() || first == '_') && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    named.then_some((name, value))
}

struct Reader {
    text: Vec<char>,
    at: usize,
    made: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn open(&self, what: &str) -> InputError {
        let line = 1 + self.text[..self.at.min(self.text.len())].iter().filter(|c| **c == '\n').count();
        InputError::new(Kind::Syntax).at(format!("line {line}")).expected(format!("a closing {what}"))
    }

    /// Words up to a line's end, `;`, `&` or `|`; `None` at the end of the text.
    fn statement(&mut self, script: &mut Script) -> Result<Option<Vec<String>>, InputError> {
        let mut words = Vec::new();
        let mut any = false;
        while let Some(c) = self.peek(0) {
            any = true;
            match c {
                '\n' | ';' | '&' | '|' => {
                    self.at += 1;
                    break;
                }
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '\\' if self.peek(1) == Some('\r') => self.at += 3,
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '>' | '<' => {
                    // A redirection and where it goes are no words of the command.
                    while self.peek(0).is_some_and(|c| matches!(c, '>' | '<' | '&')) {
                        self.at += 1;
                    }
                    self.blanks();
                    self.word(script)?;
                }
                c if c.is_whitespace() => self.at += 1,
                _ => match self.array(script)? {
                    Some((name, more, list)) => {
                        let entry = script.variables.entry(name).or_default();
                        if !more {
                            entry.clear();
                        }
                        entry.extend(list);
                    }
                    None => {
                        let word = self.word(script)?;
                        // `2>&1`: the number of a stream is no word of the command.
                        let stream = word.len() == 1 && word[0].chars().all(|c| c.is_ascii_digit());
                        if !(stream && self.peek(0).is_some_and(|c| matches!(c, '>' | '<'))) {
                            words.extend(word);
                        }
                    }
                },
            }
        }
        Ok(any.then_some(words))
    }

    fn blanks(&mut self) {
        while self.peek(0).is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
    }

    /// `NAME=( .. )` or `NAME+=( .. )`.
    fn array(&mut self, script: &mut Script) -> Result<Option<(String, bool, Vec<String>)>, InputError> {
        let name: String =
            self.text[self.at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
        let mut ahead = name.chars().count();
        let more = self.peek(ahead) == Some('+');
        ahead += usize::from(more);
        if name.is_empty() || self.peek(ahead) != Some('=') || self.peek(ahead + 1) != Some('(') {
            return Ok(None);
        }
        let start = self.at;
        self.at += ahead + 2;
        let mut list = Vec::new();
        loop {
            match self.peek(0) {
                None => {
                    self.at = start;
                    return Err(self.open(")"));
                }
                Some(')') => {
                    self.at += 1;
                    return Ok(Some((name, more, list)));
                }
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
                Some('#') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                Some(c) if c.is_whitespace() => self.at += 1,
                Some(_) => list.extend(self.word(script)?),
            }
        }
    }

    /// One word as written; several when an unquoted variable holds several.
    fn word(&mut self, script: &Script) -> Result<Vec<String>, InputError> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        let start = self.at;
        // The value of `NAME=` is not split.
        let mut splits = true;
        while let Some(c) = self.peek(0) {
            if splits && c == '=' && assignment(&format!("{}=", words[0])).is_some() && words.len() == 1 {
                splits = false;
            }
            match c {
                '\'' => {
                    quoted = true;
                    self.at += 1;
                    loop {
                        match self.peek(0) {
                            Some('\'') => break self.at += 1,
                            Some(c) => last(&mut words).push(c),
                            None => {
                                self.at = start;
                                return Err(self.open("'"));
                            }
                        }
                        self.at += 1;
                    }
                }
                '"' => {
                    quoted = true;
                    self.at += 1;
                    self.double(script, &mut words, start)?;
                }
                '\\' => {
                    self.at += 1;
                    if self.peek(0) != Some('\n') {
                        last(&mut words).extend(self.peek(0));
                    }
                    self.at += 1;
                }
                '$' => {
                    let pieces = self.expansion(script)?;
                    self.made += pieces.iter().map(String::len).sum::<usize>();
                    if self.made > LONGEST {
                        return Err(InputError::new(Kind::Unsupported).help("the script makes too long a text"));
                    }
                    let text = pieces.join(" ");
                    if splits {
                        let mut parts = text.split_whitespace().map(str::to_owned);
                        if let Some(first) = parts.next() {
                            last(&mut words).push_str(&first);
                            words.extend(parts);
                        }
                    } else {
                        last(&mut words).push_str(&text);
                    }
                }
                ';' | '&' | '|' | '>' | '<' | ')' if !quoted || !words[0].is_empty() => break,
                ')' => break,
                c if c.is_whitespace() => break,
                c => {
                    last(&mut words).push(c);
                    self.at += 1;
                }
            }
        }
        if self.at == start {
            self.at += 1;
        }
        Ok(if words.len() == 1 && words[0].is_empty() && !quoted { Vec::new() } else { words })
    }

    fn double(&mut self, script: &Script, words: &mut Vec<String>, start: usize) -> Result<(), InputError> {
        loop {
            match self.peek(0) {
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') if matches!(self.peek(1), Some('"' | '\\' | '$' | '`')) => {
                    last(words).extend(self.peek(1));
                    self.at += 2;
                }
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
                Some('$') => {
                    // An array in double quotes keeps its words apart.
                    let mut pieces = self.expansion(script)?.into_iter();
                    if let Some(first) = pieces.next() {
                        last(words).push_str(&first);
                        words.extend(pieces);
                    }
                }
                Some(c) => {
                    last(words).push(c);
                    self.at += 1;
                }
                None => {
                    self.at = start;
                    return Err(self.open("\""));
                }
            }
        }
    }

    /// What stands behind a `$`, the words of an array apart.
    fn expansion(&mut self, script: &Script) -> Result<Vec<String>, InputError> {
        let start = self.at;
        self.at += 1;
        match self.peek(0) {
            Some('{') => {
                let inner = self.until('{', '}').ok_or_else(|| self.open("}"))?;
                let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
                let (name, rest) = inner.split_at(end);
                let value = script.variables.get(name).cloned();
                let value = value.or_else(|| script.environment.get(name).map(|v| vec![v.clone()]));
                Ok(match rest {
                    "[@]" | "[*]" => value.unwrap_or_default(),
                    _ => {
                        let default = rest.strip_prefix(":-").or(rest.strip_prefix('-')).or(rest.strip_prefix(":="));
                        vec![value.map_or_else(|| default.unwrap_or_default().to_owned(), |v| v.join(" "))]
                    }
                })
            }
            Some('(') if self.peek(1) == Some('(') => {
                let inner = self.until('(', ')').ok_or_else(|| self.open(")"))?;
                let inner = inner.trim_start_matches('(').trim_end_matches(')');
                Ok(vec![arithmetic(inner, script).map_or_else(|| format!("$(({inner}))"), |n| n.to_string())])
            }
            Some('(') => {
                let inner = self.until('(', ')').ok_or_else(|| self.open(")"))?;
                Ok(vec![format!("$({inner})")])
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name: String =
                    self.text[self.at..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
                self.at += name.len();
                Ok(vec![script.variable(&name).unwrap_or_default()])
            }
            // `$1`, `$@` and the like are arguments of the script: unknown.
            Some(c) if !c.is_whitespace() && c != '"' => {
                self.at += 1;
                Ok(vec![self.text[start..self.at].iter().collect()])
            }
            _ => Ok(vec!["$".to_owned()]),
        }
    }

    /// The text between the bracket here and the one that closes it.
    fn until(&mut self, open: char, close: char) -> Option<String> {
        let start = self.at + 1;
        let mut depth = 0usize;
        for (i, c) in self.text[self.at..].iter().enumerate() {
            if *c == open {
                depth += 1;
            } else if *c == close {
                depth -= 1;
                if depth == 0 {
                    let end = self.at + i;
                    self.at = end + 1;
                    return Some(self.text[start..end].iter().collect());
                }
            }
        }
        None
    }
}

fn last(words: &mut Vec<String>) -> &mut String {
    if words.is_empty() {
        words.push(String::new());
    }
    let at = words.len() - 1;
    &mut words[at]
}

/// Products and quotients, sums and differences of numbers and variables, from left to right by rank.
fn arithmetic(text: &str, script: &Script) -> Option<i64> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    for c in text.chars().chain(std::iter::once(' ')) {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            let named = std::mem::take(&mut word);
            let value = named.parse().ok().or_else(|| script.variable(&named)?.trim().parse().ok());
            tokens.push((value?, ' '));
        }
        match c {
            '+' | '-' | '*' | '/' | '%' => tokens.push((0, c)),
            '$' | '{' | '}' => {}
            c if c.is_whitespace() => {}
            _ => return None,
        }
    }
    let apply = |a: i64, op: char, b: i64| match op {
        '+' => a.checked_add(b),
        '-' => a.checked_sub(b),
        '*' => a.checked_mul(b),
        '/' => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    let mut terms: Vec<(char, i64)> = Vec::new();
    let mut at = tokens.into_iter();
    let mut op = '+';
    loop {
        let (value, kind) = at.next()?;
        if kind != ' ' {
            return None;
        }
        match (op, terms.last_mut()) {
            ('*' | '/' | '%', Some(term)) => term.1 = apply(term.1, op, value)?,
            _ => terms.push((op, value)),
        }
        match at.next() {
            None => break,
            Some((_, next)) if next != ' ' => op = next,
            Some(_) => return None,
        }
    }
    terms.into_iter().try_fold(0, |sum, (op, value)| apply(sum, op, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_arrays_and_continuations_are_put_in() {
        let script = Script::parse(
            r#"#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1   # for overlap
TP=4
NNODES=${NNODES:-2}
WORLD=$((NNODES * 8))
MODEL_ARGS=(
    --num-layers 32   # deep
    --hidden-size "4096"
    --moe-layer-freq "([0]*1+[1]*31)"
)
PAR="--tensor-model-parallel-size $TP \
     --sequence-parallel"
if [ -n "$X" ]; then PP=2; fi
NCCL_DEBUG=WARN torchrun --nnodes $NNODES pretrain_gpt.py ${MODEL_ARGS[@]} "${PAR}" $PAR \
    --pipeline-model-parallel-size ${PP} > log.txt 2>&1
"#,
        )
        .unwrap();
        let launch = script.commands.iter().find(|c| c[0] == "torchrun").unwrap();
        assert_eq!(
            launch.join("~"),
            "torchrun~--nnodes~2~pretrain_gpt.py~--num-layers~32~--hidden-size~4096~--moe-layer-freq~([0]*1+[1]*31)~\
             --tensor-model-parallel-size 4      --sequence-parallel~--tensor-model-parallel-size~4~--sequence-parallel~\
             --pipeline-model-parallel-size~2~2"
                .replace("~2~2", "~2")
        );
        assert_eq!(script.environment["CUDA_DEVICE_MAX_CONNECTIONS"], "1");
        assert_eq!(script.environment["NCCL_DEBUG"], "WARN");
        assert_eq!(script.variable("WORLD").unwrap(), "16");
        assert_eq!(script.sbatch, ["--nodes=4", "--ntasks-per-node=8"]);
    }

    #[test]
    fn what_is_not_closed_says_where() {
        for (bad, line) in [("a\nb 'c", "line 2"), ("A=(1 2", "line 1"), ("x \"y", "line 1"), ("x ${y", "line 1")] {
            let error = Script::parse(bad).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(line), "{bad}: {error}");
        }
    }

    #[test]
    fn sums_and_products_are_computed_and_the_rest_is_left() {
        let script = Script::parse("A=6").unwrap();
        assert_eq!(arithmetic("A * 2 + 3", &script), Some(15));
        assert_eq!(arithmetic("$A / 4 % 2", &script), Some(1));
        assert_eq!(arithmetic("A / 0", &script), None);
        assert_eq!(arithmetic("A ** 2", &script), None);
        assert_eq!(arithmetic("", &script), None);
    }
}
