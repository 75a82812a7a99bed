//! Runs a program: numbers and placement first, then the order of every device.

use super::ast::{
    Call, Expr, ExprKind, Flag, Function, Item, Operator, Place, Program, Statement, StatementKind, Target,
};
use super::{DslError, Question, Span};
use crate::pipeline::action::{Action, Pass, Step};
use crate::pipeline::compact::compact;
use crate::pipeline::placement::Placement;
use crate::pipeline::schedule::{Schedule, StageFlags};
use std::collections::VecDeque;
use std::ops::Range;

/// Statements and loop turns that one program may run: enough for 64 devices and 10,000 micro-batches.
const MOST_STEPS: u64 = 100_000_000;
/// Actions that a schedule may have.
const MOST_ACTIONS: usize = 50_000_000;

pub(super) fn build(text: &str, program: &Program, question: &Question) -> Result<Schedule, DslError> {
    let machine = Machine { text, variables: Vec::new(), steps: 0 };
    Builder { machine, program, question }.run()
}

/// Variables and arithmetic.
struct Machine<'a> {
    text: &'a str,
    variables: Vec<(String, i64)>,
    steps: u64,
}

impl Machine<'_> {
    fn fail<T>(&self, span: Span, expected: &str, found: &str) -> Result<T, DslError> {
        Err(DslError::new(self.text, span, expected, found))
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.variables.iter().rev().find(|(n, _)| n == name).map(|(_, value)| *value)
    }

    fn set(&mut self, name: &str, value: i64) -> bool {
        let slot = self.variables.iter_mut().rev().find(|(n, _)| n == name);
        slot.map(|(_, old)| *old = value).is_some()
    }

    fn bind(&mut self, name: &str, value: i64) {
        self.variables.push((name.to_owned(), value));
    }

    fn step(&mut self, span: Span) -> Result<(), DslError> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return self.fail(span, &format!("a program that ends within {MOST_STEPS} steps"), "one that does not");
        }
        Ok(())
    }

    fn value(&self, expr: &Expr) -> Result<i64, DslError> {
        let overflow = || DslError::new(self.text, expr.span, "a value that fits into 63 bits", "one that does not");
        match &expr.kind {
            ExprKind::Number(number) => Ok(*number),
            ExprKind::Name(name) => match self.get(name) {
                Some(value) => Ok(value),
                None => {
                    let mut known: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
                    known.sort_unstable();
                    known.dedup();
                    self.fail(expr.span, &format!("a variable ({})", known.join(", ")), &format!("`{name}`"))
                }
            },
            ExprKind::Negate(inner) => self.value(inner)?.checked_neg().ok_or_else(overflow),
            ExprKind::Not(inner) => Ok(i64::from(self.value(inner)? == 0)),
            ExprKind::Function(Function::If, arguments) => {
                let chosen = if self.value(&arguments[0])? != 0 { 1 } else { 2 };
                self.value(&arguments[chosen])
            }
            ExprKind::Function(function, arguments) => {
                let pick = if *function == Function::Min { i64::min } else { i64::max };
                let first = self.value(&arguments[0])?;
                arguments[1..].iter().try_fold(first, |best, argument| Ok(pick(best, self.value(argument)?)))
            }
            ExprKind::Binary(operator, left, right) => {
                let a = self.value(left)?;
                match operator {
                    Operator::And if a == 0 => return Ok(0),
                    Operator::Or if a != 0 => return Ok(1),
                    _ => {}
                }
                let b = self.value(right)?;
                if b == 0 && matches!(operator, Operator::Divide | Operator::Remainder) {
                    return self.fail(right.span, "a divisor that is not zero", "0");
                }
                let result = match operator {
                    Operator::Add => a.checked_add(b),
                    Operator::Subtract => a.checked_sub(b),
                    Operator::Multiply => a.checked_mul(b),
                    // Rounding down, so that the rest has the sign of the divisor.
                    Operator::Divide => a.checked_div(b).map(|q| q - i64::from(a % b != 0 && (a < 0) != (b < 0))),
                    Operator::Remainder => {
                        a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
                    }
                    Operator::And | Operator::Or => Some(i64::from(b != 0)),
                    Operator::Equal => Some(i64::from(a == b)),
                    Operator::Unequal => Some(i64::from(a != b)),
                    Operator::Less => Some(i64::from(a < b)),
                    Operator::AtMost => Some(i64::from(a <= b)),
                    Operator::Greater => Some(i64::from(a > b)),
                    Operator::AtLeast => Some(i64::from(a >= b)),
                };
                result.ok_or_else(overflow)
            }
        }
    }

    fn count(&self, expr: &Expr, what: &str, most: usize) -> Result<usize, DslError> {
        let value = self.value(expr)?;
        match usize::try_from(value) {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => self.fail(expr.span, &format!("{what} from 1 to {most}"), &value.to_string()),
        }
    }
}

