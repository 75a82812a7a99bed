//! The tree back to text, in one canonical layout: parsing it gives the same tree.

use super::ast::{Call, Expr, ExprKind, Item, Place, Program, Statement, StatementKind, Target};
use std::fmt::{self, Display, Formatter, Write};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        for (item, _) in &self.items {
            print_item(item, f)?;
            f.write_char('\n')?;
        }
        Ok(())
    }
}

fn print_item(item: &Item, f: &mut Formatter) -> fmt::Result {
    match item {
        Item::Schedule(name) => write!(f, "schedule {name}"),
        Item::Devices(n) => write!(f, "devices {n}"),
        Item::Microbatches(n) => write!(f, "microbatches {n}"),
        Item::Param(name, value) => write!(f, "param {name} = {value}"),
        Item::Let(name, value) => write!(f, "let {name} = {value}"),
        Item::Chunks(n) => write!(f, "chunks {n}"),
        Item::Place(place) => match place {
            Place::Loop => f.write_str("place loop"),
            Place::Wave => f.write_str("place wave"),
            Place::Vee => f.write_str("place vee"),
            Place::Bidirectional => f.write_str("place bidirectional"),
            Place::Map(device) => write!(f, "place x -> {device}"),
            Place::List(devices, routes) => {
                f.write_str("place ")?;
                list(f, "[", devices, "]")?;
                if routes.kind == ExprKind::Number(1) { Ok(()) } else { write!(f, " routes {routes}") }
            }
        },
        Item::Require(condition, why) => write!(f, "require {condition} \"{why}\""),
        Item::Flag(flag, condition) => write!(f, "{} where {condition}", flag.name()),
        Item::Compact => f.write_str("compact"),
        Item::Device(device, block) => {
            f.write_str("device ")?;
            if let Some(device) = device {
                write!(f, "{device} ")?;
            }
            print_block(block, 0, f)
        }
    }
}

fn print_block(block: &[Statement], depth: usize, f: &mut Formatter) -> fmt::Result {
    f.write_str("{\n")?;
    let mut on_line = false;
    for statement in block {
        // Actions share lines, all else stands alone.
        let is_action =
            matches!(statement.kind, StatementKind::Do(_) | StatementKind::Both(..) | StatementKind::Flush(_));
        if on_line {
            f.write_char(if is_action { ' ' } else { '\n' })?;
        }
        if !(on_line && is_action) {
            write!(f, "{:1$}", "", 2 * (depth + 1))?;
        }
        print_statement(statement, depth + 1, f)?;
        on_line = is_action;
        if !is_action {
            f.write_char('\n')?;
        }
    }
    if on_line {
        f.write_char('\n')?;
    }
    write!(f, "{:1$}}}", "", 2 * depth)
}

fn print_statement(statement: &Statement, depth: usize, f: &mut Formatter) -> fmt::Result {
    match &statement.kind {
        StatementKind::Let(name, value) => write!(f, "let {name} = {value}"),
        StatementKind::Assign(name, value) => write!(f, "{name} = {value}"),
        StatementKind::Repeat(count, block) => {
            write!(f, "repeat {count} ")?;
            print_block(block, depth, f)
        }
        StatementKind::For(name, from, to, block) => {
            write!(f, "for {name} in {from}..{to} ")?;
            print_block(block, depth, f)
        }
        StatementKind::While(condition, block) => {
            write!(f, "while {condition} ")?;
            print_block(block, depth, f)
        }
        StatementKind::If(condition, then, otherwise) => {
            write!(f, "if {condition} ")?;
            print_block(then, depth, f)?;
            if otherwise.is_empty() {
                return Ok(());
            }
            f.write_str(" else ")?;
            print_block(otherwise, depth, f)
        }
        StatementKind::Do(call) => write!(f, "{call}"),
        StatementKind::Both(first, second) => write!(f, "{first} & {second}"),
        StatementKind::Flush(None) => f.write_str("flush"),
        StatementKind::Flush(Some(chunk)) => write!(f, "flush({chunk})"),
        StatementKind::Slots(block) => {
            f.write_str("slots ")?;
            print_block(block, depth, f)
        }
        StatementKind::At(slot, call) => write!(f, "at {slot} {call}"),
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(self.pass.name())?;
        match &self.target {
            Target::Chunk(chunk) => write!(f, "({chunk})"),
            Target::Exact(chunk, microbatch) => write!(f, "({chunk}, {microbatch})"),
            Target::Next => f.write_str("(next)"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        print_expr(self, 0, f)
    }
}

/// Operands that bind no tighter than `lowest` need parentheses.
fn print_expr(expr: &Expr, lowest: u8, f: &mut Formatter) -> fmt::Result {
    match &expr.kind {
        ExprKind::Number(number) => write!(f, "{number}"),
        ExprKind::Name(name) => f.write_str(name),
        ExprKind::Negate(inner) | ExprKind::Not(inner) => {
            f.write_char(if matches!(expr.kind, ExprKind::Not(_)) { '!' } else { '-' })?;
            print_expr(inner, u8::MAX, f)
        }
        ExprKind::Function(function, arguments) => {
            f.write_str(function.name())?;
            list(f, "(", arguments, ")")
        }
        ExprKind::Binary(operator, left, right) => {
            let precedence = operator.precedence();
            let parentheses = precedence <= lowest;
            if parentheses {
                f.write_char('(')?;
            }
            print_expr(left, precedence - 1, f)?;
            write!(f, " {} ", operator.sign())?;
            print_expr(right, precedence, f)?;
            if parentheses { f.write_char(')') } else { Ok(()) }
        }
    }
}

fn list(f: &mut Formatter, open: &str, entries: &[Expr], close: &str) -> fmt::Result {
    f.write_str(open)?;
    for (i, entry) in entries.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{entry}")?;
    }
    f.write_str(close)
}
