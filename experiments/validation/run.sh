#!/bin/bash
# Exports of planned plans, judged by the frameworks' own parsers. Opt-in: it needs a Python of 3.12 with
#   torch megatron-core==0.19.2 einops transformers accelerate==1.15.0 deepspeed==0.19.8, and torchtitan==0.3.0 spmd_types torchdata without
#   their dependencies (5.6 GB, minutes to install). Usage: ESPALIER=path PYTHON=path experiments/validation/run.sh WORKFOLDER
set -u
here=$(cd "$(dirname "$0")" && pwd)
espalier=${ESPALIER:-espalier}
python=${PYTHON:-python3}
work=${1:?a folder to work in}
mkdir -p "$work"

# Model, machines, batch, sequence.
questions=(
    "llama2-7b a100x8 64 4096" "llama3-8b h100x8 64 8192" "llama2-13b h100x8:2 128 4096"
    "qwen3-30b-a3b h100x8:2 128 4096" "llama3-70b h100x8:4 128 8192" "gpt2-xl h100x8 64 1024"
)
variants=("" "pp=2" "pp=4" "tp=2" "tp=4" "cp=2" "pp=2 tp=2" "recompute=full" "pp=2 cp=2" "vpp=2")
count=0
for target in megatron torchtitan deepspeed accelerate; do
    for question in "${questions[@]}"; do
        read -r model machines batch sequence <<<"$question"
        for variant in "${variants[@]}"; do
            fixed=()
            for fix in $variant; do fixed+=(--fix "$fix"); done
            name="$target-$model-${variant//[ =]/_}"
            plan="$work/$name.json"
            "$espalier" plan --model "$model" --cluster "$machines" --global-batch "$batch" --seq "$sequence" \
                --target "$target" --backend random --max-evals 1 "${fixed[@]}" -o "$plan" >/dev/null 2>&1 || continue
            "$espalier" export "$plan" --to "$target" -o "$work/$name" >/dev/null 2>&1 && count=$((count + 1))
        done
    done
done
echo "$count exports"
"$python" "$here/check_exports.py" --megatron "$work"/megatron-*/ >"$work/launches.jsonl"
"$python" "$here/ask_megatron.py" <"$work/launches.jsonl" >"$work/verdicts.jsonl" 2>/dev/null
grep -v '"ok": true' "$work/verdicts.jsonl"
echo "{\"megatron\": {\"accepted\": $(grep -c '"ok": true' "$work/verdicts.jsonl"), \"refused\": $(grep -vc '"ok": true' "$work/verdicts.jsonl")}}"
"$python" "$here/check_exports.py" "$work"/{torchtitan,deepspeed,accelerate}-*/