struct Builder<'a> {
    machine: Machine<'a>,
    program: &'a Program,
    question: &'a Question,
}

/// Most devices, chunks and micro-batches: a wrong number should be refused, not allocated.
const MOST_DEVICES: usize = 4096;
const MOST_CHUNKS: usize = 256;
const MOST_MICROBATCHES: usize = 1_000_000;

impl<'a> Builder<'a> {
    fn run(mut self) -> Result<Schedule, DslError> {
        let p = self.fixed("devices", self.question.devices, MOST_DEVICES, |item| match item {
            Item::Devices(expr) => Some(expr),
            _ => None,
        })?;
        self.machine.bind("p", p as i64);
        let m = self.fixed("microbatches", self.question.microbatches, MOST_MICROBATCHES, |item| match item {
            Item::Microbatches(expr) => Some(expr),
            _ => None,
        })?;
        self.machine.bind("m", m as i64);
        self.refuse_unknown_parameters()?;
        let is_two = |(item, _): &(Item, Span)| matches!(item, Item::Place(Place::Vee | Place::Bidirectional));
        let mut v = if self.program.items.iter().any(is_two) { 2 } else { self.question.chunks.unwrap_or(1) };
        self.machine.bind("v", v as i64);
        let (mut name, mut placement, mut compacts) = ("schedule".to_owned(), None, false);
        let program: &'a Program = self.program;
        for (item, span) in &program.items {
            match item {
                Item::Schedule(text) => name.clone_from(text),
                Item::Param(name, default) => {
                    let value = match self.question.parameters.get(name) {
                        Some(value) => *value,
                        None => self.machine.value(default)?,
                    };
                    self.machine.bind(name, value);
                }
                Item::Let(name, value) => {
                    let value = self.machine.value(value)?;
                    self.machine.bind(name, value);
                }
                Item::Chunks(expr) => {
                    let own = self.machine.count(expr, "a number of chunks", MOST_CHUNKS)?;
                    v = self.question.chunks.unwrap_or(own);
                    self.machine.set("v", v as i64);
                }
                Item::Place(place) => placement = Some(self.place(place, *span, p, v)?),
                Item::Require(condition, why) if self.machine.value(condition)? == 0 => {
                    return self.machine.fail(condition.span, why, &format!("p = {p}, m = {m}, v = {v}"));
                }
                Item::Compact => compacts = true,
                _ => {}
            }
        }
        let placement = placement.unwrap_or_else(|| Placement::looped(p, v));
        let flags = self.flags(&placement)?;
        let mut orders = Vec::with_capacity(p);
        let mut slots = Vec::with_capacity(p);
        for device in 0..p {
            let mut order = Order::new(&placement, device, m, &flags);
            let program = self.program_of(device)?;
            let scope = self.machine.variables.len();
            self.machine.bind("d", device as i64);
            order.run(&mut self.machine, program)?;
            self.machine.variables.truncate(scope);
            orders.push(order.steps);
            slots.push(order.slots);
        }
        if compacts {
            let span = self.span_of(|item| matches!(item, Item::Compact));
            orders = compact(&placement, m, slots).or_else(|why| self.machine.fail(span, &why, "something else"))?;
        }
        Ok(Schedule { name, placement, microbatches: m, orders, flags })
    }

