//! Schedules by name: the programs shipped under `search_configs/schedules`, and the greedy schedulers that look at
//! times and memory.

mod greedy;
mod v_1f1b;
mod zero_bubble;
mod zero_bubble_v;

pub use greedy::PassCosts;
pub use v_1f1b::v_1f1b;
pub use zero_bubble::zero_bubble;
pub use zero_bubble_v::zero_bubble_v;

use super::dsl::{DslError, Question, Script};
use super::schedule::Schedule;
use super::{PipelineError, validate};

/// A shipped program.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// Its name: that of its file.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// All shipped programs.
        pub const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../search_configs/schedules/", $name, ".sched")),
        }),*];
    };
}

shipped!(
    "gpipe",
    "1f1b",
    "looped_bfs",
    "interleaved_1f1b",
    "group_interleaved",
    "interleaved_zb",
    "zb_h1",
    "zb_h2",
    "zb_v",
    "v_half",
    "v_min",
    "dualpipe",
    "dualpipe_v",
    "3f1b",
);

/// Runs a shipped program and proves its schedule valid.
///
/// # Errors
/// [`PipelineError::Unsupported`] for a name that is not shipped, or numbers that the program refuses.
pub fn shipped(name: &str, question: &Question) -> Result<Schedule, PipelineError> {
    let unsupported = |why: String| PipelineError::Unsupported { schedule: name.to_owned(), why };
    let Some(shipped) = SHIPPED.iter().find(|shipped| shipped.name == name) else {
        let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        return Err(unsupported(format!("no such schedule; there are {}", names.join(", "))));
    };
    let refused = |error: DslError| unsupported(error.to_string());
    let schedule = Script::parse(shipped.text).and_then(|script| script.build(question)).map_err(refused)?;
    validate(&schedule)?;
    Ok(schedule)
}
