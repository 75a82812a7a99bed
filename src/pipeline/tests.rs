//! What simulator, validity, list scheduler, bounds and exact search promise, and to each other.

use super::bounds::{Backward, bounds};
use super::decode::{Decoder, StagePolicy};
use super::dsl::Question;
use super::evaluate::{Evaluator, Worth};
use super::exact::certify;
use super::generators::shipped;
use super::timing::{self, StageTimes};
use super::*;
use proptest::prelude::*;

fn named(name: &str, p: usize, m: usize) -> Schedule {
    shipped(name, &Question::new(p, m)).unwrap()
}

fn unit_costs(schedule: &Schedule, hop: f64) -> Costs {
    Costs::table(&schedule.placement, &schedule.flags, 1.0, 1.0, 1.0, hop)
}

#[test]
fn named_schedules_have_their_textbook_makespans() {
    // Four devices, eight micro-batches, F = B = W = 1.
    for (name, makespan, span, first_peak) in [
        ("gpipe", 33.0, 33.0, 8.0),
        ("1f1b", 33.0, 33.0, 4.0),
        ("interleaved_1f1b", 28.5, 28.5, 5.5),
        ("zb_h1", 27.0, 27.0, 4.0),
        ("zb_h2", 27.0, 24.0, 7.0),
        ("looped_bfs", 28.5, 28.5, 8.0),
    ] {
        let schedule = named(name, 4, 8);
        let run = simulate(&schedule, &unit_costs(&schedule, 0.0)).unwrap();
        assert_eq!((run.makespan, run.span, run.peaks[0].value), (makespan, span, first_peak), "{name}");
    }
    assert!(named("zb_h1", 4, 8).splits_backward() && !named("1f1b", 4, 8).splits_backward());
}

#[test]
fn pairs_run_one_after_the_other_or_jointly() {
    // torch's visualiser gives the overlapped pair its own width of F + BW: 54 steps where two passes in turn take 51.
    let schedule = named("dualpipe_v", 4, 8);
    let mut costs = Costs::table(&schedule.placement, &schedule.flags, 2.0, 2.0, 2.0, 0.0);
    let makespan = |costs: &Costs| simulate(&schedule, costs).unwrap().makespan;
    assert_eq!(makespan(&costs), 51.0);
    costs.pairing = Pairing::Joint { overlap: 0.0 };
    assert_eq!(makespan(&costs), 54.0);
    costs.pairing = Pairing::Joint { overlap: 1.0 };
    assert!(makespan(&costs) < 45.0);
    let lowest = bounds(&schedule.placement, &schedule.flags, &costs, 8, Backward::Split).makespan.time;
    assert!(lowest <= makespan(&costs));
}

#[test]
fn dualpipe_keeps_one_more_activation_than_1f1b_and_less_bubble() {
    let schedule = named("dualpipe", 8, 32);
    let run = simulate(&schedule, &unit_costs(&schedule, 0.0)).unwrap();
    let one = named("1f1b", 8, 32);
    let reference = simulate(&one, &unit_costs(&one, 0.0)).unwrap();
    // DualPipe's table: activations of PP + 1 micro-batches.
    assert_eq!(run.peak_memory(), 9.0);
    assert!(run.bubble() < 0.6 * reference.bubble(), "{} {}", run.bubble(), reference.bubble());
}

#[test]
fn three_forwards_and_one_backward_fill_the_pipeline() {
    let schedule = named("3f1b", 4, 16);
    let run = simulate(&schedule, &unit_costs(&schedule, 0.0)).unwrap();
    // Work of one device: 16 micro-batches of three forwards and B + W.
    assert!(run.busy.iter().all(|busy| *busy == 80.0));
    assert!(run.makespan < 100.0, "{}", run.makespan);
    assert!(run.peaks.iter().all(|peak| peak.value <= 5.0));
}

