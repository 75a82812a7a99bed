//! Schedule files: a question or the costs it was simulated with, the stages, and every device's steps as text.

use super::question::ScheduleQuestion;
use crate::error::{InputError, Kind};
use crate::pipeline::bounds::Backward;
use crate::pipeline::{
    Action, Costs, Pairing, Pass, Placement, Schedule, Sends, StageCost, StageFlags, Step, Transfer, validate,
};
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

/// Costs as they are written, where no question says them: by stage, by hop, by device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenCosts {
    /// Times of F.
    pub forward: Vec<f64>,
    /// Times of B.
    pub backward: Vec<f64>,
    /// Times of W.
    pub weight: Vec<f64>,
    /// Memory from F to W.
    pub activation: Vec<f64>,
    /// Latencies from a stage to the next.
    pub hop_forward: Vec<f64>,
    /// Latencies back.
    pub hop_backward: Vec<f64>,
    /// Memory that devices hold all the time.
    pub resident: Vec<f64>,
    /// Memory of the devices.
    pub limit: Option<Vec<f64>>,
}

impl From<&Costs> for WrittenCosts {
    fn from(costs: &Costs) -> Self {
        let of_stage = |value: fn(&StageCost) -> f64| costs.stages.iter().map(value).collect();
        let latency = |hops: &[Transfer]| hops.iter().map(|hop| hop.latency + hop.occupancy).collect();
        Self {
            forward: of_stage(|s| s.forward),
            backward: of_stage(|s| s.backward),
            weight: of_stage(|s| s.weight),
            activation: of_stage(|s| s.activation),
            hop_forward: latency(&costs.forward_hops),
            hop_backward: latency(&costs.backward_hops),
            resident: costs.resident.clone(),
            limit: costs.limit.clone(),
        }
    }
}

impl WrittenCosts {
    /// The costs of a schedule.
    ///
    /// # Errors
    /// [`InputError`] for lists of the wrong length and numbers that are no amounts.
    pub fn costs(&self, placement: &Placement) -> Result<Costs, InputError> {
        let stages = placement.stages();
        for (field, list) in [("backward", &self.backward), ("weight", &self.weight), ("activation", &self.activation)]
        {
            if list.len() != self.forward.len() {
                let error = InputError::new(Kind::InvalidValue).at(field).found(format!("{} entries", list.len()));
                return Err(error.expected(format!("{stages} entries")));
            }
        }
        let stage = |x: usize| StageCost {
            forward: self.forward[x],
            backward: self.backward[x],
            weight: self.weight[x],
            activation: self.activation[x],
            residue: self.activation[x],
            ..StageCost::default()
        };
        let hops = |list: &[f64]| list.iter().map(|latency| Transfer { latency: *latency, occupancy: 0.0 }).collect();
        let costs = Costs {
            stages: (0..self.forward.len()).map(stage).collect(),
            forward_hops: hops(&self.hop_forward),
            backward_hops: hops(&self.hop_backward),
            sends: Sends::Eager,
            pairing: Pairing::Sequential,
            resident: self.resident.clone(),
            limit: self.limit.clone(),
        };
        costs.check(placement).map_err(|e| InputError::new(Kind::InvalidValue).help(e))?;
        Ok(costs)
    }
}

/// A file with what matters of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleFile {
    /// The schedule, valid.
    pub schedule: Schedule,
    /// The question that its costs come from; none where they are written out.
    pub question: Option<ScheduleQuestion>,
    /// The costs, with their memory limit if there is one.
    pub costs: Costs,
}

#[derive(Deserialize)]
struct Document {
    schema: String,
    #[serde(default)]
    question: Option<ScheduleQuestion>,
    #[serde(default)]
    costs: Option<WrittenCosts>,
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
        let steps: usize = self.orders.iter().map(Vec::len).sum();
        if self.micro_batches > steps {
            let expected = format!("at most one micro-batch per step of the orders, which have {steps}");
            return Err(invalid("micro_batches".to_owned()).found(self.micro_batches).expected(expected));
        }
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
        let schedule = document.schedule.schedule().map_err(|e| e.inside("schedule").in_file(name))?;
        let costs = match (&document.question, &document.costs) {
            (_, Some(written)) => written.costs(&schedule.placement).map_err(|e| e.inside("costs").in_file(name))?,
            (Some(question), None) => {
                question.check().map_err(|e| e.inside("question").in_file(name))?;
                costs(question, &schedule)
            }
            (None, None) => {
                let error = InputError::new(Kind::MissingField).at("question").in_file(name);
                return Err(error.expected("the question of the schedule, or its costs"));
            }
        };
        let question = document.question.filter(|_| document.costs.is_none());
        Ok(Self { schedule, question, costs })
    }
}

/// Costs of a schedule under the times and the memory of a question.
pub fn costs(question: &ScheduleQuestion, schedule: &Schedule) -> Costs {
    let slower = if schedule.splits_backward() { 1.0 + question.split_penalty } else { 1.0 };
    let [f, b, w] = question.times;
    let costs = Costs::table(&schedule.placement, &schedule.flags, f, b * slower, w * slower, question.comm);
    let costs = costs.with_kept(question.recompute.unwrap_or(0.0));
    match question.memory {
        Some(memory) => costs.with_limit(memory),
        None => costs,
    }
}

/// Which backwards a schedule belongs to for its bound.
pub fn backward(schedule: &Schedule) -> Backward {
    if schedule.splits_backward() { Backward::Split } else { Backward::Fused }
}

/// The part of a document that a schedule file needs. Costs are written out where no question says them.
///
/// # Errors
/// When a number cannot be written.
pub fn document(
    question: Option<&ScheduleQuestion>,
    schedule: &Schedule,
    costs: &Costs,
) -> Result<Value, serde_json::Error> {
    let mut document = serde_json::json!({ "schema": SCHEMA });
    match question {
        Some(question) => document["question"] = serde_json::to_value(question)?,
        None => document["costs"] = serde_json::to_value(WrittenCosts::from(costs))?,
    }
    document["schedule"] = serde_json::to_value(Written::from(schedule))?;
    Ok(document)
}
