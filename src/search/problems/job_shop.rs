//! The job shop: jobs of operations in a fixed order, each on its machine; the last end is to be early. One decision per
//! operation: which job goes on. Every operation then starts as soon as job and machine are free.
//!
//! Bound: what is left of every job, and of every machine, in one go. The two classical instances are those of Fisher and
//! Thompson 1963, "Probabilistic learning combinations of local job-shop scheduling rules", with optima 55 and 930 (the
//! latter proven by Carlier and Pinson 1989, "An algorithm for solving the job-shop problem").

use super::super::problem::{Allele, Bound, Fidelity, Key128, Node, Problem};
use super::super::score::Score;
use super::super::stream::Stream;
use super::{identity, key};

/// A job shop: for every job its operations as (machine, time).
#[derive(Debug, Clone, PartialEq)]
pub struct JobShop {
    jobs: Vec<Vec<(u32, f64)>>,
    machines: usize,
    identity: u128,
}

/// Operations placed so far.
#[derive(Debug, Clone)]
pub struct Placed {
    sequence: Vec<u32>,
    next: Vec<usize>,
    job_free: Vec<f64>,
    machine_free: Vec<f64>,
    job_left: Vec<f64>,
    machine_left: Vec<f64>,
    /// Of every operation placed: when its job and its machine were free before it.
    before: Vec<(f64, f64)>,
}

const FT06: [[(u32, u32); 6]; 6] = [
    [(2, 1), (0, 3), (1, 6), (3, 7), (5, 3), (4, 6)],
    [(1, 8), (2, 5), (4, 10), (5, 10), (0, 10), (3, 4)],
    [(2, 5), (3, 4), (5, 8), (0, 9), (1, 1), (4, 7)],
    [(1, 5), (0, 5), (2, 5), (3, 3), (4, 8), (5, 9)],
    [(2, 9), (1, 3), (4, 5), (5, 4), (0, 3), (3, 1)],
    [(1, 3), (3, 3), (5, 9), (0, 10), (4, 4), (2, 1)],
];

const FT10: [[(u32, u32); 10]; 10] = [
    [(0, 29), (1, 78), (2, 9), (3, 36), (4, 49), (5, 11), (6, 62), (7, 56), (8, 44), (9, 21)],
    [(0, 43), (2, 90), (4, 75), (9, 11), (3, 69), (1, 28), (6, 46), (5, 46), (7, 72), (8, 30)],
    [(1, 91), (0, 85), (3, 39), (2, 74), (8, 90), (5, 10), (7, 12), (6, 89), (9, 45), (4, 33)],
    [(1, 81), (2, 95), (0, 71), (4, 99), (6, 9), (8, 52), (7, 85), (3, 98), (9, 22), (5, 43)],
    [(2, 14), (0, 6), (1, 22), (5, 61), (3, 26), (4, 69), (8, 21), (7, 49), (9, 72), (6, 53)],
    [(2, 84), (1, 2), (5, 52), (3, 95), (8, 48), (9, 72), (0, 47), (6, 65), (4, 6), (7, 25)],
    [(1, 46), (0, 37), (3, 61), (2, 13), (6, 32), (5, 21), (9, 32), (8, 89), (7, 30), (4, 55)],
    [(2, 31), (0, 86), (1, 46), (5, 74), (4, 32), (6, 88), (8, 19), (9, 48), (7, 36), (3, 79)],
    [(0, 76), (1, 69), (3, 76), (5, 51), (2, 85), (9, 11), (6, 40), (7, 89), (4, 26), (8, 74)],
    [(1, 85), (0, 13), (2, 61), (6, 7), (8, 64), (9, 76), (5, 47), (3, 52), (4, 90), (7, 45)],
];

/// The names [`JobShop::named`] knows, with their optima.
pub const NAMED_JOB_SHOPS: [(&str, f64); 2] = [("ft06", 55.0), ("ft10", 930.0)];

