#!/usr/bin/env python3
"""Asks the real Megatron-LM (PyPI: megatron-core >= 0.19.2, with torch) whether it accepts launches.

Reads JSON lines {"id", "world", "arch", "env", "args"} on standard input and writes one line each:
{"id", "ok", "stage", "message"} or {"id", "ok", "dp", "edp", "vp", "microbatches", "layers", "sp", "ffn"}.
Needs no GPU: three device queries are answered here, TransformerEngine is taken to be there. No launch is ever run.
"""

import json
import os
import sys
import types
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch  # noqa: E402

ARCH = 9
torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=ARCH, minor=0, total_memory=80 << 30)
torch.cuda.get_device_capability = lambda *_: (ARCH, 0)
torch.cuda.current_device = lambda: 0

import megatron.core.utils as core_utils  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.transformer import transformer_config  # noqa: E402
from megatron.core.transformer.transformer_block import get_num_layers_to_build  # noqa: E402
from megatron.training import arguments  # noqa: E402
from megatron.training.argument_utils import core_transformer_config_from_args  # noqa: E402

for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("megatron") and hasattr(module, "is_te_min_version"):
        module.is_te_min_version = lambda *_a, **_k: True


def judge(case):
    """One launch, in a process of its own."""
    global ARCH
    ARCH = case.get("arch", 9)
    env = {"CUDA_DEVICE_MAX_CONNECTIONS": "1", **case.get("env", {})}
    for key, value in env.items():
        os.environ.pop(key, None)
        if value is not None:
            os.environ[key] = value
    os.environ["WORLD_SIZE"] = str(case["world"])
    os.environ["RANK"] = "0"
    sys.argv = ["pretrain_gpt.py", *case["args"]]
    stage = "parse_args"
    try:
        args = arguments.parse_args()
        stage = "validate_args"
        arguments.validate_args(args)
        stage = "transformer_config"
        config = core_transformer_config_from_args(args)
        stage = "groups"
        from torch.testing._internal.distributed.fake_pg import FakeStore

        torch.distributed.init_process_group("fake", rank=0, world_size=case["world"], store=FakeStore())
        dense = args.tensor_model_parallel_size * args.pipeline_model_parallel_size * args.context_parallel_size
        expert = args.expert_tensor_parallel_size * args.expert_model_parallel_size * args.pipeline_model_parallel_size
        expert *= getattr(args, "expert_gtp_weight_remat_size", 1)
        if case["world"] % expert:
            raise RuntimeError(f"world_size ({case['world']}) is not divisible by expert size {expert}")
        if case["world"] <= 64:
            parallel_state.initialize_model_parallel(
                tensor_model_parallel_size=args.tensor_model_parallel_size,
                pipeline_model_parallel_size=args.pipeline_model_parallel_size,
                virtual_pipeline_model_parallel_size=args.virtual_pipeline_model_parallel_size,
                context_parallel_size=args.context_parallel_size,
                expert_model_parallel_size=args.expert_model_parallel_size,
                expert_tensor_parallel_size=args.expert_tensor_parallel_size,
                create_gloo_process_groups=False,
            )
        stage = "build"
        pipeline, virtual = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size
        parallel_state.get_virtual_pipeline_model_parallel_world_size = lambda: virtual
        layers = []
        for rank in range(pipeline):
            parallel_state.get_pipeline_model_parallel_rank = lambda rank=rank: rank
            chunks = range(virtual) if virtual else [None]
            layers.append([get_num_layers_to_build(config, vp_stage=v, pp_rank=rank) for v in chunks])
        if config.num_moe_experts is not None and isinstance(config.moe_layer_freq, list):
            assert len(config.moe_layer_freq) == config.num_layers, "Invalid length of moe_layer_pattern"
        stage = "schedule"
        micro = args.global_batch_size // (args.micro_batch_size * args.data_parallel_size)
        if virtual and pipeline > 1:
            group = config.microbatch_group_size_per_vp_stage
            if group > micro or group < pipeline:
                raise ValueError(f"group {group} must be in {pipeline}..{micro}")
            if 0 < micro % group < pipeline:
                raise RuntimeError(f"the last group of {micro % group} is smaller than {pipeline}")
        return {
            "ok": True,
            "dp": args.data_parallel_size,
            "edp": case["world"] // expert,
            "vp": virtual,
            "microbatches": micro,
            "layers": layers,
            "sp": bool(args.sequence_parallel),
            "ffn": args.ffn_hidden_size,
        }
    except BaseException as error:  # noqa: BLE001 argparse exits, assertions have many types
        return {"ok": False, "stage": stage, "message": f"{type(error).__name__}: {error}"[:300]}


def main():
    real, sink = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    for line in sys.stdin:
        case = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                json.dump(judge(case), out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            verdict = json.load(answer)
        os.waitpid(child, 0)
        os.write(real, (json.dumps({"id": case["id"], **verdict}) + "\n").encode())


if __name__ == "__main__":
    main()
