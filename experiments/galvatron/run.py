#!/usr/bin/env python3
"""Runs `espalier plan --galvatron` on every case of the reference and prints the tables of README.md.

    cargo build --release
    ESPALIER_REFERENCE=<folder> experiments/galvatron/run.py [cases|repairs|growth] [--runs N]

CPU time (user + system) is that of the whole process, import included, by wait4; peak memory is what /usr/bin/time
says, since wait4 would count what this script holds when it forks.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("ESPALIER_BINARY", ROOT / "target/release/espalier"))
# Cases whose Galvatron search was measured serially; the others' seconds are transitions / 5.5e8 per second.
ESTIMATED = {"c05": 365, "c10": 456, "c12": 2810, "c14": 1247}
REPAIRS = ["resharding", "divisible-batch", "ulysses-sync", "context-parallel", "slow-stage", "memory-cliff",
           "stage-transfer", "all"]
# Galvatron's serial CPU seconds on the same questions with chunks fixed to 8.
GROWTH_LAYERS = {32: 21.8, 64: 45.4, 96: 70.6, 128: 95.0}
GROWTH_MEMORY = {24: 24.4, 36: 36.4, 48: 50.0, 80: 87.2}


def plan(folder, *more):
    """The answer (None if nothing fits) and CPU seconds."""
    command = [str(BINARY), "plan", "--galvatron", str(folder), "--json", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        out = child.stdout.read()
        err = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode == 3:
        answer = None
    elif child.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}\n{err}")
    else:
        answer = json.loads(out)
    return answer, usage.ru_utime + usage.ru_stime


def median_of(runs, folder, *more):
    """The answer and the median of CPU seconds."""
    done = [plan(folder, *more) for _ in range(runs)]
    return done[0][0], statistics.median(d[1] for d in done)


def peak_mb(folder):
    """Peak resident memory, MB of 2^20 bytes."""
    command = ["/usr/bin/time", "-f", "%M", str(BINARY), "plan", "--galvatron", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) / 1024


def percent(x):
    return f"{round(100 * x, 2) + 0.0:.2f} %"


def seconds(answer):
    return answer["estimate"]["iteration_time_s"] if answer else float("nan")


def cases(folders, runs):
    """Measured cases first, those with an estimate apart."""
    estimated = [f for f in folders if f.name.split("_")[0] in ESTIMATED]
    table([f for f in folders if f not in estimated], runs)
    print()
    table(estimated, runs)


def table(folders, runs):
    ratios = []
    print("| case | Galvatron, CPU s | espalier, CPU ms | ratio | peak MB | Galvatron's plan, s | headroom, s | espalier's plan, s "
          "| faster than Galvatron's | gap | log10 of plans |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for folder in folders:
        answer, cpu = median_of(runs, folder)
        known = json.loads((folder / "galvatron_result.json").read_text())
        headroom = json.loads((folder / "headroom.json").read_text())["best_time_s"]
        short = folder.name.split("_")[0]
        guess = ESTIMATED.get(short)
        theirs = guess if guess else known["search_cpu_s"]
        mark = "~" if guess else ""
        time = seconds(answer)
        ratios.append(theirs / cpu)
        print(f"| {folder.name} | {mark}{theirs:.1f} | {cpu * 1e3:.1f} | {mark}{theirs / cpu:.0f} | {peak_mb(folder):.1f} "
              f"| {known['iteration_time_s']:.6f} | {headroom:.6f} | {time:.6f} "
              f"| {percent(known['iteration_time_s'] / time - 1)} | {answer['bound']['gap']:g} "
              f"| {answer['space_size_log10']:.0f} |", flush=True)
    print(f"\nRatios: {min(ratios):.0f} to {max(ratios):.0f}, median {statistics.median(ratios):.0f}.")


def repairs(folders):
    print("| case | published | " + " | ".join(REPAIRS) + " |")
    print("|---|---|" + "---|" * len(REPAIRS))
    for folder in folders:
        published = plan(folder)[0]
        cells = []
        for repair in REPAIRS:
            answer = plan(folder, "--repairs", repair)[0]
            if answer is None:
                cells.append("nothing fits")
                continue
            change = seconds(answer) / seconds(published) - 1
            same = answer["plan"] == published["plan"]
            gap = answer["bound"]["gap"]
            cells.append(("+" if change > 5e-5 else "") + percent(change) + ("" if same else ", other plan") + (f", gap {100 * gap:.2g} %" if gap else ""))
        print(f"| {folder.name} | {seconds(published):.4f} s | " + " | ".join(cells) + " |", flush=True)


def growth(folder, runs):
    fixed = ["--set", "settle_chunk=8"]
    print("| layers | memory, GB | Galvatron, CPU s | espalier, CPU ms | ratio | gap |")
    print("|---|---|---|---|---|---|")
    shape = ["--set", "hidden_size=4096", "--set", "seq_len=2048"]
    rows = [(n, 24, s, [*shape, "--set", f"layer_num={n}"]) for n, s in GROWTH_LAYERS.items()]
    rows += [(n, n * 24 // 32, None, [*shape, "--set", f"layer_num={n}", "--set", f"memory_constraint={n * 24 // 32}"])
             for n in (64, 128, 256, 512, 1024)]
    rows += [(32, gb, s, ["--set", f"memory_constraint={gb}"]) for gb, s in GROWTH_MEMORY.items()]
    rows += [(32, 192, None, ["--set", "memory_constraint=192"])]
    for layers, gb, theirs, more in rows:
        answer, cpu = median_of(runs, folder, *fixed, *more)
        gap = f"{answer['bound']['gap']:g}" if answer else "nothing fits"
        left = f"{theirs} | {cpu * 1e3:.1f} | {theirs / cpu:.0f}" if theirs else f"- | {cpu * 1e3:.1f} | -"
        print(f"| {layers} | {gb} | {left} | {gap} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", choices=["cases", "repairs", "growth"], help="only this table")
    parser.add_argument("--runs", type=int, default=11, help="runs of which the median is taken")
    args = parser.parse_args()
    if "ESPALIER_REFERENCE" not in os.environ:
        sys.exit("ESPALIER_REFERENCE must name the folder that holds galvatron/")
    root = pathlib.Path(os.environ["ESPALIER_REFERENCE"]) / "galvatron"
    folders = sorted(p for p in root.iterdir() if (p / "case.json").is_file())
    if args.table in (None, "cases"):
        cases(folders, args.runs)
    if args.table in (None, "repairs"):
        repairs(folders)
    if args.table in (None, "growth"):
        growth(next(p for p in folders if p.name.startswith("c02")), args.runs)


if __name__ == "__main__":
    main()