#[test]
fn messages_queue_up_on_their_link() {
    // Two forwards of length 1 whose messages take 3 on the link: the second leaves when the first is through.
    let schedule = named("gpipe", 2, 2);
    let mut costs = unit_costs(&schedule, 0.0);
    costs.forward_hops[0].occupancy = 3.0;
    let run = simulate(&schedule, &costs).unwrap();
    assert_eq!(run.timeline[1][0].start, 4.0);
    assert_eq!(run.timeline[1][1].start, 7.0);
    let departs: Vec<f64> = run.messages.iter().filter(|m| m.receiver == 1).map(|m| m.departs).collect();
    assert_eq!(departs, [1.0, 4.0]);
}

#[test]
fn rendezvous_sends_cost_the_prefetch_and_blocking_ones_can_deadlock() {
    let with = |name: &str, sends: Sends| {
        let schedule = named(name, 4, 8);
        let mut costs = unit_costs(&schedule, 0.5);
        costs.sends = sends;
        simulate(&schedule, &costs).map(|run| run.makespan)
    };
    for name in ["gpipe", "1f1b", "zb_h1", "interleaved_1f1b"] {
        let (eager, rendezvous) = (with(name, Sends::Eager).unwrap(), with(name, Sends::Rendezvous).unwrap());
        assert!(eager <= rendezvous, "{name}");
    }
    // In a V one link carries forwards and backwards, and its receiver takes them in another order than they are sent.
    let Err(PipelineError::Invalid(Fault::Deadlock { cycle })) = with("zb_v", Sends::Rendezvous) else {
        panic!("ZB-V needs buffers");
    };
    assert_is_cycle(&cycle);
    assert!(with("gpipe", Sends::Blocking).unwrap() >= with("gpipe", Sends::Rendezvous).unwrap());
    // Each of two neighbours hands over before it takes: the crossed sends of 1F1B.
    let Err(PipelineError::Invalid(Fault::Deadlock { cycle })) = with("1f1b", Sends::Blocking) else {
        panic!("1F1B with blocking sends should deadlock");
    };
    assert_is_cycle(&cycle);
}

#[test]
fn a_receiver_that_takes_messages_in_another_order_deadlocks_with_rendezvous_only() {
    let mut schedule = named("gpipe", 2, 2);
    schedule.orders[1].swap(0, 1);
    schedule.orders[1].swap(2, 3);
    let mut costs = unit_costs(&schedule, 0.5);
    assert!(simulate(&schedule, &costs).is_ok());
    costs.sends = Sends::Rendezvous;
    assert!(matches!(simulate(&schedule, &costs), Err(PipelineError::Invalid(Fault::Deadlock { .. }))));
}

fn assert_is_cycle(cycle: &[validate::Wait]) {
    assert!(!cycle.is_empty());
    for (i, wait) in cycle.iter().enumerate() {
        assert_eq!(wait.on, cycle[(i + 1) % cycle.len()].device, "{cycle:?}");
    }
}

#[test]
fn a_deadlock_is_reported_with_its_cycle() {
    let mut schedule = named("1f1b", 2, 2);
    // Device 0 wants a backward before the forward that device 1 waits for.
    schedule.orders[0] = [(Pass::F, 0), (Pass::BW, 0), (Pass::F, 1), (Pass::BW, 1)]
        .map(|(pass, i)| Step::One(Action::new(pass, 0, i)))
        .to_vec();
    schedule.orders[1] = [(Pass::F, 1), (Pass::F, 0), (Pass::BW, 0), (Pass::BW, 1)]
        .map(|(pass, i)| Step::One(Action::new(pass, 1, i)))
        .to_vec();
    let Err(Fault::Deadlock { cycle }) = validate(&schedule) else { panic!("should deadlock") };
    assert_is_cycle(&cycle);
    let text = Fault::Deadlock { cycle }.to_string();
    assert!(text.contains("device 0 at 0BW0 waits for 1B0 on device 1"), "{text}");
    assert!(text.contains("device 1 at 1F1 waits for 0F1 on device 0"), "{text}");
}