    fn span_of(&self, is: impl Fn(&Item) -> bool) -> Span {
        self.program.items.iter().find(|(item, _)| is(item)).map(|(_, span)| *span).unwrap_or_default()
    }

    /// A number that the program or the caller fixes; both must agree.
    fn fixed(
        &self,
        what: &str,
        asked: Option<usize>,
        most: usize,
        pick: impl Fn(&Item) -> Option<&Expr>,
    ) -> Result<usize, DslError> {
        let own = self.program.items.iter().find_map(|(item, _)| pick(item));
        let start = Span(0, 0);
        match (own, asked) {
            (Some(expr), asked) => {
                let own = self.machine.count(expr, what, most)?;
                match asked {
                    Some(asked) if asked != own => {
                        self.machine.fail(expr.span, &format!("{asked} {what}"), &own.to_string())
                    }
                    _ => Ok(own),
                }
            }
            (None, Some(asked)) if (1..=most).contains(&asked) => Ok(asked),
            (None, Some(asked)) => self.machine.fail(start, &format!("{what} from 1 to {most}"), &asked.to_string()),
            (None, None) => {
                self.machine.fail(start, &format!("a number of {what}, from the caller or by `{what} N`"), "none")
            }
        }
    }

    fn refuse_unknown_parameters(&self) -> Result<(), DslError> {
        let known: Vec<&str> = self
            .program
            .items
            .iter()
            .filter_map(|(item, _)| if let Item::Param(name, _) = item { Some(name.as_str()) } else { None })
            .collect();
        match self.question.parameters.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) if known.is_empty() => self.machine.fail(Span(0, 0), "no parameter", &format!("`{name}`")),
            Some(name) => {
                self.machine.fail(Span(0, 0), &format!("parameters among {}", known.join(", ")), &format!("`{name}`"))
            }
            None => Ok(()),
        }
    }

    fn place(&mut self, place: &Place, span: Span, p: usize, v: usize) -> Result<Placement, DslError> {
        let (device_of, routes) = match place {
            Place::Loop => return Ok(Placement::looped(p, v)),
            Place::Wave => return Ok(Placement::wave(p, v)),
            Place::Vee | Place::Bidirectional if v != 2 => {
                return self.machine.fail(span, "2 chunks per device", &v.to_string());
            }
            Place::Vee => return Ok(Placement::vee(p)),
            Place::Bidirectional => return Ok(Placement::bidirectional(p)),
            Place::Map(expr) => {
                let mut device_of = Vec::with_capacity(p * v);
                for x in 0..p * v {
                    self.machine.bind("x", x as i64);
                    device_of.push((self.machine.value(expr)?, expr.span));
                    self.machine.variables.pop();
                }
                (device_of, 1)
            }
            Place::List(list, routes) => {
                let devices: Result<Vec<_>, DslError> =
                    list.iter().map(|expr| Ok((self.machine.value(expr)?, expr.span))).collect();
                (devices?, self.machine.count(routes, "a number of routes", list.len())?)
            }
        };
        let mut devices = Vec::with_capacity(device_of.len());
        for (device, span) in device_of {
            match u32::try_from(device) {
                Ok(d) if (d as usize) < p => devices.push(d),
                _ => return self.machine.fail(span, &format!("a device from 0 to {}", p - 1), &device.to_string()),
            }
        }
        Placement::with_routes(p, devices, routes)
            .or_else(|e| self.machine.fail(span, "a placement of all devices", &e.to_string()))
    }

    fn flags(&mut self, placement: &Placement) -> Result<Vec<StageFlags>, DslError> {
        let mut flags = vec![StageFlags::default(); placement.stages()];
        for (item, _) in &self.program.items {
            let Item::Flag(flag, condition) = item else { continue };
            for (x, flags) in flags.iter_mut().enumerate() {
                self.machine.bind("x", x as i64);
                let holds = self.machine.value(condition)? != 0;
                self.machine.variables.pop();
                match flag {
                    Flag::Recompute => flags.recompute |= holds,
                    Flag::Offload => flags.offload |= holds,
                    Flag::ForwardOnly => flags.forward_only |= holds,
                }
            }
        }
        Ok(flags)
    }

    /// The program of this device alone if there is one, else that of all devices.
    fn program_of(&self, device: usize) -> Result<&'a [Statement], DslError> {
        let mut general = None;
        let program: &'a Program = self.program;
        for (item, _) in &program.items {
            match item {
                Item::Device(Some(which), block) if self.machine.value(which)? == device as i64 => return Ok(block),
                Item::Device(None, block) => general = Some(block.as_slice()),
                _ => {}
            }
        }
        let end = Span(self.machine.text.len(), self.machine.text.len());
        general.map_or_else(|| self.machine.fail(end, &format!("a program for device {device}"), "none"), Ok)
    }
}

