//! Iteration times from training logs.
//!
//! Megatron-LM prints `elapsed time per iteration (ms): 1234.5`, torchtitan `step: 10 ... tps: 5,678` (tokens per second and
//! device), NeMo `train_step_timing in s: 1.23`. Other lines are passed over.

use super::calibrate::Skipped;

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Said {
    Seconds(f64),
    TokensPerDevice(f64),
}

/// Times found in a log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Times {
    /// Seconds of iterations, in order.
    pub seconds: Vec<f64>,
    /// Lines that speak of a time but hold none that is positive, finite, whole and in a known unit, by number from 1.
    pub unreadable: Vec<usize>,
    /// Lines of other runs in the same log: another number of iterations in all, or another global batch.
    pub other_runs: Vec<usize>,
    /// Of every second its line, by number from 1.
    pub lines: Vec<usize>,
    /// Lines that speak of a time and are not used, with what they say and why.
    pub skipped: Vec<Skipped>,
}

impl Times {
    /// Seconds without a log: a line each.
    pub fn of(seconds: &[f64]) -> Self {
        Self { seconds: seconds.to_vec(), lines: (1..=seconds.len()).collect(), ..Self::default() }
    }

    /// How a sample is called.
    pub fn name(&self, sample: usize) -> String {
        self.lines.get(sample).map_or_else(|| format!("sample {}", sample + 1), |line| format!("line {line}"))
    }
}

/// Characters of a line that are quoted from where it speaks of a time.
const QUOTED: usize = 48;

/// What a line says of a time, in its own words.
fn quote(line: &str) -> String {
    let at = ["elapsed time", "train_step_timing", " tps"].iter().filter_map(|mark| line.find(mark)).min().unwrap_or(0);
    let said = line[at..].split(" |").next().unwrap_or_default();
    said.trim().chars().take(QUOTED).collect()
}

fn number_after(line: &str, mark: &str) -> Option<Option<f64>> {
    let rest = line[line.find(mark)? + mark.len()..].trim_start_matches([':', ' ', '=']);
    let end =
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '-' | '+'))).unwrap_or(rest.len());
    let text = rest[..end].trim_end_matches(['.', ',']).replace(',', "");
    Some(text.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0))
}

/// Milliseconds, unless the parenthesis says seconds; other units are not guessed.
fn elapsed(line: &str) -> Option<Option<f64>> {
    let mark = "elapsed time per iteration (";
    let rest = &line[line.find(mark)? + mark.len()..];
    let scale = match rest.split(')').next() {
        Some("ms") => 1e3,
        Some("s") => 1.0,
        _ => return Some(None),
    };
    Some(number_after(rest, ")").flatten().map(|x| x / scale))
}

fn said(line: &str) -> Option<Option<Said>> {
    if let Some(s) = elapsed(line) {
        return Some(s.map(Said::Seconds));
    }
    if let Some(s) = number_after(line, "train_step_timing in s") {
        return Some(s.map(Said::Seconds));
    }
    number_after(line, " tps").map(|tps| tps.map(Said::TokensPerDevice))
}

/// What a line says of its run.
struct Run {
    /// Which iteration it is: 10 of `iteration 10/ 100`.
    iteration: Option<u64>,
    /// Iterations in all.
    total: Option<u64>,
    /// Global batch.
    batch: Option<u64>,
}

