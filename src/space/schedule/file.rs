//! Schedule files: a question or the costs it was simulated with, the stages, and every device's steps as text.

use super::question::ScheduleQuestion;
use crate::error::{InputError, Kind};
use crate::pipeline::bounds::Backward;
use crate::pipeline::{Action, Costs, Pass, Placement, Schedule, StageFlags, Step, validate};
use crate::read;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a schedule file calls itself.
pub const SCHEMA: &str = "espalier/schedule/1";

/// A schedule as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// What it is called.
    pub name: String,
    /// Micro-batches.
    pub micro_batches: usize,
    /// Device of every stage.
    pub device_of_stage: Vec<u32>,
    /// Routes through the stages.
    #[serde(default = "one")]
    pub routes: usize,
    /// Stages that recompute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recompute: Vec<usize>,
    /// Stages whose activations wait in host memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offload: Vec<usize>,
    /// Stages without a backward.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forward_only: Vec<usize>,
    /// By device, steps in order: stage, pass, micro-batch as in `2F0`; a pair as in `0F3&3BW1`.
    pub orders: Vec<Vec<String>>,
}

fn one() -> usize {
    1
}

/// A file with what matters of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleFile {
    /// The schedule, valid.
    pub schedule: Schedule,
    /// The question that its costs come from.
    pub question: ScheduleQuestion,
}

#[derive(Deserialize)]
struct Document {
    schema: String,
    question: ScheduleQuestion,
    schedule: Written,
}

impl From<&Schedule> for Written {
    fn from(schedule: &Schedule) -> Self {
        let stages = |has: fn(&StageFlags) -> bool| {
            schedule.flags.iter().enumerate().filter(|(_, flags)| has(flags)).map(|(x, _)| x).collect()
        };
        Self {
            name: schedule.name.clone(),
            micro_batches: schedule.microbatches,
            device_of_stage: schedule.placement.device_of().to_vec(),
            routes: schedule.placement.routes(),
            recompute: stages(|f| f.recompute),
            offload: stages(|f| f.offload),
            forward_only: stages(|f| f.forward_only),
            orders: schedule.orders.iter().map(|order| order.iter().map(Step::to_string).collect()).collect(),
        }
    }
}

impl Written {
    /// The schedule, proven valid.
    ///
    /// # Errors
    /// [`InputError`] with the field.
    pub fn schedule(&self) -> Result<Schedule, InputError> {
        let invalid = |field: String| InputError::new(Kind::InvalidValue).at(field);
        let devices = self.orders.len();
        let placement = Placement::with_routes(devices, self.device_of_stage.clone(), self.routes)
            .map_err(|e| invalid("device_of_stage".to_owned()).expected(e))?;
        let step = |d: usize, i: usize, text: &String| {
            step(text).ok_or_else(|| {
                let expected = "a step such as `2F0` or `0F3&3BW1`: stage, F, B, W or BW, micro-batch";
                invalid(format!("orders[{d}][{i}]")).found(text).expected(expected)
            })
        };
        let orders = self.orders.iter().enumerate().map(|(d, order)| {
            order.iter().enumerate().map(|(i, text)| step(d, i, text)).collect::<Result<Vec<_>, _>>()
        });
        let mut schedule =
            Schedule::new(&self.name, placement, self.micro_batches, orders.collect::<Result<Vec<_>, _>>()?);
        type Set = fn(&mut StageFlags);
        let sets: [(&str, &Vec<usize>, Set); 3] = [
            ("recompute", &self.recompute, |f| f.recompute = true),
            ("offload", &self.offload, |f| f.offload = true),
            ("forward_only", &self.forward_only, |f| f.forward_only = true),
        ];
        for (field, stages, set) in sets {
            for (i, x) in stages.iter().enumerate() {
                let last = schedule.flags.len() - 1;
                let flags = schedule.flags.get_mut(*x);
                set(flags.ok_or_else(|| {
                    invalid(format!("{field}[{i}]")).found(x).expected(format!("a stage, 0 to {last}"))
                })?);
            }
        }
        validate(&schedule)
            .map_err(|fault| invalid("orders".to_owned()).expected(format!("a valid schedule: {fault}")))?;
        Ok(schedule)
    }
}

fn step(text: &str) -> Option<Step> {
    match text.split_once('&') {
        None => action(text).map(Step::One),
        Some((forward, backward)) => Some(Step::Pair { forward: action(forward)?, backward: action(backward)? }),
    }
}

fn action(text: &str) -> Option<Action> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (stage, rest) = text.split_at(digits(text));
    let letters = rest.bytes().take_while(u8::is_ascii_uppercase).count();
    let (pass, microbatch) = rest.split_at(letters);
    let pass = [Pass::F, Pass::B, Pass::W, Pass::BW].into_iter().find(|p| p.name() == pass)?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.is_empty() && digits(text) == text.len());
    Some(Action { pass, stage: number(stage)?, microbatch: number(microbatch)? })
}

impl ScheduleFile {
    /// Reads the text of a schedule file; `name` is the file to name in errors.
    ///
    /// # Errors
    /// [`InputError`] with file and field.
    pub fn parse(text: &str, name: &str) -> Result<Self, InputError> {
        let document: Document = read::parse(text, name)?;
        if document.schema != SCHEMA {
            let error = InputError::new(Kind::InvalidValue).at("schema").found(&document.schema);
            return Err(error.expected(format!("`{SCHEMA}`")).in_file(name));
        }
        document.question.check().map_err(|e| e.inside("question").in_file(name))?;
        let schedule = document.schedule.schedule().map_err(|e| e.inside("schedule").in_file(name))?;
        Ok(Self { schedule, question: document.question })
    }

    /// The costs of its question, without a memory limit.
    pub fn costs(&self) -> Costs {
        costs(&self.question, &self.schedule)
    }
}

/// Costs of a schedule under the times of a question, without a memory limit.
pub fn costs(question: &ScheduleQuestion, schedule: &Schedule) -> Costs {
    let slower = if schedule.splits_backward() { 1.0 + question.split_penalty } else { 1.0 };
    let [f, b, w] = question.times;
    Costs::table(&schedule.placement, &schedule.flags, f, b * slower, w * slower, question.comm)
}

/// Which backwards a schedule belongs to for its bound.
pub fn backward(schedule: &Schedule) -> Backward {
    if schedule.splits_backward() { Backward::Split } else { Backward::Fused }
}

/// The part of a document that a schedule file needs.
pub fn document(question: &ScheduleQuestion, schedule: &Schedule) -> Result<Value, serde_json::Error> {
    Ok(serde_json::json!({
        "schema": SCHEMA,
        "question": serde_json::to_value(question)?,
        "schedule": serde_json::to_value(Written::from(schedule))?,
    }))
}
