//! Every dimension of the space is the planner's choice on some shipped question.

mod planning;

use espalier::plan::{LayerStrategy, PartKind, Plan, Recompute, Spine};
use espalier::space::planner::{Watch, plan};
use planning::named;

struct Chosen {
    plan: Plan,
    spine: Spine,
    batch: u64,
}

impl Chosen {
    fn of(stem: &str) -> Self {
        let inputs = named(stem);
        let answer = plan(&inputs, Watch::default()).unwrap_or_else(|e| panic!("{stem}: {e}"));
        assert!(answer.fits, "{stem}");
        Self { plan: answer.plan, spine: Spine::new(&inputs.model, &inputs.job), batch: inputs.job.global_batch }
    }

    fn parts(&self) -> Vec<(PartKind, LayerStrategy)> {
        let chunks = self.plan.chunks.iter().flat_map(|c| c.parts());
        chunks.map(|(i, s)| (self.spine.class_of(i).kind, *s)).collect()
    }

    fn some_layer(&self, test: impl Fn(&LayerStrategy) -> bool) -> bool {
        self.parts().iter().any(|(kind, s)| *kind == PartKind::Layer && test(s))
    }

    /// Whether embedding or head are cut otherwise than the layers.
    fn ends_of_their_own(&self) -> bool {
        let mesh = |s: &LayerStrategy| (s.tp, s.ulysses, s.cp);
        let parts = self.parts();
        let is_layers = |s: &LayerStrategy| parts.iter().any(|p| p.0 == PartKind::Layer && mesh(&p.1) == mesh(s));
        parts.iter().any(|(kind, s)| matches!(kind, PartKind::Embedding | PartKind::Head) && !is_layers(s))
    }

    /// Whether stages hold unlike numbers of layers.
    fn uneven(&self) -> bool {
        let p = self.plan.pipeline as usize;
        let layers = |s: usize| {
            let chunks = self.plan.chunks.iter().skip(s).step_by(p);
            chunks.flat_map(|c| c.parts()).filter(|(i, _)| self.spine.class_of(*i).kind == PartKind::Layer).count()
        };
        (1..p).any(|s| layers(s) != layers(0))
    }

    /// Sequences of a rank in one micro-batch.
    fn sequences(&self) -> u64 {
        let ways = self.parts()[1].1.layout().model_ways();
        self.batch / self.plan.micro_batches / (self.plan.stage_devices() / ways)
    }
}

#[test]
fn every_dimension_is_chosen_on_a_shipped_question() {
    let pairs = Chosen::of("four_devices");
    assert!(pairs.some_layer(|s| s.tp > 1 && s.sequence_parallel && s.zero == 0), "tp, sp, ZeRO-0");
    assert!(pairs.plan.pipeline > 1, "pp");

    let documents = Chosen::of("llama3_8b_128k_16xh100");
    assert!(documents.some_layer(|s| s.ulysses > 1 && s.cp > 1 && s.recompute == Recompute::None), "Ulysses, cp");

    let small_memory = Chosen::of("llama2_13b_16xa100_40");
    assert!(small_memory.some_layer(|s| s.zero == 3), "ZeRO-3");
    assert!(small_memory.some_layer(|s| s.recompute == Recompute::Selective), "selective recomputation");

    let experts = Chosen::of("qwen3_30b_a3b_64xh100");
    assert!(experts.some_layer(|s| s.ep > 1), "ep");
    assert!(experts.some_layer(|s| s.recompute == Recompute::Full), "full recomputation");
    assert!(experts.plan.chunks_per_stage > 1, "vpp");
    assert!(experts.ends_of_their_own(), "embedding and head");
    assert!(experts.uneven(), "uneven stages");
    assert!(experts.sequences() > 1, "micro-batches of several sequences: {}", experts.sequences());

    let cut_experts = Chosen::of("mixtral_8x22b_64k_64xh100");
    assert!(cut_experts.some_layer(|s| s.ep > 1 && s.etp > 1), "etp");

    let default = Chosen::of("llama3_70b_64xh100");
    assert!(default.some_layer(|s| s.zero == 1) && default.some_layer(|s| s.zero == 2), "ZeRO-1, ZeRO-2");
    assert!(default.plan.uniform(&default.spine).is_none(), "unlike layers");
}
