"""Counts parameters of small made-up configs with the classes of Hugging Face transformers, on torch's meta device.

Writes hf_counts.jsonl beside this file: {"config": ..., "total": n, "active": n} per line. The configs are this
project's own; the counts are what the tests hold the import to. Made with transformers 5.24.0, torch 2.15 (2026-11).
Usage: python hf_counts.py > hf_counts.jsonl
"""

import json
import random
import sys
import warnings

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

NO_TOKENS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}


def count(config):
    kind = "deepseek_v3" if config["model_type"] == "kimi_k2" else config["model_type"]
    config = dict(config, model_type=kind)
    for part in (config, config.get("text_config", {})):
        part.update(NO_TOKENS)
    built = CONFIG_MAPPING[kind].from_dict(config)
    name = (
        MODEL_FOR_MASKED_LM_MAPPING_NAMES[kind]
        if kind == "bert"
        else MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind)
        or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
        or MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES[kind]
    )
    with torch.device("meta"):
        model = getattr(transformers, name)(built)
    total = routed = 0
    for name, p in model.named_parameters():
        total += p.numel()
        if "experts." in name and "shared" not in name:
            routed += p.numel()
    text = config.get("text_config", config)
    experts = text.get("num_experts") or text.get("num_local_experts") or text.get("n_routed_experts") or 1
    top_k = text.get("num_experts_per_tok") or text.get("top_k_experts") or 1
    return total, total - routed + routed * top_k // experts


def some(rng, base, **choices):
    """A config: `base` with one value of each list of `choices`; `...` leaves the key out."""
    config = dict(base)
    for key, values in choices.items():
        value = rng.choice(values)
        if value is not ...:
            config[key] = value
    return config


BOOL = [True, False]
TIE = {"tie_word_embeddings": [True, False, ...]}
ATTENTION = {"attention_bias": [True, False, ...]}


def base(rng):
    heads = rng.choice([4, 6, 8])
    return {
        "hidden_size": heads * rng.choice([8, 12, 16]),
        "num_hidden_layers": rng.choice([1, 2, 3, 5, 7]),
        "num_attention_heads": heads,
        "num_key_value_heads": rng.choice([1, 2, heads]),
        "intermediate_size": rng.choice([40, 96, 132]),
        "vocab_size": rng.choice([100, 1001, 1999]),
        "max_position_embeddings": rng.choice([64, 128]),
    }


def experts(rng, key):
    n = rng.choice([4, 6, 8])
    return {key: n, "num_experts_per_tok": rng.choice([1, 2, 3])}


def latent(rng):
    b = base(rng)
    b["num_key_value_heads"] = b["num_attention_heads"]
    b.update(
        kv_lora_rank=rng.choice([16, 24]),
        qk_nope_head_dim=rng.choice([8, 12]),
        qk_rope_head_dim=rng.choice([4, 8]),
        v_head_dim=rng.choice([8, 14]),
        moe_intermediate_size=rng.choice([20, 36]),
        n_shared_experts=rng.choice([1, 2]),
        first_k_dense_replace=rng.randint(0, b["num_hidden_layers"]),
        n_group=1,
        topk_group=1,
        **experts(rng, "n_routed_experts"),
    )
    return b


INDEX = {"index_topk": [8], "index_head_dim": [8, 16], "index_n_heads": [2, 4]}


def linear(rng):
    b = base(rng)
    b.update(
        head_dim=rng.choice([8, 20]),
        linear_conv_kernel_dim=rng.choice([2, 4]),
        linear_key_head_dim=rng.choice([8, 12]),
        linear_value_head_dim=rng.choice([8, 16]),
        linear_num_key_heads=2,
        linear_num_value_heads=rng.choice([2, 4]),
        full_attention_interval=rng.choice([2, 3]),
    )
    return b


def gpt(rng):
    b = base(rng)
    return {
        "n_embd": b["hidden_size"],
        "n_layer": b["num_hidden_layers"],
        "n_head": b["num_attention_heads"],
        "n_positions": b["max_position_embeddings"],
        "vocab_size": b["vocab_size"],
    }


