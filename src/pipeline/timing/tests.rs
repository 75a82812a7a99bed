//! What the timing of fixed schedules promises.

use super::*;
use proptest::prelude::*;

/// The order of one device, written out: (is forward, chunk, micro-batch).
fn written_out(kind: Kind, p: usize, v: usize, m: usize, d: usize) -> Vec<(bool, usize, usize)> {
    let mut table = Vec::new();
    let (group, warmup) = match kind {
        Kind::Gpipe => (m, usize::MAX),
        Kind::OneF1B => (1, p - d - 1),
        Kind::Interleaved { group } => (group, 2 * (p - d - 1) + (v - 1) * group),
    };
    for start in (0..m).step_by(group) {
        for chunk in 0..v {
            table.extend((start..m.min(start + group)).map(|i| (chunk, i)));
        }
    }
    let warmup = warmup.min(table.len());
    let mut order: Vec<_> = table[..warmup].iter().map(|&(c, i)| (true, c, i)).collect();
    for k in 0..table.len() {
        order.extend(table.get(warmup + k).map(|&(c, i)| (true, c, i)));
        order.push((false, v - 1 - table[k].0, table[k].1));
    }
    order
}

/// The definition, executed naively: relax all start times until nothing changes. `None` when some action never starts.
fn by_definition(kind: Kind, p: usize, v: usize, m: usize, times: &StageTimes) -> Option<Vec<(f64, f64)>> {
    let orders: Vec<_> = (0..p).map(|d| written_out(kind, p, v, m, d)).collect();
    let stages = p * v;
    let mut end = std::collections::BTreeMap::new();
    let mut result = vec![(0.0, 0.0); p];
    loop {
        let before = end.len();
        for (d, order) in orders.iter().enumerate() {
            let mut clock = 0.0f64;
            for (position, &(is_forward, chunk, i)) in order.iter().enumerate() {
                let x = chunk * p + d;
                let input = if is_forward {
                    if x == 0 {
                        Some(0.0)
                    } else {
                        end.get(&(true, x - 1, i)).map(|t: &f64| *t + times.hop_forward[x - 1])
                    }
                } else if x + 1 == stages {
                    end.get(&(true, x, i)).copied()
                } else {
                    end.get(&(false, x + 1, i)).map(|t| t + times.hop_backward[x])
                };
                let Some(input) = input else { break };
                if position == 0 {
                    result[d].0 = input;
                }
                clock = clock.max(input) + if is_forward { times.forward[x] } else { times.backward[x] };
                end.insert((is_forward, x, i), clock);
                result[d].1 = clock;
            }
        }
        if end.len() == 2 * stages * m {
            return Some(result);
        }
        if end.len() == before {
            return None;
        }
    }
}

fn kinds() -> impl Strategy<Value = (Kind, usize, usize, usize)> {
    (1usize..=8, 1usize..=4, 1usize..=32, 0usize..3, 0usize..5).prop_map(|(p, v, m, kind, more)| match kind {
        0 => (Kind::Gpipe, p, v, m),
        1 => (Kind::OneF1B, p, 1, m),
        _ => (Kind::Interleaved { group: (p + more).saturating_sub(1).max(1) }, p, v, m),
    })
}