fn run_of(line: &str) -> Run {
    let whole = |text: &str| {
        let digits: String =
            text.trim_start_matches([':', ' ', '=']).chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    const MARK: &str = "iteration ";
    let numbers = line.find(MARK).and_then(|at| line[at + MARK.len()..].split_once('/'));
    let (iteration, total) = numbers.map_or((None, None), |(number, rest)| (whole(number), whole(rest)));
    let batch = |mark: &str| line.find(mark).and_then(|at| whole(&line[at + mark.len()..]));
    Run { iteration, total, batch: batch("global batch size").or_else(|| batch("global_batch_size")) }
}

/// Reads a log of a run that trains `tokens_per_device` tokens a step on each device, `batch` sequences in all. Of several runs
/// in one log (other iterations in all, or numbers of iterations that go down) the longest with this batch counts.
pub fn times(text: &str, tokens_per_device: f64, batch: u64) -> Times {
    let mut times = Times::default();
    let mut found: Vec<(usize, (Option<u64>, usize), f64)> = Vec::new();
    let (mut last, mut restarts) = (None, 0);
    let cut_off = !text.is_empty() && !text.ends_with('\n');
    let count = text.lines().count();
    for (i, line) in text.lines().enumerate() {
        // A number at the very end of a log without a last line break may lack digits.
        let cut = cut_off && i + 1 == count && line.ends_with(|c: char| c.is_ascii_digit() || c == '.' || c == ',');
        match said(line) {
            None => {}
            Some(None) => {
                times.unreadable.push(i + 1);
                let why = "no positive, finite number in ms or s, or of tokens per second";
                times.skipped.push(Skipped::new(format!("line {}", i + 1), quote(line), why));
            }
            Some(Some(_)) if cut => {
                times.unreadable.push(i + 1);
                times.skipped.push(Skipped::new(
                    format!("line {}", i + 1),
                    quote(line),
                    "cut off: digits may be missing",
                ));
            }
            Some(Some(said)) => {
                let Run { iteration, total, batch: stated } = run_of(line);
                if let Some(other) = stated.filter(|stated| *stated != batch) {
                    times.other_runs.push(i + 1);
                    let why = format!("another global batch than the plan's {batch}");
                    times.skipped.push(Skipped::new(
                        format!("line {}", i + 1),
                        format!("global batch size {other}"),
                        why,
                    ));
                    continue;
                }
                let seconds = match said {
                    Said::Seconds(s) => s,
                    Said::TokensPerDevice(rate) => tokens_per_device / rate,
                };
                restarts += usize::from(iteration.is_some() && iteration < last);
                last = iteration.or(last);
                found.push((i + 1, (total, restarts), seconds));
            }
        }
    }
    let length = |run| found.iter().filter(|f| f.1 == run).count();
    let longest = found.iter().map(|f| f.1).max_by_key(|run| (length(*run), *run));
    for (line, run, seconds) in &found {
        if Some(*run) == longest {
            times.seconds.push(*seconds);
            times.lines.push(*line);
        } else {
            times.other_runs.push(*line);
            let value = run.0.map_or("no number of iterations".to_owned(), |n| format!("a run of {n} iterations"));
            times.skipped.push(Skipped::new(format!("line {line}"), value, "of another run in the same log"));
        }
    }
    times.other_runs.sort_unstable();
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_three_programs_are_read_and_nonsense_is_named() {
        let text = " elapsed time per iteration (ms): 1500.0 | lr: 1\n\
                    [rank0]: step: 20  loss: 7.1  memory: 60GiB  tps: 4,096  mfu: 40%\n\
                    Epoch 0: train_step_timing in s: 2.5, loss 3\n\
                    elapsed time per iteration (ms): nan | x\n\
                    elapsed time per iteration (s): 1.25 | x\n\
                    elapsed time per iteration (us): 1250000 | x\n\
                    saving checkpoint\n";
        let times = times(text, 8192.0, 8);
        assert_eq!(times.seconds, [1.5, 2.0, 2.5, 1.25]);
        assert_eq!((times.unreadable, times.other_runs), (vec![4, 6], vec![]));
    }

    #[test]
    fn a_log_that_is_cut_off_loses_its_last_number_only() {
        let text = "elapsed time per iteration (ms): 1500.0\nelapsed time per iteration (ms): 1501.0\nelapsed time per iteration (ms): 15";
        let found = times(text, 1.0, 8);
        assert_eq!((found.seconds, found.unreadable), (vec![1.5, 1.501], vec![3]));
        assert_eq!(times(&format!("{text}00.0 | loss: 2 | gr"), 1.0, 8).seconds, [1.5, 1.501, 1.5]);
    }

    #[test]
    fn of_several_runs_the_longest_with_the_plans_batch_counts() {
        let line = |total: u64, batch: u64, ms: f64| {
            format!(" iteration 10/ {total} | elapsed time per iteration (ms): {ms} | global batch size:   {batch} |\n")
        };
        let text = [line(100, 8, 1000.0), line(100, 16, 2000.0), line(500, 8, 1500.0), line(500, 8, 1501.0)].concat();
        let found = times(&text, 1.0, 8);
        assert_eq!((found.seconds, found.other_runs), (vec![1.5, 1.501], vec![1, 2]));
        let none = times(&text, 1.0, 32);
        assert_eq!(none.other_runs, [1, 2, 3, 4]);
        assert!(
            none.skipped[0].value.ends_with("8") && none.skipped[0].why.contains("plan's 32"),
            "{:?}",
            none.skipped
        );
    }

    #[test]
    fn a_run_that_begins_again_in_the_same_log_is_another_run() {
        let line = |i: u64, ms: f64| format!(" iteration {i:8}/ 100 | elapsed time per iteration (ms): {ms} | x\n");
        let twice: String = (1..=8).map(|i| line(i, 1000.0)).chain((1..=9).map(|i| line(i, 3000.0))).collect();
        let of = times(&twice, 1.0, 64);
        assert_eq!((of.seconds.len(), of.seconds[0], of.other_runs.len()), (9, 3.0, 8));
        let alike: String = (0..30).map(|i| line(5, 1000.0 + f64::from(i))).collect();
        // Several ranks may write the same line.
        assert_eq!(times(&alike, 1.0, 64).seconds.len(), 30);
        let one: String = (1..=30).map(|i| line(i * 10, 1000.0)).collect();
        assert_eq!(times(&one, 1.0, 64).seconds.len(), 30);
    }
}
