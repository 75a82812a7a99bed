#!/usr/bin/env python3
"""Runs pipeline schedules with torch.distributed.pipelining on CPU processes and compares with one process, bit by bit.

A schedule is what `espalier export FILE --to torch-csv --json` prints (CSV and stage map in one document), or a plain
compute_only CSV whose rows are the map. One process per device holds the stages that the map gives it and runs the
rows over gloo with torch's own executor; another process runs all stages alone, micro-batch by micro-batch, and sums
their gradients. The loss of every micro-batch and the gradient of every parameter must have the same bits.

Sums of floats depend on their order, so the one process sums in order of micro-batch and, where a stage of the
schedule runs its weight gradients in another order, in that order too; which of them was met is said. How many
gradients would differ had they been summed backwards is counted: none would mean that the comparison sees nothing.
"""

import argparse
import dataclasses
import importlib.util
import json
import logging
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
import time
from multiprocessing.connection import wait

WIDTH, HEADS, ROWS, TOKENS = 16, 4, 2, 5  # Of a stage's layer; sequences of a micro-batch and their length.
SEED = 20
GRACE = 2.0  # Seconds that other processes have to fail too, once one has.
ACTION = re.compile(r"(\d+)([FBIW])(\d+)")
PAIR = re.compile(r"\(([^;()]+);([^;()]+)\)OVERLAP_F_B")


class BadSchedule(Exception):
    """A file that is no schedule."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A schedule to run."""

    name: str
    text: str
    device_of_stage: tuple
    micro_batches: int
    weight_orders: tuple  # By stage: its micro-batches in the order in which their weight gradients are added.

    @property
    def ranks(self):
        return len(self.text.splitlines())

    @property
    def stages(self):
        return len(self.device_of_stage)

    @property
    def in_order(self):
        return all(list(order) == sorted(order) for order in self.weight_orders)


