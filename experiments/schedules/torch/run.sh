#!/bin/bash
# Schedules searched and known, run by torch on CPU processes and compared with one process bit by bit. Opt-in: it needs
# a Python with torch (see README.md). Usage: ESPALIER=path PYTHON=path experiments/schedules/torch/run.sh WORKFOLDER
set -u
here=$(cd "$(dirname "$0")" && pwd)
programs=$here/../../../search_configs/schedules
espalier=${ESPALIER:-espalier}
python=${PYTHON:-python3}
work=${1:?a folder to work in}
mkdir -p "$work"
rm -f "$work"/*.json "$work"/*.jsonl

# Writes the schedule of the flags, and what torch is given of it.
schedule() {
    local name=$1
    shift
    if ! "$espalier" schedule "$@" -o "$work/$name.schedule.json" >"$work/log" 2>&1; then
        echo "no schedule for $name: $(head -1 "$work/log")" >&2
        return 1
    fi
    if ! "$espalier" export "$work/$name.schedule.json" --to torch-csv --json >"$work/$name.json" 2>"$work/log"; then
        echo "no CSV for $name: $(head -1 "$work/log")" >&2
        rm "$work/$name.json"
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
search found-p4-fused --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.3 --backward fused --placement loop --chunks 2
search found-p4-fused-v --devices 4 --micro-batches 8 --comm 0.3 --backward fused --placement v --chunks 2 --memory 3
search found-p4-penalty --devices 4 --micro-batches 8 --times 1:1.2:0.8 --comm 0.1 --split-penalty 3% --memory 4
search found-p4-span --devices 4 --micro-batches 8 --times 1:1.2:0.8 --objective span --memory 6
search found-p4-scratch --devices 4 --micro-batches 8 --times 1:1.2:0.8 --memory 3 --chunks 2 --from-scratch
search found-p4-m32 --devices 4 --micro-batches 32 --times 1:1.2:0.8 --comm 0.1 --memory 3 --chunks 2 --placement v
search found-p8-v --devices 8 --micro-batches 16 --times 1:1.2:0.8 --comm 0.1 --memory 4 --chunks 2 --placement v
search found-p8-loop --devices 8 --micro-batches 16 --times 1:1.2:0.8 --comm 0.1 --memory 8 --chunks 2 --placement loop
search found-p8-zb --devices 8 --micro-batches 16 --times 1:1.2:0.8 --comm 0.2 --memory 8 --chunks 1

for program in gpipe 1f1b 3f1b zb_h1 zb_h2 interleaved_1f1b group_interleaved looped_bfs interleaved_zb zb_v v_half v_min dualpipe_v dualpipe; do
    for devices in 2 4; do
        schedule "known-p$devices-$program" --dsl "$programs/$program.sched" --devices $devices --micro-batches 8
    done
done

mapfile -t exports < <(ls "$work"/*.json | grep -v '\.schedule\.json$')
"$python" "$here/run_csv.py" --json "${exports[@]}" >"$work/result.jsonl"
status=$?
"$python" "$here/table.py" "$work"
exit $status
