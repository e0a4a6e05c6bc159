#!/usr/bin/env bash
# Runs the fuzz targets for so many seconds each, beginning with the seeds of tools/fuzz_seeds.py and what earlier runs found in
# build/fuzz/corpus. Fails on the first crash, leak, time-out or use of too much memory; the input lies in build/fuzz then.
#   tools/fuzz.sh SECONDS_EACH [NAME...]
set -euo pipefail
seconds=${1:?usage: tools/fuzz.sh SECONDS_EACH [NAME...]}
shift
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
  for target in build/fuzz/fuzz_*; do
    if [ -x "$target" ] && [ -f "$target" ]; then set -- "$@" "${target##*/fuzz_}"; fi
  done
fi
[ $# -gt 0 ] || { echo "error: no fuzz target in build/fuzz; make fuzz builds them" >&2; exit 1; }

python3 tools/fuzz_seeds.py build/fuzz/seeds
for name in "$@"; do
  corpus=build/fuzz/corpus/$name
  seeds=build/fuzz/seeds/$name
  log=build/fuzz/$name.log
  mkdir -p "$corpus" "$seeds"
  if "build/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
    "$corpus" "$seeds" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, $(grep -c . < <(ls "$corpus")) kept, clean"
  else
    tail -n 40 "$log" >&2
    echo "error: fuzz target $name failed; its whole output is in $log" >&2
    exit 1
  fi
done
