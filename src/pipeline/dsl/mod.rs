//! The schedule language: a short program says, for every device, in which order it runs its passes.
//!
//! ```text
//! schedule one_f_one_b
//! device {
//!   repeat p - d - 1 { F }
//!   repeat m { F BW }
//! }
//! ```
//! `p` devices, `m` micro-batches, `v` chunks per device, `d` the device, `x` the stage. An action without a micro-batch
//! takes the next one of its chunk (chunk 0 if none is named); past the last micro-batch it does nothing, so that
//! programs need no special case for the end. `W` takes the weight pass that has been due for longest, `flush` all that
//! are due. `F(0) & BW(1)` is an overlapped pair. Inside `slots { .. }` actions are ordered by their slots, and
//! `compact` then moves them as early as the peak of memory allows.
//!
//! Items: `schedule NAME`, `devices N`, `microbatches N` (if the program fixes them), `param NAME = N` (the caller may
//! replace it), `let NAME = N`, `chunks N`, `place loop | wave | vee | bidirectional | x -> N | [N, ..] routes N`,
//! `require N "why"`, `recompute | offload | forward_only where N` (of stage `x`), `compact`, `device { .. }` for all
//! devices or `device N { .. }` for one. Statements: `let`, `NAME = N`, `repeat N { }`, `for NAME in N..N { }`,
//! `while N { }`, `if N { } else { }`, `F`, `B`, `W`, `BW` each with `(chunk)` or `(chunk, microbatch)`, `W(next)`
//! (due for longest, whatever its chunk), pairs with `&`, `flush`, `flush(chunk)`, `slots { }`, `at N ACTION`.
//! Expressions: integers, `+ - * / %` (rounding down), comparisons, `&& || !`, `min`, `max`, `if(c, a, b)`; `#` starts
//! a comment. The programs under `search_configs/schedules` are the schedules that the literature names.

pub mod ast;
mod eval;
mod lex;
mod parse;
mod print;

use super::schedule::Schedule;
use std::collections::BTreeMap;
use std::fmt;

/// A part of a text, in bytes from its start. All spans are equal: trees are compared by what they say, not where.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span(pub usize, pub usize);

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What is wrong with a program, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DslError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What was expected there.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// The line and a mark below it.
    pub excerpt: String,
}

impl DslError {
    pub(super) fn new(text: &str, span: Span, expected: &str, found: &str) -> Self {
        let before = &text[..span.0.min(text.len())];
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let line_text = text[start..].lines().next().unwrap_or_default();
        let column = before[start..].chars().count();
        let marked = text.get(span.0..span.1).and_then(|marked| marked.lines().next()).unwrap_or_default();
        let mark = "^".repeat(marked.chars().count().max(1));
        Self {
            line: before.matches('\n').count() + 1,
            column: column + 1,
            expected: expected.to_owned(),
            found: found.to_owned(),
            excerpt: format!("{line_text}\n{:column$}{mark}", ""),
        }
    }
}

impl fmt::Display for DslError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { line, column, expected, found, excerpt } = self;
        write!(f, "line {line}, column {column}: expected {expected}, found {found}\n{excerpt}")
    }
}

impl std::error::Error for DslError {}

/// What a program is run for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question {
    /// Devices; needed unless the program fixes them.
    pub devices: Option<usize>,
    /// Micro-batches; needed unless the program fixes them.
    pub microbatches: Option<usize>,
    /// Chunks per device in place of the program's.
    pub chunks: Option<usize>,
    /// Values in place of the defaults of `param`.
    pub parameters: BTreeMap<String, i64>,
}

impl Question {
    /// For `p` devices and `m` micro-batches.
    pub fn new(p: usize, m: usize) -> Self {
        Self { devices: Some(p), microbatches: Some(m), ..Self::default() }
    }
}

/// A parsed program with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    text: String,
    program: ast::Program,
}

impl Script {
    /// Parses a program.
    ///
    /// # Errors
    /// [`DslError`] at the first token that fits nowhere.
    pub fn parse(text: &str) -> Result<Self, DslError> {
        Ok(Self { text: text.to_owned(), program: parse::parse(text)? })
    }

    /// The tree.
    pub fn program(&self) -> &ast::Program {
        &self.program
    }

    /// Runs the program. The schedule is as good as the program: see [`super::validate()`].
    ///
    /// # Errors
    /// [`DslError`] at the expression or statement that has no meaning for these numbers.
    pub fn build(&self, question: &Question) -> Result<Schedule, DslError> {
        eval::build(&self.text, &self.program, question)
    }
}

impl fmt::Display for Script {
    /// In the canonical layout.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.program.fmt(f)
    }
}

/// Any schedule as a program that lists its actions.
pub fn to_program(schedule: &Schedule) -> ast::Program {
    use ast::{Call, Expr, ExprKind, Flag, Item, Place, Statement, StatementKind, Target};
    let number = |n: usize| Expr { kind: ExprKind::Number(n as i64), span: Span::default() };
    let placement = &schedule.placement;
    let place = match placement.shape() {
        "loop" => Place::Loop,
        "wave" => Place::Wave,
        "bidirectional" => Place::Bidirectional,
        _ => {
            let devices = placement.device_of().iter().map(|d| number(*d as usize)).collect();
            Place::List(devices, number(placement.routes()))
        }
    };
    let name: String = schedule.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut items = vec![
        Item::Schedule(format!("{}{name}", if name.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "_" })),
        Item::Devices(number(placement.devices())),
        Item::Microbatches(number(schedule.microbatches)),
    ];
    if matches!(place, Place::Loop | Place::Wave) {
        items.push(Item::Chunks(number(placement.stages() / placement.devices())));
    }
    items.push(Item::Place(place));
    for flag in [Flag::Recompute, Flag::Offload, Flag::ForwardOnly] {
        let has = |x: &usize| {
            let flags = schedule.flags[*x];
            match flag {
                Flag::Recompute => flags.recompute,
                Flag::Offload => flags.offload,
                Flag::ForwardOnly => flags.forward_only,
            }
        };
        for stage in (0..placement.stages()).filter(has) {
            let x = Expr { kind: ExprKind::Name("x".to_owned()), span: Span::default() };
            let kind = ExprKind::Binary(ast::Operator::Equal, Box::new(x), Box::new(number(stage)));
            items.push(Item::Flag(flag, Expr { kind, span: Span::default() }));
        }
    }
    for (device, order) in schedule.orders.iter().enumerate() {
        let chunks: Vec<usize> = placement.chunks(device).collect();
        let call = |action: super::Action| {
            let chunk = chunks.iter().position(|x| *x == action.stage as usize).unwrap_or_default();
            let target = Target::Exact(number(chunk), number(action.microbatch as usize));
            Call { pass: action.pass, target, span: Span::default() }
        };
        let statement = |step: &super::Step| {
            let kind = match *step {
                super::Step::One(action) => StatementKind::Do(call(action)),
                super::Step::Pair { forward, backward } => StatementKind::Both(call(forward), call(backward)),
            };
            Statement { kind, span: Span::default() }
        };
        items.push(Item::Device(Some(number(device)), order.iter().map(statement).collect()));
    }
    ast::Program { items: items.into_iter().map(|item| (item, Span::default())).collect() }
}

#[cfg(test)]
mod tests;
