//! Integer programming: the chain of every task as a mixed integer linear program, solved by a general solver.
//!
//! Best-first over tasks as in [`exact`](super::exact); what a task costs is the optimum of a
//! [`program`] whose objective is linear and never above the true one ([`Combine::linear`](super::decompose::Combine)). Where
//! the problem's objective is that linear one, as on chains of one segment, its optimum is the answer; elsewhere it is a bound
//! and its solution a good one. Solver: microlp (pure Rust) behind good_lp.

pub mod program;

use super::backend::Backend;
use super::budget::Stop;
use super::evaluator::Evaluator;
use super::exact::backend::branch;
use super::manual::{Page, parameter};
use super::problem::{Bound, Problem};
use program::{Limits, Solved};
use serde::{Deserialize, Serialize};

/// Parameters of integer programming.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Integer {
    /// Size of the largest program that is solved: its variables times the square of its segments.
    pub size: usize,
    /// Programs solved in all.
    pub programs: usize,
}

impl Default for Integer {
    fn default() -> Self {
        Self { size: 13_000, programs: 4 }
    }
}

/// Share of the time left that a program may take: what it has found by then is still to be priced.
const SOLVING: f64 = 0.9;

/// The manual's page.
pub const PAGE: Page = Page {
    summary: "writes the chain of a task as an integer program and hands it to a solver",
    source: "Ahuja, Magnanti and Orlin 1993; Zheng et al. 2022 (Alpa), section 4.2; good_lp with microlp",
    when: "To check `exact` by other means, and on long chains of one segment whose labels are too many for it. Measured (two \
           busy cores, 2026-11): 24 layers of 8 strategies 0.1 to 0.5 s against 0.02 to 0.04 s of `exact`; 32 of 8 \
           1 s, proven, where `exact` left a gap; 48 of 16 about 1 s. With several segments it is no rival: 8 layers in 3 segments 0.7 s against \
           0.7 ms, 12 in 4 more than a minute. It declines larger programs and says so. Where the problem does not decompose there is nothing to write down, and it is the branch \
           and bound of `exact`. The seed changes nothing.",
    presets: &[],
    parameters: &[
        parameter(
            "size",
            "variables times the square of the segments of the largest program that is solved",
            "some seconds of one core (measured)",
        ),
        parameter(
            "programs",
            "programs solved in all, those of the best bounds",
            "up to half a minute of one core (measured)",
        ),
    ],
};

impl Integer {
    fn by_tasks<P: Problem>(&self, problem: &P, evaluator: &mut Evaluator<'_, P>) -> Result<(), Stop> {
        let Some(tasks) = problem.decompose() else { return Ok(()) };
        let mut open: Vec<(f64, usize)> = Vec::new();
        for task in 0..tasks.tasks() {
            if let Bound::AtLeast(bound) = tasks.task_bound(task) {
                open.push((bound, task));
            }
        }
        open.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut proven = f64::INFINITY;
        let (mut refused, mut largest, mut unclear) = (0, 0, None);
        let (mut solved_programs, mut left) = (0, 0);
        for (place, &(bound, task)) in open.iter().enumerate() {
            evaluator.poll()?;
            let cutoff = evaluator.cutoff().unwrap_or(f64::INFINITY);
            // All that follow have larger bounds.
            evaluator.raise_bound(proven.min(bound).min(cutoff));
            if bound >= cutoff {
                break;
            }
            let bound = match tasks.priced_bound(task) {
                Bound::AtLeast(priced) => priced.max(bound),
                Bound::Infeasible => continue,
            };
            if bound >= cutoff {
                continue;
            }
            if solved_programs >= self.programs {
                // Nothing that follows has a smaller bound.
                proven = proven.min(open[place].0);
                left = open.len() - place;
                break;
            }
            let Some(chain) = tasks.chain(task) else { continue };
            let variables = program::variables(&chain);
            let size = variables.saturating_mul(chain.segments.len().saturating_pow(2));
            if size > self.size {
                (refused, largest) = (refused + 1, largest.max(size));
                proven = proven.min(bound);
                continue;
            }
            solved_programs += 1;
            evaluator.looked_up(variables as u64);
            let halted = evaluator.halt();
            let limits = Limits { time: evaluator.time_left().map(|left| left.mul_f64(SOLVING)), halted: &halted };
            let solved = program::solve(&chain, &chain.combine.linear(), &limits);
            evaluator.poll()?;
            // Both are said of a program that was cut off.
            let is_late = matches!(solved, Solved::Feasible(_) | Solved::Late);
            let (solution, least) = match solved {
                Solved::Optimal(solution, least) => (Some(solution), least.max(bound)),
                Solved::Feasible(solution) => (Some(solution), bound),
                Solved::Infeasible => (None, f64::INFINITY),
                Solved::Late => (None, bound),
                Solved::Unknown(why) => {
                    unclear = Some(why);
                    (None, bound)
                }
            };
            proven = proven.min(least);
            if let Some(solution) = solution {
                let candidate = evaluator.candidate(tasks.assemble(task, &solution), None);
                evaluator.ask(vec![candidate])?;
            }
            if is_late {
                evaluator.raise_bound(proven.min(bound).min(evaluator.cutoff().unwrap_or(f64::INFINITY)));
                return Err(Stop::Deadline);
            }
            if place + 1 == open.len() {
                evaluator.poll()?;
            }
        }
        if left > 0 {
            let (all, most) = (open.len(), self.programs);
            evaluator.refuse(format!("integer: {left} of {all} tasks were not looked at: `programs` allows {most}"));
        } else if refused > 0 {
            let (all, most) = (open.len(), self.size);
            evaluator.refuse(format!(
                "integer: {refused} of {all} tasks were not solved: their programs have a size of up to {largest}, `size` allows \
                 {most}"
            ));
        } else if let Some(why) = unclear {
            evaluator.refuse(format!("integer: the solver gave up: {why}"));
        }
        let cutoff = evaluator.cutoff().unwrap_or(f64::INFINITY);
        if proven.min(cutoff) == f64::INFINITY {
            evaluator.proved_infeasible();
        }
        evaluator.raise_bound(proven.min(cutoff));
        Ok(())
    }
}