impl JobShop {
    /// Jobs of operations (machine, time).
    pub fn new(jobs: Vec<Vec<(u32, f64)>>) -> Self {
        let machines = jobs.iter().flatten().map(|(machine, _)| *machine as usize + 1).max().unwrap_or(0);
        let numbers = jobs.iter().flat_map(|job| {
            std::iter::once(job.len() as f64).chain(job.iter().flat_map(|(machine, time)| [f64::from(*machine), *time]))
        });
        let identity = identity("job shop", numbers);
        Self { jobs, machines, identity }
    }

    /// A classical instance, if there is one of that name: see [`NAMED_JOB_SHOPS`].
    pub fn named(name: &str) -> Option<Self> {
        fn of<const M: usize>(table: &[[(u32, u32); M]]) -> JobShop {
            let job = |row: &[(u32, u32); M]| row.iter().map(|(machine, time)| (*machine, f64::from(*time))).collect();
            JobShop::new(table.iter().map(job).collect())
        }
        match name {
            "ft06" => Some(of(&FT06)),
            "ft10" => Some(of(&FT10)),
            _ => None,
        }
    }

    /// `jobs` jobs that visit each of `machines` machines once in random order, for 1 to 99 units of time (Taillard 1993,
    /// "Benchmarks for basic scheduling problems").
    pub fn random(jobs: usize, machines: usize, seed: u64) -> Self {
        let mut stream = Stream::new(seed, 3, 0, 0);
        let job = |_| {
            let mut order: Vec<u32> = (0..machines as u32).collect();
            stream.shuffle(&mut order);
            order.into_iter().map(|machine| (machine, 1.0 + stream.below(99) as f64)).collect()
        };
        Self::new((0..jobs).map(job).collect())
    }

    /// Operations in all.
    pub fn operations(&self) -> usize {
        self.jobs.iter().map(Vec::len).sum()
    }

    fn open<'s>(&'s self, s: &'s Placed) -> impl Iterator<Item = u32> + 's {
        (0..self.jobs.len()).filter(|job| s.next[*job] < self.jobs[*job].len()).map(|job| job as u32)
    }
}

impl Problem for JobShop {
    type State = Placed;
    /// The jobs in the order in which their operations are placed.
    type Solution = Vec<u32>;

    fn root(&self) -> Placed {
        let mut machine_left = vec![0.0; self.machines];
        self.jobs.iter().flatten().for_each(|(machine, time)| machine_left[*machine as usize] += time);
        Placed {
            sequence: Vec::new(),
            next: vec![0; self.jobs.len()],
            job_free: vec![0.0; self.jobs.len()],
            machine_free: vec![0.0; self.machines],
            job_left: self.jobs.iter().map(|job| job.iter().map(|(_, time)| time).sum()).collect(),
            machine_left,
            before: Vec::new(),
        }
    }

    fn node(&self, s: &Placed) -> Node {
        match self.open(s).count() {
            0 => Node::Complete,
            n => Node::Choose { slot: s.sequence.len() as u64, options: n as u32 },
        }
    }

    fn allele(&self, s: &Placed, option: u32) -> Allele {
        self.open(s).nth(option as usize).map_or(0, u64::from)
    }

    fn nearest(&self, s: &Placed, wanted: Allele) -> u32 {
        let near = |(_, job): &(usize, u32)| u64::from(*job).abs_diff(wanted);
        self.open(s).enumerate().min_by_key(near).map_or(0, |(option, _)| option as u32)
    }

    /// What can start first comes first, and of that the job with most work left.
    fn prior(&self, s: &Placed, out: &mut [f32]) {
        let longest = s.job_left.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (weight, job) in out.iter_mut().zip(self.open(s)) {
            let job = job as usize;
            let (machine, time) = self.jobs[job][s.next[job]];
            let start = s.job_free[job].max(s.machine_free[machine as usize]);
            let idle = (start - s.machine_free[machine as usize]) / time.max(f64::MIN_POSITIVE);
            *weight = ((3.0 * s.job_left[job] / longest - idle).exp()).clamp(1e-6, 1e6) as f32;
        }
    }

