#!/usr/bin/env python3
"""The table of a run: what `run.sh` left in a folder, by kind of schedule.

Beside torch's verdict it holds the activations that torch says each device must keep against the peak that the
schedule file states, in activations of a stage and micro-batch.
"""

import argparse
import collections
import json
import pathlib
import sys


def peaks(written, line):
    """Most activations of each device, as the schedule file says, counted in stages."""
    chunks = line["stages"] // line["ranks"]
    return [round(peak * chunks, 6) for peak in written["peak_memory"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="the folder given to run.sh")
    folder = parser.parse_args().folder
    try:
        lines = [json.loads(line) for line in (folder / "result.jsonl").read_text().splitlines()]
        groups = collections.defaultdict(list)
        for line in lines:
            written = json.loads((folder / f"{line['schedule']}.schedule.json").read_text())
            line["text"] = json.loads((folder / f"{line['schedule']}.json").read_text())["text"]
            line["gain"] = written.get("gain") or 0.0
            line["peaks_equal"] = line.get("slots") == peaks(written, line)
            kind = "known" if line["schedule"].startswith("known") else "found"
            shorter = ", shorter than all known" if line["gain"] > 1e-9 else ""
            groups[f"{kind}{shorter}", line["ranks"]].append(line)
    except (OSError, KeyError, json.JSONDecodeError) as error:
        sys.exit(f"{folder}: not what run.sh leaves: {error!r}")
    print("| schedules | devices | run | different | bit-equal | peaks equal | gradients compared | seconds each |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, ranks), members in sorted(groups.items()):
        equal, same = (sum(line[key] for line in members) for key in ("equal", "peaks_equal"))
        gradients = sum(line.get("gradients", 0) for line in members)
        seconds = [line["seconds"] for line in members]
        different = len({line["text"] for line in members})
        print(f"| {kind} | {ranks} | {len(members)} | {different} | {equal} | {same} | {gradients} | {min(seconds)} to {max(seconds)} |")
    for line in lines:
        if not line["equal"]:
            print(f"\n{line['schedule']}: {line['verdict']}")
        elif not line["peaks_equal"]:
            print(f"\n{line['schedule']}: torch holds {line['slots']} activations")
    print(f"\n{len({line['text'] for line in lines})} different schedules, {sum(not line['in_order'] for line in lines)} add weight gradients out of order")


if __name__ == "__main__":
    main()
