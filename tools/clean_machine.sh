#!/usr/bin/env bash
# Runs make targets of this tree on a bare Debian 12: a fresh debootstrap folder with make and nothing else, in a mount and process
# namespace of its own, so that neither mounts nor processes outlive it. Needs root and the Debian mirror.
#   tools/clean_machine.sh [--work-tree] [TARGET...]     (default: build)
# Takes the committed tree; with --work-tree the files as they are now. The bare system is kept for the next run, as a tar file in
# ${QWELL_CLEAN_MACHINE:-/var/tmp/qwell-clean-machine}; what a run made is removed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The second half, inside the namespaces: $1 is the system's folder, the rest are targets.
if [ "${1:-}" = --inside ]; then
  system=$2
  shift 2
  mount -t proc proc "$system/proc"
  mount --rbind /dev "$system/dev"
  mount -t tmpfs -o size=2g tmpfs "$system/dev/shm"
  chroot "$system" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash -c '
    cd /qwell
    for target in setup "$@"; do
      echo "== make $target"
      started=$SECONDS
      make "$target" || { echo "make $target: failed after $((SECONDS - started)) s"; exit 1; }
      echo "== make $target: $((SECONDS - started)) s"
    done' make "$@"
  # This shell is the first process of the namespace; whatever else is there was left by a target.
  for process in "$system"/proc/[0-9]*; do
    [ "${process##*/}" = $$ ] && continue
    mapfile -d '' -t command <"$process/cmdline" 2>/dev/null || continue
    echo "left running: ${command[*]}" >&2
    exit 1
  done
  echo "nothing left running"
  exit
fi

from_commit=true
if [ "${1:-}" = --work-tree ]; then from_commit=false; shift; fi
if [ $# -eq 0 ]; then set -- build; fi
[ "$(id -u)" -eq 0 ] || { echo "error: tools/clean_machine.sh needs root (debootstrap, chroot)" >&2; exit 1; }

home=${QWELL_CLEAN_MACHINE:-/var/tmp/qwell-clean-machine}
mkdir -p "$home"
work=$(mktemp -d "$home/run-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

if [ ! -f "$home/system.tar" ]; then
  command -v debootstrap >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq debootstrap >/dev/null
  echo "making a bare Debian 12"
  debootstrap --variant=minbase --include=make bookworm "$work/new" >"$home/debootstrap.log"
  rm -rf "$work"/new/var/cache/apt/archives/*.deb
  tar -C "$work/new" -cf "$work/system.tar" .
  mv "$work/system.tar" "$home/system.tar"
  rm -rf --one-file-system "$work/new"
fi

mkdir -p "$work/system"
tar -C "$work/system" -xf "$home/system.tar"
mkdir -p "$work/system/qwell"
if $from_commit; then
  git archive HEAD | tar -C "$work/system/qwell" -xf -
else
  git ls-files -co --exclude-standard -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
    tar --null -T - -cf - | tar -C "$work/system/qwell" -xf -
fi
# The mirror's name must resolve as it does here.
cp -L /etc/resolv.conf "$work/system/etc/resolv.conf"
cp -L /etc/hosts "$work/system/etc/hosts"
unshare --mount --pid --fork --propagation private "$0" --inside "$work/system" "$@"
