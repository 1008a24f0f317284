#!/bin/sh
# Runs a command without output. If it fails, prints the last lines of its output and exits with its code.
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
