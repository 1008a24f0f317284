#!/bin/sh
# Installs this package and the packages of one of its extras into a virtual environment, in the versions and with the
# hashes of requirements.lock. Creates the environment if it does not exist.
#
#   scripts/install.sh EXTRA [PYTHON]     EXTRA is demo or dev; PYTHON is as for scripts/preflight.sh
#
# VENV is the path of the environment (.venv). The installer is the uv on the PATH, or else the locked uv.
set -eu

extra=$1
venv=${VENV:-.venv}
python=$(scripts/preflight.sh ${2:+"$2"})
export UV_PYTHON_DOWNLOADS=never

if uv=$(command -v uv) && "$uv" --version >/dev/null 2>&1; then
    [ -x "$venv/bin/python" ] || "$uv" venv --quiet --python "$python" "$venv"
else
    uv=$venv/bin/uv
    if [ ! -x "$uv" ]; then
        [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
        "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
        sed -n '/^uv==/,/^    # via/p' requirements.lock >"$venv/uv.lock"
        "$venv/bin/python" -m pip --no-input --disable-pip-version-check install \
            --quiet --require-hashes --no-deps --requirement "$venv/uv.lock"
    fi
fi

# Packages, and the packages that build them, are rejected if their hash is not in the lock.
"$uv" pip install --quiet --python "$venv/bin/python" --require-hashes --constraint requirements.lock \
    --build-constraint requirements.lock --requirement pyproject.toml --extra "$extra"
"$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
