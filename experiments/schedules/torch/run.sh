#!/bin/bash
# Schedules searched and known, run by torch on CPU processes and compared with one process bit by bit. Opt-in: it needs
# a Python with torch (see README.md). Usage: ESPALIER=path PYTHON=path experiments/schedules/torch/run.sh WORKFOLDER
set -u
here=$(cd "$(dirname "$0")" && pwd)
programs=$here/../../../search_configs/schedules
espalier=${ESPALIER:-espalier}
python=${PYTHON:-python3}
work=${1:?a new folder to work in}
stop() {
    echo "$1" >&2
    exit 2
}
command -v "$espalier" >/dev/null || stop "$espalier: no such program; ESPALIER says where it is"
"$python" -c 'import torch.distributed.pipelining' 2>/dev/null || stop "$python has no torch; see README.md"
mkdir -p "$work" && [ -z "$(ls -A "$work")" ] || stop "$work: expected a new or empty folder"
status=0

# Writes the schedule of the flags, and what torch is given of it.
schedule() {
    local name=$1
    shift
    if ! "$espalier" schedule "$@" -o "$work/$name.schedule.json" >"$work/log" 2>&1; then
        echo "no schedule for $name: $(head -1 "$work/log")" >&2
        status=1
    elif ! "$espalier" export "$work/$name.schedule.json" --to torch-csv --json >"$work/$name.json" 2>"$work/log"; then
        echo "no CSV for $name: $(head -1 "$work/log")" >&2
        rm "$work/$name.json"
        status=1
    fi
}

search() {
    local name=$1
    shift
    schedule "$name" --max-evals 20000 "$@"
}

# Memory is in micro-batches of a whole device: half of the devices is tight, all of them what 1F1B holds.
for devices in 2 4; do
    for map in "loop 1" "loop 2" "v 2" "any"; do
        read -r placement chunks <<<"$map"
        for times in 1:1:1 1:1.2:0.8 2:3:1; do
            for limit in "0 none" "0.1 tight" "0.5 full"; do
                read -r comm memory <<<"$limit"
                flags=(--devices "$devices" --micro-batches 8 --times "$times" --comm "$comm" --placement "$placement")
                [ -n "$chunks" ] && flags+=(--chunks "$chunks")
                [ "$memory" = tight ] && flags+=(--memory $((devices / 2)))
                [ "$memory" = full ] && flags+=(--memory "$devices")
                search "found-p$devices-$placement${chunks}-${times//:/_}-$memory" "${flags[@]}"
            done
        done
    done
done

# Few and odd micro-batches, more chunks, fused and split only, the other objective, more devices.
search found-p4-m2 --devices 4 --micro-batches 2 --times 1:1.2:0.8 --comm 0.1
search found-p4-m7 --devices 4 --micro-batches 7 --times 1:1.2:0.8 --comm 0.1 --chunks 2
search found-p2-m1 --devices 2 --micro-batches 1
search found-p3-m5 --devices 3 --micro-batches 5 --times 1:1.2:0.8 --memory 2 --placement v --chunks 2
search found-p2-loop4 --devices 2 --micro-batches 8 --times 1:1.2:0.8 --comm 0.1 --placement loop --chunks 4
search found-p4-loop4 --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.1 --placement loop --chunks 4 --memory 4
search found-p4-fused --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.3 --backward fused --chunks 2
search found-p4-fused-v --devices 4 --micro-batches 8 --comm 0.3 --backward fused --placement v --chunks 2 --memory 3
search found-p4-penalty --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.1 --split-penalty 3% --memory 4
search found-p4-span --devices 4 --micro-batches 8 --times 1:1.2:0.8 --objective span --memory 6
search found-p4-scratch --devices 4 --micro-batches 8 --times 1:1.2:0.8 --memory 3 --chunks 2 --from-scratch
search found-p4-m32 --devices 4 --micro-batches 32 --times 1:1.2:0.8 --comm 0.1 --memory 3 --chunks 2 --placement v
search found-p8-v --devices 8 --micro-batches 16 --times 1:1.2:0.8 --comm 0.1 --memory 4 --chunks 2 --placement v
search found-p8-loop --devices 8 --micro-batches 16 --times 1:1.2:0.8 --comm 0.1 --memory 8 --chunks 2 --placement loop
search found-p8-zb --devices 8 --micro-batches 16 --times 1:1.2:0.8 --comm 0.2 --memory 8 --chunks 1

# Other algorithms than the default.
search found-p4-mcts --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.1 --memory 3 --chunks 2 --backend mcts
search found-p4-climb --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.1 --memory 3 --chunks 2 --backend climb
search found-p4-random --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.1 --memory 3 --chunks 2 --backend random

# Stages of unequal times, from plans.
for question in "llama2-7b 4 2" "llama3-8b 4 1" "gpt2-xl 2 2"; do
    read -r model devices chunks <<<"$question"
    "$espalier" plan --model "$model" --cluster "h100x$devices" --global-batch 8 --seq 1024 --fix pp="$devices" \
        --fix vpp="$chunks" --fix micro_batch=1 --max-evals 2000 -o "$work/plan.json" >"$work/log" 2>&1
    search "found-plan-$model" --plan "$work/plan.json"
    rm -f "$work/plan.json"
done

# 3f1b runs stages forward only, and dualpipe sends micro-batches on two routes: torch has no words for either.
known=(gpipe 1f1b zb_h1 zb_h2 interleaved_1f1b group_interleaved looped_bfs interleaved_zb zb_v v_half v_min dualpipe_v)
for program in "${known[@]}"; do
    for devices in 2 4; do
        schedule "known-p$devices-$program" --dsl "$programs/$program.sched" --devices "$devices" --micro-batches 8
    done
done

mapfile -t exports < <(ls "$work"/*.json | grep -v '\.schedule\.json$')
"$python" "$here/run_csv.py" --json "${exports[@]}" >"$work/result.jsonl" || status=1
"$python" "$here/table.py" "$work"
exit $status