fn unequal() -> impl Strategy<Value = (Kind, usize, usize, usize, StageTimes)> {
    kinds().prop_flat_map(|(kind, p, v, m)| {
        let stages = p * v;
        let list = |scale: f64| proptest::collection::vec((0.0..1.0f64).prop_map(move |t| scale * t * t * t), stages);
        (list(10.0), list(20.0), (list(1.0), list(1.0)), prop_oneof![Just(0.0), Just(0.3), Just(8.0)]).prop_map(
            move |(forward, backward, (hf, hb), scale)| {
                let hops = |list: &[f64]| list[..stages - 1].iter().map(|t| t * scale).collect();
                (kind, p, v, m, StageTimes { forward, backward, hop_forward: hops(&hf), hop_backward: hops(&hb) })
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_simulation_is_the_definition_and_no_bound_exceeds_it((kind, p, v, m, times) in unequal()) {
        let expected = by_definition(kind, p, v, m, &times);
        match simulate(kind, p, v, m, &times) {
            Ok(timeline) => {
                let expected = expected.expect("simulated what deadlocks");
                for (device, (first, last)) in timeline.devices.iter().zip(&expected) {
                    prop_assert!((device.first_start - first).abs() <= 1e-9 && (device.last_end - last).abs() <= 1e-9);
                }
                let bound = lower_bound(kind, p, v, m, &times).unwrap();
                prop_assert!(bound <= timeline.makespan, "{bound} > {}", timeline.makespan);
                let work = timeline.devices.iter().map(|d| d.busy).fold(0.0, f64::max);
                prop_assert!(bound >= work * (1.0 - 1e-9));
                if kind == Kind::Gpipe && v == 1 {
                    prop_assert!(bound >= timeline.makespan * (1.0 - 1e-9));
                }
            }
            Err(error) => {
                let deadlocks = matches!(error, TimingError::Deadlock { .. });
                prop_assert!(deadlocks, "{error}");
                prop_assert!(expected.is_none());
            }
        }
    }

    #[test]
    fn live_activations_are_those_of_the_written_order((kind, p, v, m) in kinds(), seed in 0u64..1000) {
        let weights: Vec<f64> = (0..v).map(|c| 1.0 + ((seed >> (2 * c)) % 4) as f64).collect();
        for d in 0..p {
            let (mut live, mut peak, mut peak_sum) = (vec![0usize; v], vec![0usize; v], 0.0f64);
            for (is_forward, chunk, _) in written_out(kind, p, v, m, d) {
                if is_forward { live[chunk] += 1 } else { live[chunk] -= 1 }
                peak[chunk] = peak[chunk].max(live[chunk]);
                peak_sum = peak_sum.max(live.iter().zip(&weights).map(|(&n, w)| n as f64 * w).sum());
            }
            prop_assert_eq!(in_flight(kind, p, v, m, d).unwrap(), peak.clone());
            prop_assert_eq!(peak_live(kind, p, v, m, d, &weights).unwrap(), peak_sum);
            if kind == Kind::OneF1B {
                prop_assert_eq!(peak[0], m.min(p - d));
            }
        }
    }
}

#[test]
fn uniform_stages_give_the_published_bubbles() {
    // Narayanan 2021, section 2.2: (p-1)/m of the ideal time, divided by v when interleaved; (p-1)/(m v + p-1) of all.
    for (p, m, v, over_ideal, of_total) in
        [(4, 8, 1, 0.375, 0.2727), (4, 8, 2, 0.1875, 0.1579), (8, 32, 4, 0.0547, 0.0519)]
    {
        let kind = if v == 1 { Kind::OneF1B } else { Kind::Interleaved { group: p } };
        let (f, b) = (1.0 / v as f64, 2.0 / v as f64);
        let times = StageTimes::uniform(p * v, f, b);
        let timeline = simulate(kind, p, v, m, &times).unwrap();
        let ideal = m as f64 * 3.0;
        assert!((timeline.makespan / ideal - 1.0 - over_ideal).abs() < 5e-5);
        assert!((timeline.bubble() - of_total).abs() < 5e-5);
        assert!((lower_bound(kind, p, v, m, &times).unwrap() - timeline.makespan).abs() < 1e-9);
    }
    for kind in [Kind::Gpipe, Kind::OneF1B] {
        assert_eq!(simulate(kind, 4, 1, 8, &StageTimes::uniform(4, 1.0, 2.0)).unwrap().makespan, 33.0);
    }
}

/// Four devices, twelve layers of width 4096 on 2048 tokens, 150 TFLOP/s, 250 GB/s inside a pair, 10 Gb/s between pairs.
#[test]
fn a_slow_link_delays_the_steady_state_of_1f1b_by_its_round_trip() {
    let (hidden, tokens) = (4096.0, 2048.0);
    let forward_flops = 24.0 * hidden * hidden * tokens + 4.0 * tokens * tokens * hidden;
    let tensor = hidden * tokens * 2.0;
    let (fast, slow) = (tensor / 250e9, tensor / 1.25e9);
    // Six layers on a pair: two all-reduces of the tensor per layer and pass, each 2(n-1)/n = 1 tensor over the pair.
    let pair = 6.0 * (forward_flops / 2.0 / 150e12 + 2.0 * fast);
    let pairs = StageTimes {
        forward: vec![pair; 2],
        backward: vec![pair + 6.0 * forward_flops / 2.0 / 150e12; 2],
        hop_forward: vec![slow],
        hop_backward: vec![slow],
    };
    let single = 3.0 * forward_flops / 150e12;
    let singles = StageTimes {
        forward: vec![single; 4],
        backward: vec![2.0 * single; 4],
        hop_forward: vec![fast, slow, fast],
        hop_backward: vec![fast, slow, fast],
    };
    for (m, ms_pairs, ms_singles) in [(4, 330.0, 429.0), (8, 604.0, 697.0), (16, 1153.0, 1234.0), (64, 4448.0, 4451.0)]
    {
        for (times, ms) in [(&pairs, ms_pairs), (&singles, ms_singles)] {
            let p = times.forward.len();
            let makespan = simulate(Kind::OneF1B, p, 1, m, times).unwrap().makespan * 1e3;
            assert!((makespan - ms).abs() < 0.6, "p={p} m={m}: {makespan} ms, expected {ms} ms");
            let bound = lower_bound(Kind::OneF1B, p, 1, m, times).unwrap() * 1e3;
            assert!(bound <= makespan && bound > 0.99 * makespan, "p={p} m={m}: bound {bound} of {makespan}");
        }
    }
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let times = StageTimes::uniform(4, 1.0, 2.0);
    assert_eq!(simulate(Kind::OneF1B, 0, 1, 8, &times), Err(TimingError::Zero { what: "devices" }));
    assert_eq!(simulate(Kind::OneF1B, 2, 2, 8, &times), Err(TimingError::Chunks { chunks: 2 }));
    assert!(matches!(simulate(Kind::Gpipe, 5, 1, 8, &times), Err(TimingError::Length { field: "forward", .. })));
    let nan = StageTimes { backward: vec![1.0, f64::NAN, 1.0, 1.0], ..times };
    assert!(matches!(simulate(Kind::Gpipe, 4, 1, 8, &nan), Err(TimingError::Time { field: "backward", index: 1, .. })));
    assert_eq!(in_flight(Kind::OneF1B, 4, 1, 8, 4), Err(TimingError::Device { device: 4, devices: 4 }));
}