impl<P: Problem> Backend<P> for Integer {
    fn name(&self) -> &'static str {
        "integer"
    }

    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn search(&self, problem: &P, _seed: u64, evaluator: &mut Evaluator<'_, P>) -> Stop {
        let done = match problem.decompose() {
            Some(_) => self.by_tasks(problem, evaluator),
            None => branch(problem, evaluator).map(|()| evaluator.proved()),
        };
        match done {
            Err(stop) => stop,
            Ok(()) if evaluator.is_optimal() => Stop::Optimal,
            Ok(()) => Stop::Exhausted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::super::decompose::Decompose;
    use super::super::problems::{ChainShape, LayerChain};
    use super::super::run::{Request, solve};
    use super::*;

    fn chain(items: usize, segments: usize, tightness: f64, seed: u64) -> LayerChain {
        LayerChain::random(ChainShape { items, options: 3, segments, rounds: 4, tightness }, seed)
    }

    #[test]
    fn its_optimum_is_that_of_dynamic_programming_with_one_segment_and_several() {
        for (items, segments, tightness) in [(6, 1, 0.2), (5, 2, 0.3), (6, 3, 0.6), (4, 4, 0.4)] {
            for seed in 0..3 {
                let problem = chain(items, segments, tightness, seed);
                let request = Request::new(1, Budget::evaluations(50));
                let outcome = solve(&problem, &Integer::default(), request).unwrap();
                let found = outcome.best.as_ref().and_then(|best| best.score.objective());
                let what = format!("{items} {segments} {tightness} {seed}");
                match (found, problem.optimum()) {
                    (Some(found), Some(optimum)) => {
                        assert!((found / optimum - 1.0).abs() < 1e-6, "{what}: {found} {optimum}");
                        let bound = outcome.bound.unwrap();
                        assert!(bound <= optimum && bound > optimum * (1.0 - 1e-6), "{what}: {bound} {optimum}");
                    }
                    (found, optimum) => assert_eq!((found, optimum), (None, None), "{what}"),
                }
                assert_eq!(outcome.refused, None);
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused_in_words_and_leaves_a_bound() {
        let problem = chain(12, 3, 0.4, 1);
        let variables = program::variables(&problem.chain(0).unwrap());
        let small = Integer { size: 9 * variables - 1, ..Integer::default() };
        let outcome = solve(&problem, &small, Request::new(1, Budget::evaluations(50))).unwrap();
        let refused = outcome.refused.unwrap();
        assert!(refused.contains(&format!("up to {}", 9 * variables)), "{refused}");
        assert!(outcome.best.is_none() && outcome.bound.unwrap() <= problem.optimum().unwrap());
    }
}
