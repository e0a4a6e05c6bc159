#!/usr/bin/env bash
# Installs what building and testing need on Debian 12, and nothing when all is there.
#   tools/setup.sh [--fuzz] [--format] [--golden]
# --fuzz: clang with libFuzzer. --format: clang-format and clang-tidy. --golden: .venv with the Python packages of tools/golden, which make
# the golden files under tests/data (tests need no Python).
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  make cmake ninja-build g++ ccache
  libboost1.81-dev libboost-json1.81-dev libicu-dev libssl-dev libspdlog-dev libfmt-dev libcli11-dev
  libgtest-dev libgmock-dev
)
golden=false
for option in "$@"; do
  case "$option" in
    --fuzz) packages+=(clang libclang-rt-14-dev python3) ;;
    --format) packages+=(clang-format clang-tidy git) ;;
    --golden) packages+=(python3-venv) golden=true ;;
    *) echo "usage: tools/setup.sh [--fuzz] [--format] [--golden]" >&2; exit 2 ;;
  esac
done

install_packages() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "error: missing packages, and neither root nor sudo to install them: $*" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "installing: $*"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if ! command -v dpkg-query >/dev/null; then
  echo "note: no Debian system, so nothing is installed; what is needed: ${packages[*]}"
  exit 0
fi
installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^ii *//p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then install_packages "${missing[@]}"; fi

if $golden; then
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/pip install --quiet -r tools/golden/requirements.txt
fi
