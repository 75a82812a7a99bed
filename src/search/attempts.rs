//! Attempts at something that was not asked for yet: begun side by side, and gone on with in order where two came to the same.

use super::budget::Stop;
use super::evaluator::Evaluator;
use super::problem::{Key128, Problem};
use super::stream::Stream;
use foldhash::fast::FixedState;
use std::collections::HashSet;

/// Solutions of a batch that is being made.
pub(super) type Keys = HashSet<Key128, FixedState>;

/// Something that is tried for.
pub(super) struct Attempts<T> {
    /// What the last attempt made, and whether it is new.
    pub made: Option<(T, Key128, bool)>,
    repeated: u64,
    dead_ends: Vec<f64>,
    left: usize,
    /// Goes on where the last attempt ended.
    stream: Stream,
}

impl<T> Attempts<T> {
    /// At most `most` attempts.
    pub fn new(most: usize, stream: Stream) -> Self {
        Self { made: None, repeated: 0, dead_ends: Vec::new(), left: most, stream }
    }

    /// Tries until something is new or no attempt is left. `make`, told whether it is the first attempt, says what came of one,
    /// or its violation; `None` ends it.
    pub fn go_on(
        &mut self,
        is_known: &dyn Fn(Key128) -> bool,
        mut make: impl FnMut(bool, &mut Stream) -> Option<Result<(T, Key128), f64>>,
    ) {
        while self.left > 0 {
            self.left -= 1;
            let first = self.made.is_none() && self.dead_ends.is_empty();
            match make(first, &mut self.stream) {
                None => self.left = 0,
                Some(Err(violation)) => self.dead_ends.push(violation),
                Some(Ok((made, key))) => {
                    let new = !is_known(key);
                    self.made = Some((made, key, new));
                    if new {
                        return;
                    }
                    self.repeated += 1;
                }
            }
        }
    }

    /// Whether something new was made.
    pub fn is_new(&self) -> bool {
        self.made.as_ref().is_some_and(|(.., new)| *new)
    }

    /// Calls what was made known where `is_taken` says that another has come to the same.
    pub fn disown(&mut self, is_taken: impl Fn(Key128) -> bool) {
        if let Some((_, key, new)) = &mut self.made
            && *new
            && is_taken(*key)
        {
            *new = false;
            self.repeated += 1;
        }
    }

    /// Has the attempts counted.
    pub fn count<P: Problem>(&mut self, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        (0..std::mem::take(&mut self.repeated)).for_each(|_| evaluator.repeated());
        self.dead_ends.drain(..).try_for_each(|violation| evaluator.dead_end(violation))
    }
}
