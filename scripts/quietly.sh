#!/bin/sh
# Runs a command whose output nobody needs to see, unless it fails: then its last lines are shown, and its exit code kept.
#
#   scripts/quietly.sh COMMAND [ARGUMENT ...]
set -u

log=$(mktemp "${TMPDIR:-/tmp}/quietly.XXXXXX") || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

"$@" >"$log" 2>&1
code=$?
if [ "$code" -ne 0 ]; then
    tail -n 30 "$log" >&2
    echo "setup: this failed with exit code $code: $*" >&2
fi
exit "$code"