#[test]
fn every_kind_of_fault_is_named_with_its_place() {
    let good = named("zb_h1", 2, 2);
    let fault = |change: &dyn Fn(&mut Schedule)| {
        let mut schedule = good.clone();
        change(&mut schedule);
        validate(&schedule).unwrap_err().to_string()
    };
    let one = |pass, x, i| Step::One(Action::new(pass, x, i));
    assert!(fault(&|s| s.orders[0][1] = one(Pass::F, 7, 0)).contains("stages are 0 to 1"));
    assert!(fault(&|s| s.orders[0][1] = one(Pass::F, 1, 0)).contains("stage 1 is on device 1"));
    assert!(fault(&|s| s.orders[0][1] = one(Pass::F, 0, 2)).contains("0F2: micro-batches of this stage are 0 to 1"));
    assert!(fault(&|s| s.orders[0][1] = one(Pass::F, 0, 0)).contains("0F0 was done at step 0 already"));
    assert!(fault(&|s| s.orders[0].push(one(Pass::BW, 0, 0))).contains("0BW0 was done"));
    assert!(fault(&|s| s.orders[0].truncate(5)).contains("0W1 is missing"));
    assert!(fault(&|s| s.orders[1].swap(0, 1)).contains("1B0 before 1F0"));
    assert!(fault(&|s| s.orders[0].swap(2, 3)).contains("0W0 before 0B0"));
    assert!(fault(&|s| s.orders.truncate(1)).contains("found 1 lists of steps, expected 2"));
    assert!(fault(&|s| s.flags[0].forward_only = true).contains("runs forward only"));
    let pair = Step::Pair { forward: Action::new(Pass::F, 0, 0), backward: Action::new(Pass::W, 0, 0) };
    assert!(fault(&|s| s.orders[0][0] = pair).contains("a pair is one F with one B or BW"));
    let costs = unit_costs(&good, 0.0).with_limit(1.5);
    let text = simulate(&good, &costs).unwrap_err().to_string();
    assert!(text.contains("device 0, step 1: 0F1 raises memory to 2, the limit is 1.5"), "{text}");
}

