//! Exports of plans that are drawn from the planner's space: every target's rules accept them, and what can be read back is
//! exported again as it was.

mod plans;

use espalier::cluster::instances;
use espalier::export::galvatron::to_json;
use espalier::export::view::View;
use espalier::export::{Form, legal, megatron, write};
use espalier::import;
use espalier::import::even::Meant;
use espalier::import::galvatron::PlanFile;
use espalier::import::megatron::{Text, plan as imported};
use espalier::import::shell::Script;
use espalier::job::Job;
use espalier::plan::{Chunk, LayerStrategy, Plan};
use espalier::rules::megatron::offers::even_split;
use espalier::rules::megatron::{accepts, broken};
use espalier::rules::targets::Target;
use espalier::rules::{deepspeed, torchtitan};
use plans::drawn::{Drawn, inputs};
use plans::{Case, case};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn cases() -> Vec<Case> {
    vec![
        case("llama3-70b", "h100x8:8", 256, 8192),
        case("qwen3-30b-a3b", "h100x8:8", 512, 4096),
        case("deepseek-v3", "h100x8:32", 1024, 4096),
        case("llama3-405b", "h100x8:32", 512, 8192),
    ]
}

/// Plans drawn for each target.
const PLANS: usize = 200;

/// Calls `look` with [`PLANS`] plans of the planner's space under the rules of `target`, over all cases.
fn drawn(target: Target, seed: u64, mut look: impl FnMut(&Case, &Plan)) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let cases = cases();
    for c in &cases {
        let space = inputs(c, target).with_space(|space| {
            let mut drawn = Drawn::new(c, &space, target);
            let mut done = 0;
            for _ in 0..20_000 {
                let Some(plan) = drawn.plan(&mut random) else { continue };
                look(c, &plan);
                done += 1;
                if done == PLANS / cases.len() {
                    return;
                }
            }
            panic!("{target}: {done} plans only");
        });
        space.unwrap();
    }
}

#[test]
fn two_hundred_plans_for_megatron_are_accepted_and_read_back_the_same() {
    drawn(Target::Megatron, 7, |c, plan| {
        let view = View::new(&c.model, &c.job, &c.pool, plan).unwrap();
        let bundle = write(Form::Megatron, &view);
        let script = &bundle.files[0].text;
        // The script, not the plan, is what Megatron sees.
        let mut launch = Text::read(script).unwrap().launch(None).unwrap();
        launch.arch = Ok(9);
        let list = broken(&launch);
        assert!(list.is_empty() && accepts(&list), "{plan:?}\n{script}\n{list:?}");
        assert!(legal::broken(Target::Megatron, &view).unwrap().is_empty());
        let again = imported(&launch, &c.spine).unwrap();
        assert_eq!(again.plan, *plan, "{script}");
        let twice = write(Form::Megatron, &View::new(&c.model, &c.job, &c.pool, &again.plan).unwrap());
        assert_eq!(twice, bundle);
        assert!(
            bundle.losses.iter().all(|l| l.what.contains("attention") || l.what.contains("positions")),
            "{:?}",
            bundle.losses
        );
    });
}

/// What a configuration means for a case, exported again.
fn again(c: &Case, form: Form, meant: &Meant) -> String {
    let job = Job { mtp: c.job.mtp, ..meant.job.clone() };
    write(form, &View::new(&c.model, &job, &c.pool, &meant.plan).unwrap()).files.remove(0).text
}

#[test]
fn two_hundred_plans_for_deepspeed_are_accepted_and_exported_again_the_same() {
    drawn(Target::Deepspeed, 8, |c, plan| {
        let view = View::new(&c.model, &c.job, &c.pool, plan).unwrap();
        assert_eq!(legal::broken(Target::Deepspeed, &view).unwrap(), []);
        let text = write(Form::Deepspeed, &view).files.remove(0).text;
        let config = deepspeed::Config::parse(&text, Some(plan.devices)).unwrap();
        assert_eq!(deepspeed::BOOK.broken(&config), [], "{text}");
        assert_eq!(deepspeed::UNCHECKED.broken(&config), [], "{text}");
        let meant = import::deepspeed::meant(&config, &c.model, c.job.sequence).unwrap();
        assert_eq!(again(c, Form::Deepspeed, &meant), text);
    });
}

