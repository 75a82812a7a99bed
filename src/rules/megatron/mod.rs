//! Megatron-LM: arguments, what it derives from them, and what it accepts.
//!
//! Read from megatron-core 0.19.2 of the package index (August 2026), whose `megatron.training` holds the parser; main of
//! the same month gives the same verdicts. Ids are ours.

mod arguments;
mod config;
pub mod derived;
pub mod flags;
mod later;
pub mod launch;
pub mod layout;
pub mod offers;
pub mod parse;
mod pattern;
mod run;

pub use launch::{Launch, Value};
pub use pattern::Pattern;

use super::{Book, Broken, Moment};

/// Version that the rules were read from.
pub const VERSION: &str = "core 0.19.2";

/// What Megatron checks itself, in its order.
pub const BOOK: Book<Launch> = Book {
    framework: "megatron",
    version: VERSION,
    date: "2026-11",
    chapters: &[arguments::RULES, config::RULES, later::GROUPS, later::BUILD, later::SCHEDULE],
};

/// What it does not check, and what fails in training.
pub const UNCHECKED: Book<Launch> =
    Book { framework: "megatron", version: VERSION, date: "2026-11", chapters: &[run::RULES] };

/// What runs and does not do what it seems to.
pub const ADVICE: Book<Launch> =
    Book { framework: "megatron", version: VERSION, date: "2026-11", chapters: &[run::ADVICE] };

/// The rules that a launch breaks: first those that Megatron refuses, in its order, then those that fail later.
pub fn broken(launch: &Launch) -> Vec<Broken> {
    let mut list = BOOK.broken(launch);
    // The build repeats what the arguments have refused already.
    let mut ids: Vec<&str> = Vec::new();
    list.retain(|b| {
        let new = !ids.contains(&b.id);
        ids.push(b.id);
        new
    });
    list.extend(UNCHECKED.broken(launch));
    list
}

/// Whether Megatron itself takes the launch.
pub fn accepts(broken: &[Broken]) -> bool {
    broken.iter().all(|b| b.when == Moment::Run)
}