#[test]
fn recomputed_activations_live_until_the_weight_pass() {
    let mut schedule = named("zb_h2", 2, 4);
    schedule.flags[0].recompute = true;
    let mut costs = unit_costs(&schedule, 0.0);
    costs.stages[0].kept = 0.1;
    // Device 0 runs F F F B W F B W B W B W: four inputs are kept; one activation comes back at B and goes at W.
    let held = memory::profile(&schedule, &costs, 0);
    let expected = [1.0, 1.1, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.1, 1.1, 1.0, 1.0];
    assert!(held.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{held:?}");
    let run = simulate(&schedule, &costs).unwrap();
    assert_eq!(run.busy, [4.0 * 4.0, 12.0]);
}

#[test]
fn offloaded_activations_are_away_between_their_passes_and_delay_them() {
    let mut schedule = named("gpipe", 1, 4);
    schedule.flags[0].offload = true;
    let mut costs = unit_costs(&schedule, 0.0);
    costs.stages[0].copy = 0.5;
    // F0 F1 F2 F3 B0 B1 B2 B3: each leaves during the next forward and comes back during the step before its backward.
    assert_eq!(memory::profile(&schedule, &costs, 0), [1.0, 2.0, 2.0, 3.0, 3.0, 2.0, 2.0, 1.0]);
    assert_eq!(simulate(&schedule, &costs).unwrap().makespan, 12.0);
    // A copy that takes longer than a step makes the step after it wait.
    costs.stages[0].copy = 3.0;
    let run = simulate(&schedule, &costs).unwrap();
    assert_eq!(run.timeline[0][2].start, 4.0);
    assert!(run.makespan > 12.0);
}

#[test]
fn slack_is_zero_along_a_chain_from_start_to_end() {
    let schedule = named("1f1b", 4, 8);
    let run = simulate(&schedule, &unit_costs(&schedule, 0.25)).unwrap();
    let slack = slack::slack(&schedule, &run);
    let critical: f64 = run
        .timeline
        .iter()
        .flatten()
        .zip(slack.iter().flatten())
        .filter(|(_, slack)| **slack < 1e-9)
        .map(|(timed, _)| timed.end - timed.start)
        .sum();
    assert!(critical > 0.0 && slack[0][0] < 1e-9);
    // A step cannot end later than by its slack without moving the end: delaying a step with slack changes nothing.
    assert!(slack.iter().flatten().all(|slack| *slack >= 0.0 && *slack < run.makespan));
}

#[test]
fn a_summary_says_where_time_and_memory_go() {
    for (name, peak) in [("1f1b", 4.0), ("zb_v", 4.0), ("gpipe", 8.0)] {
        let schedule = named(name, 4, 8);
        let costs = unit_costs(&schedule, 0.0);
        let run = simulate(&schedule, &costs).unwrap();
        let devices = summary::summary(&schedule, &costs, &run);
        for device in &devices {
            let idle = device.idle_warm_up + device.idle_steady + device.idle_cool_down + device.idle_after;
            assert!((device.busy + idle - run.makespan).abs() < 1e-9, "{name} {device:?}");
            assert_eq!(device.held_by.iter().map(|(_, held)| held).sum::<f64>(), device.peak, "{name}");
        }
        assert_eq!(devices[0].peak, peak, "{name}");
    }
    // 1F1B, whole backwards of twice the forward: device 0 waits 9 units for its first backward and fills 3 of them.
    let schedule = named("1f1b", 4, 8);
    let costs = unit_costs(&schedule, 0.0);
    let device = &summary::summary(&schedule, &costs, &simulate(&schedule, &costs).unwrap())[0];
    assert_eq!((device.idle_warm_up, device.idle_cool_down), (6.0, 3.0));
}

#[test]
fn a_short_walk_over_policies_reaches_the_bound() {
    // Four devices, eight micro-batches, F = B = W = 1: ZB-H1's and ZB-V's memory, and V-Half's.
    for (placement, limit, best) in
        [(Placement::looped(4, 1), 4.0, 27.0), (Placement::vee(4), 4.0, 25.5), (Placement::vee(4), 3.0, 26.5)]
    {
        let costs = Costs::table(&placement, &[], 1.0, 1.0, 1.0, 0.0).with_limit(limit);
        let lowest = bounds(&placement, &[], &costs, 8, Backward::Split).makespan.time;
        let mut decoder = Decoder::new(&placement, &[], &costs, 8, Backward::Split).unwrap();
        let mut policy = vec![StagePolicy::default(); placement.stages()];
        let mut makespan = decoder.decode(&policy).unwrap().makespan;
        let mut state = 1u64;
        let mut random = |n: usize| {
            // Steele 2014, "Fast splittable pseudorandom number generators": SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % n as u64) as usize
        };
        for _ in 0..20_000 {
            let mut next = policy.clone();
            let (all, stage, gene) = (random(5) == 0, random(next.len()), random(4));
            let (phase, kind, value) = (random(3), random(3), random(9) as u32);
            for (_, rules) in next.iter_mut().enumerate().filter(|(x, _)| all || *x == stage) {
                match gene {
                    0 => rules.cap = value + 1,
                    1 => rules.due = value + 1,
                    2 => rules.hold = f64::from(value) / 4.0,
                    _ => rules.rank[phase][kind] = value as f32,
                }
            }
            let found = decoder.decode(&next).unwrap().makespan;
            if found <= makespan {
                (makespan, policy) = (found, next);
            }
        }
        assert!((lowest - best).abs() < 1e-9 && (makespan - best).abs() < 1e-9, "{makespan} {lowest} {best}");
    }
}

#[derive(Debug, Clone)]
struct Random {
    placement: Placement,
    flags: Vec<StageFlags>,
    costs: Costs,
    m: usize,
    policy: Vec<StagePolicy>,
    backward: Backward,
}

fn questions(most: usize) -> impl Strategy<Value = Random> {
    questions_on(shapes(), 1..=most)
}

fn shapes() -> impl Strategy<Value = Placement> {
    prop_oneof![
        (1usize..=5, 1usize..=3).prop_map(|(p, v)| Placement::looped(p, v)),
        (1usize..=5, 1usize..=4).prop_map(|(p, v)| Placement::wave(p, v)),
        (1usize..=4).prop_map(|p| Placement::bidirectional(2 * p)),
        proptest::collection::vec(0u32..4, 4..9).prop_map(|mut map| {
            map.splice(0..4, [3, 0, 2, 1]);
            Placement::explicit(4, map).unwrap()
        }),
    ]
}

fn questions_on(
    shape: impl Strategy<Value = Placement>,
    microbatches: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = Random> {
    (shape, microbatches, proptest::bool::ANY, proptest::bool::ANY).prop_flat_map(
        |(placement, m, fused, forward_only)| {
            let stages = placement.stages();
            let amount = || (1u32..40).prop_map(|n| f64::from(n) / 8.0);
            let stage = (amount(), amount(), amount(), amount(), 0.0..1.0f64, proptest::bool::weighted(0.2)).prop_map(
                |(forward, backward, weight, activation, share, recompute)| {
                    let cost = StageCost {
                        forward,
                        backward,
                        weight,
                        activation,
                        residue: activation * share,
                        kept: activation * 0.125,
                        copy: 0.0,
                    };
                    (cost, StageFlags { recompute, ..StageFlags::default() })
                },
            );
            let rules = (
                1u32..6,
                1u32..6,
                1u32..6,
                0.0..3.0f64,
                proptest::array::uniform3(proptest::array::uniform3(-1.0f32..1.0)),
            )
                .prop_map(|(cap, warm, due, hold, rank)| StagePolicy { cap, warm, due, hold, rank });
            let hops = proptest::collection::vec(amount(), 2 * stages);
            (
                proptest::collection::vec(stage, stages),
                hops,
                proptest::collection::vec(rules, stages),
                prop_oneof![Just(1.0), 1.0..3.0f64, Just(f64::MAX)],
            )
                .prop_map(move |(stages_of, hops, policy, tightness)| {
                    let (costs_of, mut flags): (Vec<_>, Vec<_>) = stages_of.into_iter().unzip();
                    let transfer = |latency: &f64| Transfer { latency: *latency, occupancy: 0.0 };
                    flags[0].forward_only = forward_only && placement.routes() == 1 && flags.len() > 1;
                    let least = |d: usize| -> f64 {
                        // Room for one activation of every chunk, and for the largest to come back.
                        placement.chunks(d).map(|x| costs_of[x].activation).sum::<f64>() * 2.0
                    };
                    let limit = (0..placement.devices()).map(|d| 0.5 + least(d) * f64::min(tightness, 1e6)).collect();
                    Random {
                        costs: Costs {
                            forward_hops: hops[..flags.len() - 1].iter().map(transfer).collect(),
                            backward_hops: hops[flags.len()..2 * flags.len() - 1].iter().map(transfer).collect(),
                            stages: costs_of,
                            sends: Sends::Eager,
                            pairing: Pairing::Sequential,
                            resident: vec![0.5; placement.devices()],
                            limit: Some(limit),
                        },
                        placement: placement.clone(),
                        flags,
                        m,
                        policy,
                        backward: if fused { Backward::Fused } else { Backward::Split },
                    }
                })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_policy_gives_a_valid_schedule_within_memory_that_no_bound_exceeds(random in questions(12)) {
        let Random { placement, flags, costs, m, policy, backward } = random;
        let mut decoder = Decoder::new(&placement, &flags, &costs, m, backward).unwrap();
        let decoded = decoder.decode(&policy).unwrap();
        let schedule = decoder.schedule("decoded");
        let run = simulate(&schedule, &costs).unwrap();
        prop_assert!((run.makespan - decoded.makespan).abs() < 1e-9 && (run.span - decoded.span).abs() < 1e-9);
        prop_assert_eq!(decoder.decode(&policy).unwrap(), decoded);
        let mut evaluator = Evaluator::new(&placement, &flags, &costs, m, backward).unwrap();
        let order = evaluator.order_of(&schedule).unwrap();
        prop_assert_eq!(evaluator.evaluate(&order), Worth::Runs(decoded));
        prop_assert_eq!(&evaluator.schedule_of("decoded", &order), &schedule);
        let lowest = bounds(&placement, &flags, &costs, m, backward);
        prop_assert!(lowest.makespan.time <= run.makespan, "{:?} {}", lowest.makespan, run.makespan);
        prop_assert!(lowest.span.time <= run.span, "{:?} {}", lowest.span, run.span);
        let text = dsl::to_program(&schedule).to_string();
        let again = dsl::Script::parse(&text).unwrap().build(&Question::default()).unwrap();
        prop_assert_eq!(&again.orders, &schedule.orders);
        if schedule.placement.routes() == 1 && !flags[0].forward_only {
            let file = export::torch_csv::write(&schedule).unwrap();
            let read = export::torch_csv::read("decoded", &file).unwrap();
            prop_assert_eq!(&read.schedule.orders, &schedule.orders);
            prop_assert_eq!(read.schedule.placement, schedule.placement);
        }
    }

    #[test]
    fn swapping_steps_keeps_a_schedule_valid_or_is_noticed(random in questions(6), d in 0usize..4, a in 0usize..60, b in 0usize..60) {
        let Random { placement, flags, costs, m, policy, backward } = random;
        let mut decoder = Decoder::new(&placement, &flags, &costs, m, backward).unwrap();
        decoder.decode(&policy).unwrap();
        let mut schedule = decoder.schedule("swapped");
        let device = d % schedule.orders.len();
        let steps = schedule.orders[device].len();
        prop_assume!(steps > 0);
        schedule.orders[device].swap(a % steps, b % steps);
        let mut evaluator = Evaluator::new(&placement, &flags, &costs, m, backward).unwrap();
        let order = evaluator.order_of(&schedule).unwrap();
        let relabelled = evaluator.schedule_of("relabelled", &order);
        match evaluator.evaluate(&order) {
            Worth::Stuck(_) => prop_assert!(validate(&relabelled).is_err()),
            Worth::Runs(times) => {
                let run = simulate(&relabelled, &costs).unwrap();
                prop_assert!((run.makespan - times.makespan).abs() < 1e-9);
            }
            Worth::Exceeds(_) => {
                let over = matches!(simulate(&relabelled, &costs), Err(PipelineError::Invalid(Fault::Memory { .. })));
                prop_assert!(over);
            }
        }
        match validate(&schedule) {
            Ok(()) => {
                let mut unlimited = costs.clone();
                unlimited.limit = None;
                let run = simulate(&schedule, &unlimited).unwrap();
                let lowest = bounds(&placement, &flags, &unlimited, m, backward);
                prop_assert!(lowest.makespan.time <= run.makespan);
            }
            Err(Fault::Deadlock { cycle }) => assert_is_cycle(&cycle),
            Err(Fault::Early { .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_certified_optimum_is_what_trying_every_order_finds(
        random in questions_on((1usize..=2).prop_map(|p| Placement::wave(p, 2 / p)), 2..=2),
    ) {
        let Random { placement, flags, costs, m, backward, .. } = random;
        let found = certify(&placement, &flags, &costs, m, backward, 1_000_000).unwrap();
        prop_assert!(found.is_optimal());
        let run = simulate(found.schedule.as_ref().unwrap(), &costs).unwrap();
        prop_assert!((run.makespan - found.makespan).abs() < 1e-9);
        let best = try_every_order(&placement, &flags, &costs, m, backward);
        prop_assert!((best - found.makespan).abs() < 1e-9, "{} {}", best, found.makespan);
    }

    #[test]
    fn no_decoded_schedule_beats_a_certificate(
        random in questions_on((1usize..=2, 1usize..=2).prop_map(|(p, v)| Placement::wave(p, v)), 1..=4),
    ) {
        let Random { placement, flags, costs, m, policy, backward } = random;
        let found = certify(&placement, &flags, &costs, m, backward, 20_000).unwrap();
        let mut decoder = Decoder::new(&placement, &flags, &costs, m, backward).unwrap();
        let decoded = decoder.decode(&policy).unwrap();
        prop_assert!(found.makespan <= decoded.makespan + 1e-9);
        prop_assert!(bounds(&placement, &flags, &costs, m, backward).makespan.time <= found.makespan + 1e-9);
    }
}

/// Makespan of the best of all combinations of orders, rows of micro-batches in any order.
fn try_every_order(placement: &Placement, flags: &[StageFlags], costs: &Costs, m: usize, backward: Backward) -> f64 {
    let devices = placement.devices();
    let actions = |d: usize| -> Vec<Action> {
        let passes: &[Pass] =
            if backward == Backward::Split { &[Pass::F, Pass::B, Pass::W] } else { &[Pass::F, Pass::BW] };
        let mut all = Vec::new();
        for x in placement.chunks(d) {
            for i in placement.microbatches(x, m) {
                all.extend(
                    passes.iter().filter(|p| !flags[x].forward_only || **p == Pass::F).map(|p| Action::new(*p, x, i)),
                );
            }
        }
        all
    };
    let orders: Vec<Vec<Vec<Step>>> = (0..devices).map(|d| local_orders(&actions(d), &mut Vec::new())).collect();
    let mut best = f64::INFINITY;
    let mut pick = vec![0usize; devices];
    loop {
        let steps = (0..devices).map(|d| orders[d][pick[d]].clone()).collect();
        let mut schedule = Schedule::new("tried", placement.clone(), m, steps);
        schedule.flags.copy_from_slice(flags);
        if let Ok(run) = simulate(&schedule, costs) {
            best = best.min(run.makespan);
        }
        let Some(d) = (0..devices).find(|d| pick[*d] + 1 < orders[*d].len()) else { return best };
        pick[..d].fill(0);
        pick[d] += 1;
    }
}

/// All orders in which F comes before B, B before W of the same stage and micro-batch.
fn local_orders(left: &[Action], so_far: &mut Vec<Step>) -> Vec<Vec<Step>> {
    if left.is_empty() {
        return vec![so_far.clone()];
    }
    let mut all = Vec::new();
    for (i, action) in left.iter().enumerate() {
        let same = |other: &Action| other.stage == action.stage && other.microbatch == action.microbatch;
        if left[..i].iter().any(same) {
            continue;
        }
        let mut rest = left.to_vec();
        rest.remove(i);
        so_far.push(Step::One(*action));
        all.extend(local_orders(&rest, so_far));
        so_far.pop();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn both_simulators_agree_on_the_fixed_schedules(
        p in 1usize..6, v in 1usize..4, groups in 1usize..4, kind in 0usize..3,
        times in proptest::collection::vec(0.1..5.0f64, 60),
    ) {
        let m = groups * p;
        let (kind, name, v) = match kind {
            0 => (timing::Kind::Gpipe, "looped_bfs", v),
            1 => (timing::Kind::OneF1B, "1f1b", 1),
            _ => (timing::Kind::Interleaved { group: p }, "interleaved_1f1b", v),
        };
        let question = Question { chunks: Some(v), ..Question::new(p, m) };
        let schedule = shipped(name, &question).unwrap();
        let stages = p * v;
        let part = |i: usize, n: usize| times[15 * i..15 * i + n].to_vec();
        let stage_times =
            StageTimes { forward: part(0, stages), backward: part(1, stages), hop_forward: part(2, stages - 1), hop_backward: part(3, stages - 1) };
        let mut costs = Costs::table(&schedule.placement, &schedule.flags, 0.0, 0.0, 0.0, 0.0);
        for x in 0..stages {
            costs.stages[x].forward = stage_times.forward[x];
            costs.stages[x].backward = stage_times.backward[x];
        }
        for x in 0..stages - 1 {
            // Within one device there is no hop here, and the fixed schedules take what they are given.
            let apart = f64::from(u8::from(p > 1));
            costs.forward_hops[x].latency = stage_times.hop_forward[x] * apart;
            costs.backward_hops[x].latency = stage_times.hop_backward[x] * apart;
        }
        prop_assume!(p > 1);
        let run = simulate(&schedule, &costs).unwrap();
        let timeline = timing::simulate(kind, p, v, m, &stage_times).unwrap();
        prop_assert!((run.makespan - timeline.makespan).abs() < 1e-9);
        prop_assert!((run.span - timeline.span()).abs() < 1e-9);
        for d in 0..p {
            let peak = timing::peak_live(kind, p, v, m, d, &vec![1.0 / v as f64; v]).unwrap();
            prop_assert!((run.peaks[d].value - peak).abs() < 1e-9);
        }
    }
}
