#!/usr/bin/env python3
"""Asks the frameworks' own parsers about exported folders: `check_exports.py FOLDER..`.

A folder holds what `espalier export -o` wrote. Needs torch with deepspeed 0.19.8, torchtitan 0.3.0 (--no-deps) and
accelerate 1.15.0; Megatron-LM is asked by `ask_megatron.py` with the lines that --megatron prints. No GPU, nothing runs.
"""

import json
import os
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

os.environ.setdefault("DS_ACCELERATOR", "cpu")


def megatron_arguments(folder):
    """What torchrun would get, with its number of ranks: the script is run by bash with torchrun printing its words."""
    script = 'torchrun() { printf "%s\\0" "$@"; }; source ' + str(folder / "megatron.sh")
    words = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    world = int(words[words.index("--nnodes") + 1]) * int(words[words.index("--nproc-per-node") + 1])
    exported = re.findall(r"^export (\w+)=(\S+)", (folder / "megatron.sh").read_text(), re.M)
    # TransformerEngine, which has the fused rotary embedding, is not installed here.
    words.append("--no-rope-fusion")
    return {"id": folder.name, "world": world, "arch": 9, "env": dict(exported), "args": words[words.index("pretrain_gpt.py") + 1 :]}


def world_of(folder):
    return sum(1 for line in (folder / "ranks.tsv").read_text().splitlines() if line[:1].isdigit())


def deepspeed(folder):
    import deepspeed.comm
    from deepspeed.runtime.config import DeepSpeedConfig

    # Without a process group it would take the world for 1.
    deepspeed.comm.get_rank = lambda *_: 0
    config = json.loads((folder / "ds_config.json").read_text())
    ways = config.get("tensor_parallel", {}).get("autotp_size", 1) * config.get("pipeline", {}).get("stages", 1)
    ways *= config.get("sequence_parallel_size", 1)
    ranks = world_of(folder) // ways
    mpu = types.SimpleNamespace(get_data_parallel_world_size=lambda: ranks, get_global_rank=lambda: 0)
    DeepSpeedConfig(config, mpu=mpu)


def torchtitan(folder):
    from torchtitan.distributed.parallel_dims import ParallelDims

    p = runpy.run_path(str(folder / "torchtitan_plan.py"))["PARALLELISM"]
    ParallelDims(
        dp_replicate=p.data_parallel_replicate_degree,
        dp_shard=p.data_parallel_shard_degree,
        cp=p.context_parallel_degree,
        tp=p.tensor_parallel_degree,
        pp=p.pipeline_parallel_degree,
        ep=p.expert_parallel_degree,
        world_size=world_of(folder),
    )


def accelerate(folder):
    import yaml
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.parallelism_config import ParallelismConfig

    path = str(folder / "accelerate.yaml")
    load_config_from_file(path)
    fields = yaml.safe_load(Path(path).read_text())
    mesh = {key.removeprefix("parallelism_config_"): n for key, n in (fields.get("parallelism_config") or {}).items()}
    if mesh:
        accelerator = types.SimpleNamespace(
            num_processes=world_of(folder),
            multi_device=True,
            is_fsdp2="fsdp_config" in fields,
            is_main_process=False,
            distributed_type=fields["distributed_type"],
        )
        ParallelismConfig(**mesh)._validate_accelerator(accelerator)


CHECKS = {"ds_config.json": deepspeed, "torchtitan_plan.py": torchtitan, "accelerate.yaml": accelerate}


def main():
    folders = [Path(a) for a in sys.argv[1:] if a != "--megatron"]
    if "--megatron" in sys.argv:
        for folder in folders:
            print(json.dumps(megatron_arguments(folder)))
        return
    counts = {}
    for folder in folders:
        for name, check in CHECKS.items():
            if not (folder / name).exists():
                continue
            passed, failed = counts.setdefault(check.__name__, [0, 0])
            try:
                check(folder)
                counts[check.__name__] = [passed + 1, failed]
            except Exception as error:  # noqa: BLE001 every framework has its own errors
                counts[check.__name__] = [passed, failed + 1]
                print(f"{folder}: {check.__name__}: {type(error).__name__}: {str(error)[:300]}")
    print(json.dumps({name: {"accepted": p, "refused": f} for name, (p, f) in counts.items()}))


if __name__ == "__main__":
    main()
