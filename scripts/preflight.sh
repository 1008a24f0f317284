#!/bin/sh
# Checks the requirements that no package can provide, before anything is installed: Python 3.11 or newer that can
# create virtual environments, and Java 17 or newer. Prints the Python to use, or fails with one sentence on stderr.
#
#   scripts/preflight.sh [PYTHON]     the Python to check; default: the first suitable one on the PATH
#
# This is plain sh, because the check for old Pythons must not depend on Python.
set -u

fail() {
    echo "setup: $1" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=${1:-}
if [ -n "$python" ]; then
    is_new_enough "$python" || fail "Python 3.11 or newer is needed, and $python is not one."
else
    for candidate in python3 python3.13 python3.12 python3.11; do
        if is_new_enough "$candidate"; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] || fail "Python 3.11 or newer is needed, and there is none on the PATH (make PYTHON=... names one)."
fi
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    fail "$python cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install python3-venv)."

if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    remedy="set JAVA_HOME to a newer one"
else
    java=java
    remedy="install one (Debian, Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"
fi
# "17.0.15" and "1.8.0_392" have their major version in different places.
major=$("$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1)
[ -n "$major" ] || fail "Java 17 or newer is needed, and $java does not run: $remedy."
[ "$major" -ge 17 ] || fail "Java 17 or newer is needed, and $java is Java $major: $remedy."

echo "$python"
