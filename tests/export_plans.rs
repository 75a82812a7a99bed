//! Exports of plans: what Megatron's lines say is accepted by its rules and reads back as the same plan.

mod plans;

use espalier::cluster::instances;
use espalier::export::view::View;
use espalier::export::{Form, legal, megatron, write};
use espalier::import::megatron::{Text, plan as imported};
use espalier::job::Job;
use espalier::plan::{Chunk, LayerStrategy, Plan, Recompute, validate};
use espalier::rules::megatron::offers::even_split;
use espalier::rules::megatron::{accepts, broken};
use espalier::rules::targets::Target;
use espalier::space::strategies::Divisors;
use plans::{Case, adapted, case, even_plan};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn cases() -> Vec<Case> {
    vec![
        case("llama3-70b", "h100x8:8", 256, 8192),
        case("qwen3-30b-a3b", "h100x8:8", 512, 4096),
        case("deepseek-v3", "h100x8:32", 1024, 4096),
        case("llama3-405b", "h100x8:32", 512, 8192),
    ]
}

/// A plan of one strategy over an even cut, as far as the model and the devices allow it.
fn random_plan(c: &Case, random: &mut ChaCha8Rng) -> Option<Plan> {
    let mut pick = |list: &[u32]| list[random.random_range(0..list.len())];
    let (tp, cp, pp) = (pick(&[1, 2, 4, 8]), pick(&[1, 1, 2, 4]), pick(&[1, 2, 4, 8, 16]));
    let (ep, chunks, per) = (pick(&[1, 2, 4, 8, 16]), pick(&[1, 1, 2, 3]), pick(&[1, 2]));
    let recompute = [Recompute::None, Recompute::Selective, Recompute::Full][pick(&[0, 1, 2]) as usize];
    let zero = pick(&[0, 1]) as u8;
    let stage = c.pool.devices / u64::from(pp);
    let dp = stage / u64::from(tp * cp);
    let micro_batches = c.job.global_batch / (dp * u64::from(per)).max(1);
    let chunks = if pp == 1 || !micro_batches.is_multiple_of(u64::from(pp)) { 1 } else { chunks };
    let main = LayerStrategy {
        tp,
        sequence_parallel: tp > 1,
        cp,
        ep,
        zero: if dp * u64::from(cp) > 1 { zero } else { 0 },
        recompute,
        ..LayerStrategy::PLAIN
    };
    let plan = even_plan(c, pp, chunks, micro_batches, &main)?;
    let cuts =
        (0..c.spine.parts.len()).all(|i| Divisors::of(c.spine.class_of(i), &c.job).allow(&adapted(&c.spine, i, &main)));
    if !cuts {
        return None;
    }
    validate(&plan, &c.spine, &c.job, c.pool.devices).is_ok().then_some(plan)
}

#[test]
fn two_hundred_plans_are_accepted_and_read_back_the_same() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let cases = cases();
    let mut done = 0;
    for turn in 0.. {
        let c = &cases[turn % cases.len()];
        let Some(plan) = random_plan(c, &mut random) else { continue };
        let view = View::new(&c.model, &c.job, &c.pool, &plan).unwrap();
        let bundle = write(Form::Megatron, &view);
        let script = &bundle.files[0].text;
        // The script, not the plan, is what Megatron sees.
        let mut launch = Text::read(script).unwrap().launch(None).unwrap();
        launch.arch = Ok(9);
        let list = broken(&launch);
        assert!(list.is_empty() && accepts(&list), "{plan:?}\n{script}\n{list:?}");
        assert!(legal::broken(Target::Megatron, &view).unwrap().is_empty());
        let again = imported(&launch, &c.spine).unwrap();
        assert_eq!(again.plan, plan, "{script}");
        let twice = write(Form::Megatron, &View::new(&c.model, &c.job, &c.pool, &again.plan).unwrap());
        assert_eq!(twice, bundle);
        assert!(
            bundle.losses.iter().all(|l| l.what.contains("attention") || l.what.contains("positions")),
            "{:?}",
            bundle.losses
        );
        done += 1;
        if done == 200 {
            break;
        }
    }
}

#[test]
fn every_target_takes_what_its_limits_allow_and_says_what_it_loses() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let cases = cases();
    let mut legal_plans = 0;
    for turn in 0..400 {
        let c = &cases[turn % cases.len()];
        let Some(plan) = random_plan(c, &mut random) else { continue };
        let view = View::new(&c.model, &c.job, &c.pool, &plan).unwrap();
        let forms = [
            (Form::Torchtitan, Target::Torchtitan),
            (Form::Deepspeed, Target::Deepspeed),
            (Form::Accelerate, Target::Accelerate),
            (Form::Nanotron, Target::Nanotron),
            (Form::Bridge, Target::Bridge),
            (Form::Galvatron, Target::Galvatron),
        ];
        for (form, target) in forms {
            let bundle = write(form, &view);
            assert!(bundle.files.len() >= 2 && bundle.files.iter().all(|f| !f.text.is_empty()));
            let refused = legal::broken(target, &view).unwrap();
            // What a target refuses, its export cannot say either.
            if !refused.is_empty() {
                assert!(
                    !bundle.losses.is_empty() || target == Target::Torchtitan,
                    "{target}: {refused:?} without a loss"
                );
            } else {
                legal_plans += 1;
            }
        }
    }
    assert!(legal_plans > 200, "{legal_plans}");
}

#[test]
fn layers_that_do_not_divide_are_written_out() {
    for (layers, stages, expected) in [
        (46u64, 4u64, "--decoder-first-pipeline-num-layers 11"),
        (94, 16, "--decoder-first-pipeline-num-layers 5"),
        (126, 16, "--decoder-first-pipeline-num-layers 7"),
        (61, 8, "--decoder-first-pipeline-num-layers 7"),
        (78, 8, "--decoder-first-pipeline-num-layers 9"),
    ] {
        let config = serde_json::json!({
            "model_type": "llama", "num_hidden_layers": layers, "hidden_size": 4096, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 8192,
        });
        let model = espalier::model::import::from_json("m", &config.to_string(), None).unwrap();
        let job = Job::new(64, 4096);
        let pool = instances::cluster(&format!("h100x8:{}", stages.max(8) / 8)).unwrap().pools.remove(0);
        let split = even_split(layers, stages);
        let mut first = 0u32;
        let strategy = LayerStrategy { zero: u8::from(pool.devices > stages), ..LayerStrategy::PLAIN };
        let chunks: Vec<Chunk> = split
            .iter()
            .enumerate()
            .map(|(x, n)| {
                let count = *n as u32 + u32::from(x == 0) + u32::from(x + 1 == split.len());
                first += count;
                Plan::encode(first - count, &vec![strategy; count as usize])
            })
            .collect();
        let plan = Plan {
            devices: pool.devices,
            pipeline: stages as u32,
            chunks_per_stage: 1,
            micro_batches: 64 / (pool.devices / stages),
            chunks,
        };
        let view = View::new(&model, &job, &pool, &plan).unwrap();
        let text = write(Form::Megatron, &view).files.remove(0).text;
        assert!(text.contains(expected), "{layers} over {stages}: {text}");
        let launch = megatron::launch(&view).unwrap();
        let by_rank: Vec<u64> = launch.layers_by_rank().unwrap().into_iter().flatten().collect();
        assert_eq!(by_rank, split);
        assert!(broken(&launch).is_empty(), "{:?}", broken(&launch));
    }
}