def seq2seq(rng):
    return {
        "d_model": rng.choice([32, 48]),
        "d_kv": rng.choice([8, 12]),
        "d_ff": rng.choice([40, 64]),
        "num_layers": rng.choice([1, 2, 4]),
        "num_heads": rng.choice([2, 5]),
        "vocab_size": rng.choice([100, 333]),
    }


def configs(rng):
    b = base(rng)
    square = dict(b, num_key_value_heads=b["num_attention_heads"])
    yield some(rng, b, model_type=["llama"], head_dim=[..., None, 10], mlp_bias=BOOL, **ATTENTION, **TIE)
    for kind in ("mistral", "ministral3"):
        yield some(rng, b, model_type=[kind], head_dim=[10, 24], sliding_window=[None, 16], **TIE)
    yield some(rng, b, model_type=["qwen2"], use_sliding_window=BOOL, sliding_window=[16], max_window_layers=[1], **TIE)
    yield some(rng, b, model_type=["qwen3"], head_dim=[10, 24], **ATTENTION, **TIE)
    yield some(rng, b, model_type=["phi3"], sliding_window=[None, 16], **TIE)
    yield some(rng, b, model_type=["phi"], qk_layernorm=BOOL, **TIE)
    for kind in ("glm", "glm4"):
        yield some(rng, b, model_type=[kind], head_dim=[10, 24], **ATTENTION, **TIE)
    for kind in ("gemma", "gemma2", "gemma3_text"):
        yield some(rng, b, model_type=[kind], head_dim=[10, 24], sliding_window=[16], **ATTENTION, **TIE)
    for kind in ("olmo", "olmo2", "olmo3"):
        yield some(rng, b, model_type=[kind], sliding_window=[16], **ATTENTION, **TIE)
    yield some(rng, b, model_type=["cohere"], use_qk_norm=[True, False, ...], **ATTENTION, **TIE)
    yield some(rng, b, model_type=["cohere2"], sliding_window=[16], sliding_window_pattern=[2, 4], **ATTENTION, **TIE)
    yield some(rng, b, model_type=["granite"], mlp_bias=BOOL, **ATTENTION, **TIE)
    yield some(rng, b, model_type=["smollm3"], mlp_bias=BOOL, **ATTENTION, **TIE)
    yield some(
        rng, b, model_type=["seed_oss"], head_dim=[10, 24], attention_out_bias=BOOL, mlp_bias=BOOL, **ATTENTION, **TIE
    )
    yield some(rng, b, model_type=["nemotron"], head_dim=[None, 24], mlp_bias=BOOL, **ATTENTION, **TIE)
    yield some(rng, b, model_type=["stablelm"], use_qkv_bias=BOOL, qk_layernorm=BOOL, **TIE)
    yield some(rng, b, model_type=["starcoder2"], use_bias=[True, False, ...], **TIE)
    yield some(rng, dict(b, **experts(rng, "num_local_experts")), model_type=["mixtral"], head_dim=[None, 10], **TIE)
    yield some(rng, dict(b, **experts(rng, "num_experts")), model_type=["olmoe"], **ATTENTION, **TIE)
    yield some(rng, dict(b, **experts(rng, "num_local_experts")), model_type=["granitemoe"], **ATTENTION, **TIE)
    yield some(
        rng, dict(b, **experts(rng, "num_local_experts")), model_type=["phimoe"], lm_head_bias=BOOL, **ATTENTION, **TIE
    )
    yield some(rng, dict(b, **experts(rng, "num_local_experts")), model_type=["minimax_m2"], head_dim=[10, 24], **TIE)
    steps = {"decoder_sparse_step": [1, 2], "mlp_only_layers": [[], [0]], "moe_intermediate_size": [20, 36]}
    yield some(
        rng,
        dict(b, **experts(rng, "num_experts")),
        model_type=["qwen2_moe"],
        shared_expert_intermediate_size=[24, 52],
        qkv_bias=BOOL,
        **steps,
        **TIE,
    )
    yield some(
        rng, dict(b, **experts(rng, "num_experts")), model_type=["qwen3_moe"], head_dim=[10, 24], **steps, **ATTENTION, **TIE
    )
    yield some(
        rng,
        dict(b, **experts(rng, "num_local_experts")),
        model_type=["gpt_oss"],
        head_dim=[10, 24],
        sliding_window=[16],
        **ATTENTION,
        **TIE,
    )
    layers = b["num_hidden_layers"]
    groups = {"n_group": [1], "topk_group": [1], "first_k_dense_replace": list(range(layers + 1))}
    yield some(
        rng,
        dict(b, **experts(rng, "n_routed_experts")),
        model_type=["glm4_moe"],
        head_dim=[10, 24],
        use_qk_norm=BOOL,
        n_shared_experts=[1, 2],
        moe_intermediate_size=[20, 36],
        **groups,
        **ATTENTION,
        **TIE,
    )
    yield some(
        rng,
        dict(b, **experts(rng, "n_routed_experts")),
        model_type=["dots1"],
        head_dim=[10, 24],
        n_shared_experts=[1, 2],
        moe_intermediate_size=[20, 36],
        **groups,
        **ATTENTION,
        **TIE,
    )
    yield some(
        rng,
        dict(b, **experts(rng, "num_local_experts")),
        model_type=["llama4_text"],
        head_dim=[10, 24],
        intermediate_size_mlp=[44, 88],
        interleave_moe_layer_step=[1, 2],
        attention_chunk_size=[16],
        use_qk_norm=BOOL,
        **ATTENTION,
        **TIE,
    )
    swa = dict(b, num_attention_heads=8, num_key_value_heads=rng.choice([1, 2]), **experts(rng, "n_routed_experts"))
    pattern = ["full_attention" if rng.random() < 0.5 else "sliding_attention" for _ in range(layers)]
    sparse = ["dense" if rng.random() < 0.3 else "sparse" for _ in range(layers)]
    yield some(
        rng,
        dict(swa, layer_types=pattern, mlp_layer_types=sparse, sliding_window=16, n_group=1, topk_group=1),
        model_type=["mimo_v2_flash"],
        head_dim=[12, 24],
        v_head_dim=[8, 16],
        moe_intermediate_size=[20, 36],
        **ATTENTION,
        **TIE,
    )
    yield some(rng, latent(rng), model_type=["deepseek_v2"], q_lora_rank=[None, 20], **ATTENTION, **TIE)
    for kind in ("deepseek_v3", "kimi_k2"):
        yield some(rng, latent(rng), model_type=[kind], q_lora_rank=[None, 20], **ATTENTION, **TIE)
    yield some(rng, latent(rng), model_type=["deepseek_v32"], q_lora_rank=[20, 28], **INDEX, **ATTENTION, **TIE)
    yield some(
        rng,
        latent(rng),
        model_type=["glm_moe_dsa"],
        q_lora_rank=[20, 28],
        index_topk_freq=[1, 2, 4],
        index_skip_topk_offset=[1, 2, 3],
        **INDEX,
        **ATTENTION,
        **TIE,
    )
    lite = latent(rng)
    del lite["first_k_dense_replace"]
    yield some(rng, lite, model_type=["glm4_moe_lite"], q_lora_rank=[None, 20], **ATTENTION, **TIE)
    yield some(
        rng,
        {k: v for k, v in dict(b, num_key_value_heads=1, **experts(rng, "n_routed_experts")).items() if k != "intermediate_size"},
        model_type=["deepseek_v4"],
        head_dim=[16, 32],
        qk_rope_head_dim=[8],
        q_lora_rank=[20, 28],
        o_groups=[1, 2],
        o_lora_rank=[12, 20],
        hc_mult=[1, 2, 4],
        moe_intermediate_size=[20, 36],
        n_shared_experts=[1],
        num_hash_layers=[0, 1, 3],
        sliding_window=[16],
        compress_ratios=[[rng.choice([0, 4, 128]) for _ in range(layers + 1)], ...],
        **INDEX,
        **TIE,
    )
    yield some(rng, linear(rng), model_type=["qwen3_5_text"], **ATTENTION, **TIE)
    mixed = dict(linear(rng), **experts(rng, "num_experts"), moe_intermediate_size=20)
    yield some(rng, mixed, model_type=["qwen3_5_moe_text"], shared_expert_intermediate_size=[24], **ATTENTION, **TIE)
    yield some(
        rng, mixed, model_type=["qwen3_next"], shared_expert_intermediate_size=[24], **steps, **ATTENTION, **TIE
    )
    g4 = some(
        rng,
        b,
        model_type=["gemma4_text"],
        head_dim=[10, 16],
        global_head_dim=[20, 32],
        sliding_window=[16],
        attention_k_eq_v=BOOL,
        num_global_key_value_heads=[None, 1, 2],
        hidden_size_per_layer_input=[0, 8],
        vocab_size_per_layer_input=[50, 100],
        use_double_wide_mlp=BOOL,
        **ATTENTION,
        **TIE,
    )
    if layers > 2:
        g4["layer_types"] = ["full_attention", "sliding_attention"] * layers
        g4["layer_types"] = g4["layer_types"][: layers - 1] + ["full_attention"]
        g4["num_kv_shared_layers"] = rng.randint(0, layers - 2)
    if rng.random() < 0.5:
        g4.update(enable_moe_block=True, num_experts=8, top_k_experts=rng.choice([1, 2]), moe_intermediate_size=20)
    yield g4

    yield some(rng, gpt(rng), model_type=["gpt2"], n_inner=[None, 50, ...], **TIE)
    yield some(rng, gpt(rng), model_type=["gpt_bigcode"], multi_query=[True, False, ...], n_inner=[None, 50], **TIE)
    yield some(rng, gpt(rng), model_type=["gptj"], n_inner=[None, 50], rotary_dim=[4], **TIE)
    yield some(rng, square, model_type=["gpt_neox"], use_parallel_residual=BOOL, **ATTENTION, **TIE)
    small = {k: b[k] for k in ("hidden_size", "vocab_size")}
    yield some(rng, dict(small, n_layer=layers, n_head=b["num_attention_heads"]), model_type=["bloom"], **TIE)
    falcon = dict(small, num_hidden_layers=layers, num_attention_heads=b["num_attention_heads"])
    yield some(
        rng,
        falcon,
        model_type=["falcon"],
        new_decoder_architecture=[True, False, ...],
        multi_query=[True, False, ...],
        num_kv_heads=[2, b["num_attention_heads"], ...],
        parallel_attn=[True, False, ...],
        num_ln_in_parallel_attn=[1, 2, ...],
        bias=BOOL,
        ffn_hidden_size=[50, ...],
        **TIE,
    )
    opt = dict(square, ffn_dim=44)
    del opt["intermediate_size"], opt["num_key_value_heads"]
    yield some(
        rng, opt, model_type=["opt"], word_embed_proj_dim=[16, ...], do_layer_norm_before=BOOL, enable_bias=BOOL, **TIE
    )
    yield some(rng, square, model_type=["bert"], type_vocab_size=[1, 2])
    for kind in ("t5", "mt5", "umt5"):
        yield some(
            rng,
            seq2seq(rng),
            model_type=[kind],
            num_decoder_layers=[1, 3, ...],
            feed_forward_proj=["relu", "gated-gelu", "gated-silu"],
            relative_attention_num_buckets=[8, 32, ...],
        )

    hidden = b["hidden_size"]
    qwen = {"depth": 2, "num_heads": 4, "in_channels": 3, "patch_size": rng.choice([4, 14]), "spatial_merge_size": 2}
    two = dict(qwen, embed_dim=32, hidden_size=hidden, mlp_ratio=rng.choice([2, 4]), temporal_patch_size=2)
    yield some(rng, dict(b, vision_config=two), model_type=["qwen2_vl"], **TIE)
    half = dict(qwen, hidden_size=32, intermediate_size=rng.choice([44, 60]), out_hidden_size=hidden)
    yield some(rng, dict(b, vision_config=half), model_type=["qwen2_5_vl"], **TIE)
    three = dict(half, num_position_embeddings=rng.choice([16, 64]), deepstack_visual_indexes=rng.choice([[], [0], [0, 1]]))
    tie = {"tie_word_embeddings": BOOL}
    for kind, part in (
        ("qwen3_vl", dict(b, head_dim=10, model_type="qwen3_vl_text")),
        ("qwen3_vl_moe", dict(b, head_dim=10, moe_intermediate_size=20, **experts(rng, "num_experts"))),
    ):
        yield some(rng, {"text_config": part, "vision_config": three}, model_type=[kind], **tie)
    flat = dict(three, deepstack_visual_indexes=[])
    for kind, part in (
        ("qwen3_5", linear(rng)),
        ("qwen3_5_moe", dict(mixed, shared_expert_intermediate_size=24)),
    ):
        tower = dict(flat, out_hidden_size=part["hidden_size"])
        yield some(rng, {"text_config": part, "vision_config": tower}, model_type=[kind], **tie)
    text = some(
        rng, dict(b, **experts(rng, "num_local_experts")), head_dim=[10], intermediate_size_mlp=[44], attention_chunk_size=[16]
    )
    vision = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "image_size": rng.choice([28, 56]),
        "patch_size": 14,
        "projector_input_dim": rng.choice([24, 48]),
        "projector_output_dim": 48,
        "vision_output_dim": 48,
    }
    yield some(rng, {"text_config": text}, model_type=["llama4"], vision_config=[vision, ...], **tie)
    siglip = {
        "model_type": "siglip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 44,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 224,
        "patch_size": rng.choice([14, 16]),
    }
    siglip = some(rng, siglip, vision_use_head=[True, False, ...])
    gemma = some(rng, {k: b[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers")}, sliding_window=[16])
    gemma["model_type"] = "gemma3_text"
    yield {"model_type": "gemma3", "text_config": gemma, "vision_config": siglip, "mm_tokens_per_image": 16}
    v4 = {
        "hidden_size": 32,
        "head_dim": 8,
        "intermediate_size": 44,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": rng.choice([2, 4]),
        "patch_size": rng.choice([8, 16]),
        "position_embedding_size": rng.choice([64, 100]),
        "attention_bias": rng.choice(BOOL),
        "use_clipped_linears": rng.choice(BOOL),
        "standardize": rng.choice(BOOL),
    }
    yield some(rng, {"text_config": dict(g4)}, model_type=["gemma4"], vision_config=[v4, ...], **tie)
    moon = {"hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4}
    moon.update(patch_size=14, pos_emb_height=8, pos_emb_width=rng.choice([8, 12]))
    kimi = dict(latent(rng), model_type=rng.choice(["deepseek_v3", "kimi_k2"]), q_lora_rank=20)
    yield {
        "model_type": "kimi_k25",
        "text_config": kimi,
        "vision_config": moon,
        "projection_hidden_size": 32,
        "tie_word_embeddings": rng.choice(BOOL),
    }
    pixtral = {
        "model_type": "pixtral",
        "hidden_size": 32,
        "intermediate_size": 44,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "patch_size": 14,
        "image_size": 56,
    }
    yield some(
        rng,
        {"text_config": dict(b, model_type="mistral", head_dim=10), "vision_config": pixtral},
        model_type=["mistral3"],
        multimodal_projector_bias=BOOL,
        spatial_merge_size=[1, 2],
        **tie,
    )


def main():
    rng = random.Random(20260730)
    for _ in range(ROUNDS):
        for config in configs(rng):
            stated = json.loads(json.dumps(config))
            try:
                total, active = count(json.loads(json.dumps(config)))
            except Exception as e:  # a combination that the class itself refuses
                print(stated["model_type"], repr(e)[:200], file=sys.stderr)
                continue
            print(json.dumps({"config": stated, "total": total, "active": active}, separators=(",", ":")))


ROUNDS = 4

if __name__ == "__main__":
    main()