def read_case(path):
    """A case from an exported document or a CSV."""
    try:
        given = path.read_text()
    except OSError as error:
        raise BadSchedule(f"{path}: {error.strerror}") from error
    text, told = given, None
    if path.suffix == ".json":
        try:
            document = json.loads(given)
            text, told = document["text"], tuple(document["device_of_stage"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            expected = "expected what `espalier export --to torch-csv --json` prints"
            raise BadSchedule(f"{path}: {expected}: {error!r}") from error
    rank_of, orders, micro_batches = {}, {}, set()
    for rank, row in enumerate(text.splitlines()):
        for column, cell in enumerate(cell.strip() for cell in row.split(",")):
            pair = PAIR.fullmatch(cell)
            for part in pair.groups() if pair else filter(None, [cell]):
                action = ACTION.fullmatch(part)
                if not action:
                    raise BadSchedule(f"{path}: row {rank + 1}, cell {column + 1}: found {cell!r}, expected e.g. 2F0")
                stage, kind, micro_batch = int(action[1]), action[2], int(action[3])
                if rank_of.setdefault(stage, rank) != rank:
                    raise BadSchedule(f"{path}: row {rank + 1}: stage {stage} is on row {rank_of[stage] + 1} already")
                micro_batches.add(micro_batch)
                if kind in "BW":
                    orders.setdefault(stage, []).append(micro_batch)
    for what, found in (("stages", set(rank_of)), ("micro-batches", micro_batches)):
        if not found or found != set(range(len(found))):
            raise BadSchedule(f"{path}: the rows name the {what} {sorted(found)}, expected all from 0")
    of_rows = tuple(rank_of[stage] for stage in range(len(rank_of)))
    if told is not None and told != of_rows:
        raise BadSchedule(f"{path}: the stage map is {told}, but the rows say {of_rows}")
    weight_orders = tuple(tuple(orders.get(stage, ())) for stage in range(len(rank_of)))
    return Case(path.stem, text, of_rows, len(micro_batches), weight_orders)


def layer(kind, stage):
    """The layers of one stage, the same wherever it is built."""
    import torch
    from torch import nn

    torch.manual_seed(SEED + stage)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)


def batch(micro_batches):
    """Inputs and targets of a training step."""
    import torch

    torch.manual_seed(SEED - 1)
    shape = (ROWS * micro_batches, TOKENS, WIDTH)
    return torch.randn(shape), torch.randn(shape)


def bits(tensor):
    return tensor.detach().contiguous().numpy().tobytes()


def averaged(gradients, order):
    """Gradients of micro-batches added one by one in an order, then divided by their number."""
    total = gradients[order[0]].clone()
    for micro_batch in order[1:]:
        total += gradients[micro_batch]
    return bits(total.div_(len(order)))


def run_alone(case, kind):
    """All stages in one process: losses, and gradients by stage and parameter, added in three orders."""
    import torch

    stages = [layer(kind, stage) for stage in range(case.stages)]
    names = [[(stage, name) for name, _ in module.named_parameters()] for stage, module in enumerate(stages)]
    parameters = [parameter for module in stages for parameter in module.parameters()]
    inputs, targets = (whole.chunk(case.micro_batches) for whole in batch(case.micro_batches))
    losses, gradients = [], []
    for value, target in zip(inputs, targets):
        for module in stages:
            value = module(value)
        loss = torch.nn.functional.mse_loss(value, target)
        losses.append(bits(loss))
        gradients.append(torch.autograd.grad(loss, parameters))
    ascending, scheduled, backwards = {}, {}, {}
    for key, of_parameter in zip((key for of_stage in names for key in of_stage), zip(*gradients)):
        order = range(case.micro_batches)
        ascending[key] = averaged(of_parameter, order)
        scheduled[key] = averaged(of_parameter, case.weight_orders[key[0]])
        backwards[key] = averaged(of_parameter, order[::-1])
    sums = {"ascending": ascending, "scheduled": scheduled, "backwards": backwards}
    return {"losses": losses, "torch": torch.__version__, **sums}


def run_rank(case, kind, steps, rank, folder, limit):
    """The stages of one device: by step its losses, gradients, seconds, and the activations that torch counts."""
    import datetime

    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime, analyze_pipeline_activation_liveness

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = f"file://{folder}/meeting"
    patience = datetime.timedelta(seconds=limit)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=case.ranks, timeout=patience)
    mine = [stage for stage, device in enumerate(case.device_of_stage) if device == rank]
    modules = {stage: layer(kind, stage) for stage in mine}
    stages = [PipelineStage(modules[stage], stage, case.stages, torch.device("cpu")) for stage in mine]
    schedule = _PipelineScheduleRuntime(stages, case.micro_batches, loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(f"{folder}/schedule.csv")
    inferred = tuple(schedule.stage_index_to_group_rank[stage] for stage in range(case.stages))
    if inferred != case.device_of_stage:
        raise RuntimeError(f"torch took the stage map for {inferred}, it is {case.device_of_stage}")
    liveness = dict(pp_rank=rank, stage_indices=mine, granularity="stage_microbatch")
    slots = analyze_pipeline_activation_liveness(schedule, **liveness).num_slots
    inputs, targets = batch(case.micro_batches)
    given = (inputs,) if 0 in mine else ()
    results = []
    for _ in range(steps):
        for module in modules.values():
            module.zero_grad()
        losses = []
        dist.barrier()
        start = time.perf_counter()
        schedule.step(*given, **({"target": targets, "losses": losses} if case.stages - 1 in mine else {}))
        seconds = time.perf_counter() - start
        gradients = {
            (stage, name): None if parameter.grad is None else bits(parameter.grad)
            for stage, module in modules.items()
            for name, parameter in module.named_parameters()
        }
        losses = [bits(loss) for loss in losses]
        results.append({"losses": losses, "gradients": gradients, "seconds": seconds, "slots": slots})
    dist.barrier()
    dist.destroy_process_group()
    return results


def reason(error):
    """The first lines of an error and of what caused it."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()] or [""]
    told = f"{type(error).__name__}: {lines[0]}"
    return f"{told} {reason(error.__cause__)}" if error.__cause__ else told


def child(pipe, verbose, task, args):
    """Runs a task in a process of its own and sends what it returns, or why it failed."""
    import torch

    torch.set_num_threads(1)
    if not verbose:
        logging.disable(logging.ERROR)
    try:
        pipe.send((True, task(*args)))
    except Exception as error:  # Whatever torch refuses belongs into the table.
        pipe.send((False, reason(error)))


class Failed(Exception):
    """What one of the processes ran into."""


def run_together(context, verbose, tasks, limit):
    """Runs named tasks in processes at the same time and returns their results in order."""
    started = {}
    for name, task, args in tasks:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(there, verbose, task, args), daemon=True)
        process.start()
        there.close()
        started[here] = (name, process)
    results, failures, deadline = {}, {}, time.monotonic() + limit
    try:
        while len(results) + len(failures) < len(started):
            left = [pipe for pipe, (name, _) in started.items() if name not in results and name not in failures]
            ready = wait(left, max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for pipe in ready:
                name, process = started[pipe]
                try:
                    well, value = pipe.recv()
                except EOFError:
                    process.join()
                    well, value = False, f"ended with exit code {process.exitcode}"
                (results if well else failures)[name] = value
            if failures:
                deadline = min(deadline, time.monotonic() + GRACE)
        if failures:
            # A rank that lost its neighbour tells less than the neighbour.
            name = min(failures, key=lambda name: "onnection closed" in failures[name])
            raise Failed(f"{name}: {failures[name]}")
        if len(results) < len(started):
            raise Failed(f"no answer in {limit} s from {', '.join(started[pipe][0] for pipe in left)}")
        return [results[name] for name, _, _ in tasks]
    finally:
        for pipe, (name, process) in started.items():
            if name not in results:
                process.terminate()
            process.join()
            pipe.close()


def compare(alone, ranks, steps):
    """The verdict, and whether it is a good one."""
    for step in range(steps):
        losses = [loss for rank in ranks for loss in rank[step]["losses"]]
        if losses != alone["losses"]:
            wrong = sum(a != b for a, b in zip(losses, alone["losses"]))
            return False, f"losses differ: {wrong} of {len(alone['losses'])}, {len(losses)} came"
        gradients = {key: value for rank in ranks for key, value in rank[step]["gradients"].items()}
        wrong = {
            way: sum(gradients.get(key) != value for key, value in alone[way].items())
            for way in ("ascending", "scheduled")
        }
        if all(wrong.values()):
            return False, f"gradients differ: {wrong['ascending']} of {len(alone['ascending'])}"
    return True, "bit-equal" if wrong["ascending"] == 0 else "bit-equal in its own order"


def run_case(context, case, kind, steps, limit, verbose):
    """Runs one case and returns its line of the table."""
    start = time.monotonic()
    line = {
        "schedule": case.name,
        "ranks": case.ranks,
        "stages": case.stages,
        "micro_batches": case.micro_batches,
        "in_order": case.in_order,
        "model": kind,
    }
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "schedule.csv").write_text(case.text)
        tasks = [("one process", run_alone, (case, kind))]
        tasks += [
            (f"rank {rank}", run_rank, (case, kind, steps, rank, folder, limit)) for rank in range(case.ranks)
        ]
        try:
            (alone, *ranks) = run_together(context, verbose, tasks, limit)
        except Failed as failed:
            return line | {"equal": False, "verdict": str(failed), "seconds": round(time.monotonic() - start, 1)}
    equal, verdict = compare(alone, ranks, steps)
    seen = sum(alone["ascending"][key] != alone["backwards"][key] for key in alone["ascending"])
    if equal and seen == 0 and case.micro_batches > 2:
        equal, verdict = False, "the comparison sees nothing: sums in reverse order have the same bits"
    return line | {
        "torch": alone["torch"],
        "equal": equal,
        "verdict": verdict,
        "gradients": len(alone["ascending"]),
        "differ_if_summed_backwards": seen,
        "slots": [rank[-1]["slots"] for rank in ranks],  # Activations of a stage and micro-batch held at once.
        "step_s": round(max(rank[-1]["seconds"] for rank in ranks), 3),
        "seconds": round(time.monotonic() - start, 1),
    }


COLUMNS = {
    "schedule": "schedule",
    "ranks": "ranks",
    "stages": "stages",
    "micro_batches": "micro-batches",
    "gradients": "gradients",
    "differ_if_summed_backwards": "differ if summed backwards",
    "verdict": "verdict",
    "seconds": "seconds",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedules", nargs="+", type=pathlib.Path, metavar="FILE", help="exported .json, or .csv")
    parser.add_argument("--model", choices=["transformer", "mlp"], default="transformer", help="layers of a stage")
    parser.add_argument("--steps", type=int, default=2, help="training steps, each compared (default: 2)")
    parser.add_argument("--limit", type=int, default=120, metavar="S", help="seconds until a schedule counts as stuck")
    parser.add_argument("--json", action="store_true", help="a JSON object per schedule instead of a table")
    parser.add_argument("--verbose", action="store_true", help="let torch print what it logs")
    args = parser.parse_args()
    if args.steps < 1 or args.limit < 1:
        parser.error("--steps and --limit are at least 1")
    if importlib.util.find_spec("torch") is None:
        sys.exit("torch is not installed for this Python; see README.md here")
    try:
        cases = [read_case(path) for path in args.schedules]
    except BadSchedule as error:
        sys.exit(str(error))
    # One process imports torch, the others are forked from it before it has any threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed.pipelining"])
    if not args.json:
        print("| " + " | ".join(COLUMNS.values()) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    failed = 0
    for case in cases:
        line = run_case(context, case, args.model, args.steps, args.limit, args.verbose)
        failed += not line["equal"]
        cells = " | ".join(str(line.get(key, "")) for key in COLUMNS)
        print(json.dumps(line) if args.json else f"| {cells} |", flush=True)
    print(f"{len(cases) - failed} of {len(cases)} schedules bit-equal to one process", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
