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


def peaks_agree(written, line):
    """Whether torch holds as many activations as the schedule file says; None where the file counts bytes."""
    if "question" not in written or "slots" not in line:
        return None
    chunks = line["stages"] // line["ranks"]
    return line["slots"] == [round(peak * chunks, 6) for peak in written["peak_memory"]]


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
            line["peaks_agree"] = peaks_agree(written, line)
            kind = "known" if line["schedule"].startswith("known") else "found"
            shorter = ", shorter than all known" if line["gain"] > 1e-9 else ""
            groups[f"{kind}{shorter}", line["ranks"]].append(line)
    except (OSError, KeyError, json.JSONDecodeError) as error:
        sys.exit(f"{folder}: not what run.sh leaves: {error!r}")
    print("| schedules | devices | run | different | bit-equal | peaks equal | gradients compared | seconds each |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, ranks), members in sorted(groups.items()):
        told = [line["peaks_agree"] for line in members if line["peaks_agree"] is not None]
        seconds = [line["seconds"] for line in members]
        cells = (
            kind,
            ranks,
            len(members),
            len({line["text"] for line in members}),
            sum(line["equal"] for line in members),
            f"{sum(told)} of {len(told)}",
            sum(line.get("gradients", 0) for line in members),
            f"{min(seconds)} to {max(seconds)}",
        )
        print("| " + " | ".join(map(str, cells)) + " |")
    for line in lines:
        if not line["equal"]:
            print(f"\n{line['schedule']}: {line['verdict']}")
        elif line["peaks_agree"] is False:
            print(f"\n{line['schedule']}: torch holds {line['slots']} activations")
    versions = {line["torch"] for line in lines if "torch" in line}
    print(
        f"\n{len({line['text'] for line in lines})} different schedules of {len(lines)}, "
        f"{sum(line['equal'] for line in lines)} bit-equal, "
        f"{sum(not line['in_order'] for line in lines)} add weight gradients out of order, "
        f"{sum(line['seconds'] for line in lines):.0f} s, torch {', '.join(sorted(versions))}"
    )


if __name__ == "__main__":
    main()