#[test]
fn two_hundred_plans_for_torchtitan_are_accepted_and_exported_again_the_same() {
    let mut whole = 0;
    drawn(Target::Torchtitan, 9, |c, plan| {
        let view = View::new(&c.model, &c.job, &c.pool, plan).unwrap();
        assert_eq!(legal::broken(Target::Torchtitan, &view).unwrap(), []);
        let flags = |view: &View<'_>| {
            let files = write(Form::Torchtitan, view).files;
            files.into_iter().find(|f| f.name.ends_with(".sh")).unwrap().text
        };
        let text = flags(&view);
        let script = Script::parse(&text).unwrap();
        let words = script.commands.iter().find(|words| words.iter().any(|w| w.contains("torchtitan"))).unwrap();
        let start = words.iter().position(|w| w.starts_with("--parallelism")).unwrap();
        let mut launch = torchtitan::Launch::parse(&words[start..], Some(plan.devices)).unwrap();
        launch.layers = Ok(view.layers.len() as u64);
        assert_eq!(torchtitan::BOOK.broken(&launch), [], "{text}");
        let later = torchtitan::UNCHECKED.broken(&launch);
        assert!(later.iter().all(|b| b.id == "micro_batches_fill_pipeline"), "{text}\n{later:?}");
        if write(Form::Torchtitan, &view).losses.iter().any(|l| l.what.contains("in flags")) {
            return;
        }
        whole += 1;
        let meant = import::torchtitan::meant(&launch, &c.model, None).unwrap();
        let job = Job { mtp: c.job.mtp, ..meant.job.clone() };
        assert_eq!(flags(&View::new(&c.model, &job, &c.pool, &meant.plan).unwrap()), text);
    });
    // Some numbers of stages no flag can say; the module does.
    assert!(whole > PLANS * 7 / 10, "{whole}");
}

#[test]
fn two_hundred_plans_for_galvatron_are_accepted_and_written_again_the_same() {
    let mut several = 0;
    drawn(Target::Galvatron, 10, |c, plan| {
        let view = View::new(&c.model, &c.job, &c.pool, plan).unwrap();
        assert_eq!(legal::broken(Target::Galvatron, &view).unwrap(), []);
        several += usize::from(!view.differing().is_empty());
        let text = write(Form::Galvatron, &view).files.remove(0).text;
        let read = PlanFile::parse("plan", &text).unwrap();
        assert_eq!(format!("{:#}\n", to_json(&read)), text);
        assert_eq!(read.pp_division.as_ref().map(|d| d.iter().sum::<u32>() as usize), Some(view.layers.len()));
    });
    assert!(several > PLANS / 4, "{several} plans with several strategies");
}

#[test]
fn two_hundred_plans_for_other_targets_are_accepted_and_said_in_full() {
    for (target, form, seed) in [
        (Target::Accelerate, Form::Accelerate, 11),
        (Target::Nanotron, Form::Nanotron, 12),
        (Target::Bridge, Form::Bridge, 13),
    ] {
        drawn(target, seed, |c, plan| {
            let view = View::new(&c.model, &c.job, &c.pool, plan).unwrap();
            assert_eq!(legal::broken(target, &view).unwrap(), [], "{target}: {plan:?}");
            let bundle = write(form, &view);
            assert!(bundle.files.len() >= 2 && bundle.files.iter().all(|f| !f.text.is_empty()));
            // What the rules allow, the files say; only how layers spread over stages may be the framework's own.
            let own = |l: &espalier::export::bundle::Loss| {
                ["stages of", "attention", "positions", "sequence parallelism"].iter().any(|word| l.what.contains(word))
            };
            assert!(bundle.losses.iter().all(own), "{target}: {:?}", bundle.losses);
        });
    }
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