/// The order of one device as it grows.
struct Order {
    device: usize,
    /// Stage, micro-batches and next forward and backward of each chunk.
    chunks: Vec<Chunk>,
    /// Chunk and micro-batch of weight passes that are due. Those past the last micro-batch are kept as well.
    due: VecDeque<(usize, usize)>,
    steps: Vec<Step>,
    slots: Vec<(i64, Action)>,
}

struct Chunk {
    stage: usize,
    microbatches: Range<usize>,
    forward: usize,
    backward: usize,
    forward_only: bool,
}

impl Order {
    fn new(placement: &Placement, device: usize, m: usize, flags: &[StageFlags]) -> Self {
        let chunk = |stage| {
            let microbatches = placement.microbatches(stage, m);
            let start = microbatches.start;
            let forward_only = flags[stage].forward_only;
            Chunk { stage, microbatches, forward: start, backward: start, forward_only }
        };
        let chunks = placement.chunks(device).map(chunk).collect();
        Self { device, chunks, due: VecDeque::new(), steps: Vec::new(), slots: Vec::new() }
    }

    fn run(&mut self, machine: &mut Machine, block: &[Statement]) -> Result<(), DslError> {
        let scope = machine.variables.len();
        for statement in block {
            self.statement(machine, statement)?;
        }
        machine.variables.truncate(scope);
        Ok(())
    }

    fn statement(&mut self, machine: &mut Machine, statement: &Statement) -> Result<(), DslError> {
        machine.step(statement.span)?;
        if self.steps.len() + self.slots.len() > MOST_ACTIONS {
            return machine.fail(statement.span, &format!("at most {MOST_ACTIONS} actions per device"), "more");
        }
        match &statement.kind {
            StatementKind::Let(name, value) => {
                let value = machine.value(value)?;
                machine.bind(name, value);
            }
            StatementKind::Assign(name, value) => {
                let value = machine.value(value)?;
                if !machine.set(name, value) {
                    return machine.fail(statement.span, "a variable that `let` has made", &format!("`{name}`"));
                }
            }
            StatementKind::Repeat(count, block) => {
                for _ in 0..machine.value(count)?.max(0) {
                    machine.step(statement.span)?;
                    self.run(machine, block)?;
                }
            }
            StatementKind::For(name, from, to, block) => {
                for i in machine.value(from)?..machine.value(to)? {
                    machine.step(statement.span)?;
                    machine.bind(name, i);
                    self.run(machine, block)?;
                    machine.variables.pop();
                }
            }
            StatementKind::While(condition, block) => {
                while machine.value(condition)? != 0 {
                    machine.step(statement.span)?;
                    self.run(machine, block)?;
                }
            }
            StatementKind::If(condition, then, otherwise) => {
                let block = if machine.value(condition)? != 0 { then } else { otherwise };
                self.run(machine, block)?;
            }
            StatementKind::Do(call) => {
                let action = self.action(machine, call)?;
                self.steps.extend(action.map(Step::One));
            }
            StatementKind::Both(first, second) => self.pair(machine, first, second)?,
            StatementKind::Flush(chunk) => {
                let chunk = chunk.as_ref().map(|c| self.chunk(machine, c)).transpose()?;
                while let Some(action) = self.take_due(|c| chunk.is_none_or(|chunk| c == chunk)) {
                    self.steps.extend(action.map(Step::One));
                }
            }
            StatementKind::Slots(block) => {
                self.run(machine, block)?;
                let mut slots = self.slots.clone();
                slots.sort_by_key(|(slot, _)| *slot);
                self.steps.extend(slots.into_iter().map(|(_, action)| Step::One(action)));
            }
            StatementKind::At(slot, call) => {
                let slot = machine.value(slot)?;
                let action = self.action(machine, call)?;
                self.slots.extend(action.map(|action| (slot, action)));
            }
        }
        Ok(())
    }

