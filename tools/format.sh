#!/usr/bin/env bash
# clang-format on all C++ sources; with --check it changes nothing and fails where it would.
set -euo pipefail
cd "$(dirname "$0")/.."
options=(-i)
if [ "${1:-}" = --check ]; then options=(--dry-run --Werror); fi
find src tests fuzz -name '*.cpp' -o -name '*.h' -o -name '*.inc' | sort | xargs clang-format "${options[@]}"
