#!/usr/bin/env bash
# Writes the kernels of the default table for peers.py: OUT/NAME/{kernel.cubin,launch.json,when.json}, and OUT/build.json.
#
#   benches/peers/export.sh OUT
#
# WARPWRIGHT names the command line tool (default: target/release/warpwright), DTYPE the type (default: bf16).
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 OUT" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
tool=${WARPWRIGHT:-$root/target/release/warpwright}
dtype=${DTYPE:-bf16}
if [ ! -x "$tool" ]; then
    echo "no $tool: run 'cargo build --release' or set WARPWRIGHT" >&2
    exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)

# export_one NAME PROBLEM WHEN SCHEDULE: one kernel. The sizes in PROBLEM do not matter: one cubin serves them all.
export_one() {
    local folder=$out/$1 problem=$2 when=$3 schedule=$root/kernels-rs/schedules/$4.toml
    mkdir -p "$folder"
    "$tool" compile --problem "$problem" --schedule "$schedule" --emit launch --out "$folder/launch.json"
    "$tool" --json compile --problem "$problem" --schedule "$schedule" --emit cubin --out "$folder/kernel.cubin" >"$out/answer.json"
    echo "$when" >"$folder/when.json"
}

for head_dim in 64 128 256; do
    for mask in full causal; do
        name=attention_d${head_dim}_$mask
        export_one "$name" "fwd $dtype b1 s4096 h8 d$head_dim $mask" \
            "{\"kind\": \"fwd\", \"dtype\": \"$dtype\", \"head_dim\": $head_dim, \"mask\": \"$mask\"}" "$name"
    done
done
export_one attention_d128_causal_long "fwd $dtype b1 s16384 h8 d128 causal" \
    "{\"kind\": \"fwd\", \"dtype\": \"$dtype\", \"head_dim\": 128, \"mask\": \"causal\", \"min_q_len\": 8192}" \
    attention_d128_causal_long
for layout in nn nt; do
    export_one "gemm_$layout" "gemm $dtype m4096 n4096 k4096 $layout" \
        "{\"kind\": \"gemm\", \"dtype\": \"$dtype\", \"layout\": \"$layout\"}" gemm
done

revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
if [ -n "$(git -C "$root" status --porcelain 2>/dev/null)" ]; then
    revision=$revision+changes
fi
python3 - "$out/answer.json" "$revision" "$("$tool" --version)" >"$out/build.json" <<'PY'
import datetime, json, sys

answer, revision, version = sys.argv[1:]
with open(answer) as file:
    ptxas = json.load(file)["ptxas_version"]
date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
print(json.dumps({"ptxas": ptxas, "revision": revision, "version": version, "date": date}, indent=2))
PY
rm "$out/answer.json"
echo "wrote $(find "$out" -name kernel.cubin | wc -l) kernels to $out"
