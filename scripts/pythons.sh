#!/bin/sh
# Runs the unit tests on each supported Python that is installed, except the one of .venv, which `make test` uses.
# Searches the PATH and pyenv. Each Python has its own environment, such as .venv-3.12, which later runs reuse.
set -eu

# Prints a Python of this version, or nothing.
find_python() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if "$candidate" --version >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
}

tested=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in 3.11 3.12 3.13; do
    [ "$version" != "$tested" ] || continue
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        echo "pythons: Python $version is not installed; its tests are skipped"
        continue
    fi
    echo "pythons: the unit tests on Python $version"
    VENV=.venv-$version scripts/quietly.sh scripts/install.sh dev "$python"
    ".venv-$version/bin/python" -m pytest tests/unit --numprocesses=2 --quiet --hypothesis-profile=quick \
        -m "not thorough and not long"
done
