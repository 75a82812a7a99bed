//! A bar on standard error while a search runs, and the interrupt that Ctrl-C raises.

use super::INTERRUPTED;
use crate::report::{percent, seconds};
use crate::search::budget::Interrupt;
use crate::search::outcome::{Observer, Progress, gap};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Time between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Best so far and gap, on a terminal; silent elsewhere.
pub(super) struct Bar {
    bar: Option<ProgressBar>,
    unit: &'static str,
}

impl Bar {
    /// A bar that says `what` until the search reports.
    pub(super) fn new(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None, unit: " s" };
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>4} {msg}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Self { bar: Some(bar), unit: " s" }
    }

    /// A bar for objectives in the unit of the input.
    pub(super) fn without_unit(what: &str) -> Self {
        let mut bar = Self::new(what);
        bar.unit = "";
        bar
    }

    /// Says something else.
    pub(super) fn say(&self, text: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Bar {
    fn progress(&mut self, p: &Progress<'_>) {
        let best = p.best.and_then(|score| score.objective());
        let mut text = format!("{}: {} evaluations", p.stage, p.evaluations);
        if let Some(most) = p.max_evaluations {
            text.push_str(&format!(" of {most}"));
        }
        match best {
            Some(best) => text.push_str(&format!(", best {}{}", seconds(best), self.unit)),
            None => text.push_str(", no plan that fits yet"),
        }
        if let Some(gap) = best.zip(p.bound).and_then(|(best, bound)| gap(best, bound)) {
            text.push_str(&format!(", gap {}", percent(gap)));
        }
        self.say(text);
    }
}

/// The flag that Ctrl-C raises; a second Ctrl-C ends the process.
pub(super) fn interrupt() -> Interrupt {
    let flag = Interrupt::default();
    let raised = flag.clone();
    // Without a handler Ctrl-C ends the process at once, which is what is left then.
    let _ = ctrlc::set_handler(move || {
        if raised.is_raised() {
            std::process::exit(i32::from(INTERRUPTED));
        }
        raised.raise();
    });
    flag
}
