//! The decision tree over Galvatron's space: every path fits, bounds hold, popping undoes pushing, and the optimum is in it.

use espalier::cost::galvatron::Repairs;
use espalier::search::problem::{Bound, Moves, Node, Problem};
use espalier::search::score::Score;
use espalier::space::galvatron::{GalvatronSpace, Partition, Solution};
use espalier::{import, reference};
use std::path::PathBuf;

fn spaces() -> Vec<(String, GalvatronSpace)> {
    let Some(root) = reference::path("galvatron") else { return Vec::new() };
    let mut cases: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("case.json").is_file())
        .collect();
    cases.sort();
    let mut out = Vec::new();
    for case in cases {
        for repairs in [Repairs::NONE, Repairs::all()] {
            let model = import::galvatron::read(&case, &[], repairs).unwrap();
            out.push((format!("{} {repairs:?}", case.display()), GalvatronSpace::new(model, Partition::Even).unwrap()));
        }
    }
    out
}

/// A generator for tests (xorshift64*, Vigna 2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn objective(space: &GalvatronSpace, x: &Solution) -> f64 {
    match space.score(x, espalier::search::problem::Fidelity::Exact) {
        Score::Feasible(s) => s,
        other => panic!("{other:?}"),
    }
}

#[test]
fn random_paths_fit_respect_their_bounds_and_are_undone_by_popping() {
    for (name, space) in spaces() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..60 {
            let mut s = space.root();
            let mut bounds = Vec::new();
            let mut trail = Vec::new();
            while let Node::Choose { options, .. } = space.node(&s) {
                assert!(options >= 1);
                bounds.push(space.bound(&s));
                let option = (random.next() % u64::from(options)) as u32;
                assert_eq!(space.nearest(&s, space.allele(&s, option)), option, "{name}");
                let mut weights = vec![-1.0; options as usize];
                space.prior(&s, &mut weights);
                assert!(weights.iter().all(|w| *w >= 0.0 && w.is_finite()) && weights.iter().any(|w| *w > 0.0));
                trail.push(format!("{s:?}"));
                space.push(&mut s, option);
            }
            assert_eq!(space.node(&s), Node::Complete, "{name}");
            let x = space.solution(&s);
            let value = objective(&space, &x);
            for bound in bounds {
                let Bound::AtLeast(bound) = bound else { panic!("{name}") };
                assert!(bound <= value, "{name}: {bound} {value}");
            }
            let price = space.price(x.task as usize, &space.plan(&x)).unwrap();
            assert!(price.fits() && (price.time_ms * 1e-3 - value).abs() <= 1e-12 * value, "{name}");
            while let Some(before) = trail.pop() {
                space.pop(&mut s);
                assert_eq!(format!("{s:?}"), before, "{name}");
            }
        }
    }
}

#[test]
fn the_optimum_is_a_path_and_alleles_lead_back_to_their_solution() {
    for (name, space) in spaces() {
        let (best, value) = space.answer().best.clone().unwrap();
        let follow = |x: &Solution| {
            let mut s = space.root();
            for allele in space.alleles(x) {
                let option = space.nearest(&s, allele);
                space.push(&mut s, option);
            }
            assert_eq!(space.node(&s), Node::Complete, "{name}");
            space.solution(&s)
        };
        // Another choice may stand for one that it equals or beats in memory, compute and reduction.
        let found = follow(&best);
        assert!(objective(&space, &found) <= value * (1.0 + 1e-12), "{name}");
        let mut random = Random(7);
        let mut x = found.clone();
        for step in 0..200 {
            let kind = step % space.kinds();
            let Some(y) = space.neighbour(&x, kind, &mut || random.next()) else { continue };
            assert_eq!(space.plan(&y).layers.len() as u32, space.model.setting.layers(), "{name}");
            if space.score(&y, espalier::search::problem::Fidelity::Exact).is_feasible() {
                assert_eq!(follow(&y), y, "{name}");
                assert!(objective(&space, &y) >= value * (1.0 - 1e-12), "{name}: better than proven");
                x = y;
            }
        }
        assert_eq!(space.key(&best), space.key(&best.clone()));
        assert!(x == best || space.key(&x) != space.key(&best));
        assert!(space.space_log10().unwrap() > 3.0, "{name}");
    }
}