    fn pair(&mut self, machine: &mut Machine, first: &Call, second: &Call) -> Result<(), DslError> {
        if first.pass != Pass::F || !second.pass.is_backward() {
            let found = format!("{} & {}", first.pass.name(), second.pass.name());
            return machine.fail(Span(first.span.0, second.span.1), "`F & B` or `F & BW`", &found);
        }
        match (self.action(machine, first)?, self.action(machine, second)?) {
            (Some(forward), Some(backward)) => self.steps.push(Step::Pair { forward, backward }),
            (one, other) => self.steps.extend(one.or(other).map(Step::One)),
        }
        Ok(())
    }

    fn chunk(&self, machine: &Machine, expr: &Expr) -> Result<usize, DslError> {
        let value = machine.value(expr)?;
        match usize::try_from(value) {
            Ok(chunk) if chunk < self.chunks.len() => Ok(chunk),
            _ => {
                let expected = format!("a chunk from 0 to {} on device {}", self.chunks.len() - 1, self.device);
                machine.fail(expr.span, &expected, &value.to_string())
            }
        }
    }

    /// The action that a call means; `None` when it is past the last micro-batch.
    fn action(&mut self, machine: &Machine, call: &Call) -> Result<Option<Action>, DslError> {
        let (chunk, exact) = match &call.target {
            Target::Next => return Ok(self.take_due(|_| true).flatten()),
            Target::Chunk(chunk) => (self.chunk(machine, chunk)?, None),
            Target::Exact(chunk, microbatch) => {
                let chunk = self.chunk(machine, chunk)?;
                let (value, range) = (machine.value(microbatch)?, &self.chunks[chunk].microbatches);
                match usize::try_from(value) {
                    Ok(i) if range.contains(&i) => (chunk, Some(i)),
                    _ => {
                        let expected = format!("a micro-batch from {} to {}", range.start, range.end.saturating_sub(1));
                        return machine.fail(microbatch.span, &expected, &value.to_string());
                    }
                }
            }
        };
        if self.chunks[chunk].forward_only && call.pass != Pass::F {
            let found = format!("{} of chunk {chunk}, which runs forward only", call.pass.name());
            return machine.fail(call.span, "F", &found);
        }
        let state = &mut self.chunks[chunk];
        let microbatch = match (call.pass, exact) {
            (_, Some(i)) => i,
            (Pass::W, None) => return Ok(self.take_due(|c| c == chunk).flatten()),
            (Pass::F, None) => {
                state.forward += 1;
                state.forward - 1
            }
            (_, None) => {
                state.backward += 1;
                state.backward - 1
            }
        };
        match call.pass {
            Pass::B => self.due.push_back((chunk, microbatch)),
            Pass::W => self.due.retain(|due| *due != (chunk, microbatch)),
            _ => {}
        }
        Ok(self.within(call.pass, chunk, microbatch))
    }

    fn take_due(&mut self, is: impl Fn(usize) -> bool) -> Option<Option<Action>> {
        let index = self.due.iter().position(|(chunk, _)| is(*chunk))?;
        let (chunk, microbatch) = self.due.remove(index)?;
        Some(self.within(Pass::W, chunk, microbatch))
    }

    fn within(&self, pass: Pass, chunk: usize, microbatch: usize) -> Option<Action> {
        let chunk = &self.chunks[chunk];
        chunk.microbatches.contains(&microbatch).then(|| Action::new(pass, chunk.stage, microbatch))
    }
}
