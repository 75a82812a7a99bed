//! Iteration times from training logs.
//!
//! Megatron-LM prints `elapsed time per iteration (ms): 1234.5`, torchtitan `step: 10 ... tps: 5,678` (tokens per second and
//! device), NeMo `train_step_timing in s: 1.23`. Other lines are passed over.

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
    /// Lines that speak of a time but hold none that is positive and finite, by number from 1.
    pub unreadable: Vec<usize>,
}

fn number_after(line: &str, mark: &str) -> Option<Option<f64>> {
    let rest = line[line.find(mark)? + mark.len()..].trim_start_matches([':', ' ', '=']);
    let end =
        rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | ',' | '-' | '+'))).unwrap_or(rest.len());
    let text = rest[..end].trim_end_matches(['.', ',']).replace(',', "");
    Some(text.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0))
}

fn said(line: &str) -> Option<Option<Said>> {
    if let Some(ms) = number_after(line, "elapsed time per iteration (ms)") {
        return Some(ms.map(|ms| Said::Seconds(ms / 1e3)));
    }
    if let Some(s) = number_after(line, "train_step_timing in s") {
        return Some(s.map(Said::Seconds));
    }
    number_after(line, " tps").map(|tps| tps.map(Said::TokensPerDevice))
}

/// Reads a log of a run that trains `tokens_per_device` tokens a step on each device.
pub fn times(text: &str, tokens_per_device: f64) -> Times {
    let mut times = Times::default();
    for (i, line) in text.lines().enumerate() {
        match said(line) {
            None => {}
            Some(None) => times.unreadable.push(i + 1),
            Some(Some(Said::Seconds(s))) => times.seconds.push(s),
            Some(Some(Said::TokensPerDevice(rate))) => times.seconds.push(tokens_per_device / rate),
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_three_programs_are_read_and_nonsense_is_named() {
        let text = " iteration 10/ 100 | consumed samples: 80 | elapsed time per iteration (ms): 1500.0 | lr: 1\n\
                    [rank0]: step: 20  loss: 7.1  memory: 60GiB  tps: 4,096  mfu: 40%\n\
                    Epoch 0: train_step_timing in s: 2.5, loss 3\n\
                    elapsed time per iteration (ms): nan | x\n\
                    saving checkpoint";
        let times = times(text, 8192.0);
        assert_eq!(times.seconds, [1.5, 2.0, 2.5]);
        assert_eq!(times.unreadable, [4]);
    }
}
