//! One call of a program outside: a line of JSON in, a line of JSON out, in limited time.

use super::Diagnosis;
use crate::search::evaluator::Evaluator;
use crate::search::local::Place;
use crate::search::problem::Problem;
use crate::search::score::Score;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Paths that one answer may have.
const MOST_PATHS: usize = 1_024;
/// Bytes that are read of an answer and of what is said on standard error.
const MOST_ANSWER: u64 = 64 << 20;
const MOST_ERROR: u64 = 2_000;
/// How often a wait looks whether the search is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long to wait for what a program that ended has said on standard error.
const COMPLAINT: Duration = Duration::from_millis(200);

/// What a program says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advice {
    /// Option sequences.
    pub paths: Vec<Vec<u32>>,
}

fn told<S>(place: &Place<S>) -> Value {
    let violation = match place.score {
        Score::Infeasible(violation) => Some(violation),
        _ => None,
    };
    json!({ "path": place.genome.path(), "objective": place.score.objective(), "violation": violation })
}

/// The state of a search as one line.
pub(super) fn state<P: Problem>(
    evaluator: &Evaluator<'_, P>,
    diagnosis: Diagnosis,
    places: &[&Place<P::Solution>],
    measures: &[f64],
) -> String {
    let mut best = places.first().map_or(Value::Null, |place| told(place));
    if let Some(place) = places.first() {
        let genes = place.genome.genes().iter();
        let decisions: Vec<Value> =
            genes.map(|gene| json!({ "slot": gene.slot, "options": gene.options, "allele": gene.allele })).collect();
        best["measures"] = json!(measures);
        best["decisions"] = Value::Array(decisions);
    }
    let document = json!({
        "schema": "espalier/rules/1",
        "evaluations": evaluator.evaluations(),
        "remaining": evaluator.remaining(),
        "diagnosis": diagnosis,
        "best": best,
        "known": places.iter().map(|place| told(place)).collect::<Vec<_>>(),
    });
    format!("{document}\n")
}

/// Kills what still runs.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `command`, hands it `state`, and reads its answer within `seconds`; ends early when `halted`.
pub(super) fn ask(command: &str, state: &str, seconds: f64, halted: &dyn Fn() -> bool) -> Result<Advice, String> {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .map_err(|e| format!("`{program}` cannot be started: {e}"))?;
    let (stdin, stdout, stderr) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
    let question = state.to_owned();
    // Reading and writing wait for the program, so they wait in threads of their own; they end with it.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(question.as_bytes())));
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = stdout.map_or(Ok(0), |out| BufReader::new(out.take(MOST_ANSWER)).read_line(&mut line));
        let _ = send.send(read.map(|_| line));
    });
    let (complain, complaint) = mpsc::channel();
    std::thread::spawn(move || {
        let Some(mut stderr) = stderr else { return };
        let mut said = Vec::new();
        let _ = stderr.by_ref().take(MOST_ERROR).read_to_end(&mut said);
        let _ = complain.send(String::from_utf8_lossy(&said).into_owned());
        // A program whose complaints nobody takes would wait.
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    });
    let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    let begun = Instant::now();
    let line = loop {
        match receive.recv_timeout(LOOK) {
            Ok(line) => break line.map_err(|e| format!("`{command}` cannot be read: {e}"))?,
            Err(RecvTimeoutError::Disconnected) => break String::new(),
            Err(RecvTimeoutError::Timeout) if halted() => return Ok(Advice { paths: Vec::new() }),
            Err(RecvTimeoutError::Timeout) if begun.elapsed() >= limit => {
                return Err(format!("`{command}` gave no answer within {seconds} s"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    if line.trim().is_empty() {
        let status = loop {
            match child.0.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Err(e) => break e.to_string(),
                Ok(None) if halted() => return Ok(Advice { paths: Vec::new() }),
                Ok(None) if begun.elapsed() >= limit => {
                    let _ = child.0.kill();
                    break format!("still running after {seconds} s");
                }
                Ok(None) => std::thread::sleep(LOOK),
            }
        };
        // What it started may hold its standard error open.
        let said = complaint.recv_timeout(COMPLAINT).unwrap_or_default();
        let said = said.trim();
        return Err(format!("`{command}` gave no answer ({status}){}{said}", if said.is_empty() { "" } else { ": " }));
    }
    let advice: Advice = serde_json::from_str(&line).map_err(|e| {
        format!("`{command}` answered `{}`: {e}; expected {{\"paths\": [[0, 1], ...]}}", shortened(&line))
    })?;
    if advice.paths.len() > MOST_PATHS {
        return Err(format!("`{command}` proposed {} paths, at most {MOST_PATHS} are taken", advice.paths.len()));
    }
    Ok(advice)
}

fn shortened(line: &str) -> String {
    let line = line.trim();
    let mut short: String = line.chars().take(80).collect();
    if short.len() < line.len() {
        short.push_str("...");
    }
    short
}