    fn push(&self, s: &mut Placed, option: u32) {
        let job = self.allele(s, option) as usize;
        let (machine, time) = self.jobs[job][s.next[job]];
        let machine = machine as usize;
        s.before.push((s.job_free[job], s.machine_free[machine]));
        let end = s.job_free[job].max(s.machine_free[machine]) + time;
        (s.job_free[job], s.machine_free[machine]) = (end, end);
        s.job_left[job] -= time;
        s.machine_left[machine] -= time;
        s.next[job] += 1;
        s.sequence.push(job as u32);
    }

    fn pop(&self, s: &mut Placed) {
        let (Some(job), Some((job_free, machine_free))) = (s.sequence.pop(), s.before.pop()) else { return };
        let job = job as usize;
        s.next[job] -= 1;
        let (machine, time) = self.jobs[job][s.next[job]];
        s.job_free[job] = job_free;
        s.machine_free[machine as usize] = machine_free;
        s.job_left[job] += time;
        s.machine_left[machine as usize] += time;
    }

    fn bound(&self, s: &Placed) -> Bound {
        let ends = s.job_free.iter().zip(&s.job_left).chain(s.machine_free.iter().zip(&s.machine_left));
        // Sums of differences round differently from the schedule's own: keep the bound below it.
        Bound::AtLeast(ends.map(|(free, left)| free + left).fold(0.0, f64::max) * (1.0 - 1e-12))
    }

    fn solution(&self, s: &Placed) -> Vec<u32> {
        s.sequence.clone()
    }

    /// The order of the jobs on every machine: sequences that differ only between machines are one schedule.
    fn key(&self, x: &Vec<u32>) -> Key128 {
        let mut on_machine = vec![Vec::new(); self.machines];
        let mut next = vec![0; self.jobs.len()];
        for job in x {
            let at = &mut next[*job as usize];
            on_machine[self.jobs[*job as usize][*at].0 as usize].push(*job);
            *at += 1;
        }
        key(self.identity, on_machine.into_iter().flatten())
    }

    fn score(&self, x: &Vec<u32>, _: Fidelity) -> Score {
        let mut next = vec![0; self.jobs.len()];
        let (mut job_free, mut machine_free) = (vec![0.0f64; self.jobs.len()], vec![0.0f64; self.machines]);
        for job in x {
            let job = *job as usize;
            let (machine, time) = self.jobs[job][next[job]];
            next[job] += 1;
            let end = job_free[job].max(machine_free[machine as usize]) + time;
            (job_free[job], machine_free[machine as usize]) = (end, end);
        }
        Score::feasible(job_free.into_iter().fold(0.0, f64::max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::budget::Budget;
    use crate::search::exact::backend::Exact;
    use crate::search::run::{Request, solve};

    #[test]
    fn classical_instances_visit_every_machine_once() {
        for (name, optimum) in NAMED_JOB_SHOPS {
            let shop = JobShop::named(name).unwrap();
            for job in &shop.jobs {
                let mut machines: Vec<u32> = job.iter().map(|(machine, _)| *machine).collect();
                machines.sort_unstable();
                assert_eq!(machines, (0..shop.machines as u32).collect::<Vec<_>>(), "{name}");
            }
            assert!(matches!(shop.bound(&shop.root()), Bound::AtLeast(b) if b <= optimum), "{name}");
        }
        assert_eq!(JobShop::named("ft99"), None);
    }

    #[test]
    fn branch_and_bound_proves_a_small_shop() {
        let shop = JobShop::random(3, 3, 1);
        let outcome = solve(&shop, &Exact::default(), Request::new(1, Budget::default())).unwrap();
        assert_eq!(outcome.gap(), Some(0.0));
    }
}
