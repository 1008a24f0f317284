# make setup    everything there is to install, into .venv and a cache that clones share
# make demo     a share group at work: broker, job and consumers, on this machine
# make test     every check: lint, types, import directions, all tests
# make unit     the unit tests, in seconds
# make properties   the unit tests again and again, each time with fresh seeds and in another order
# make simulate the job and the gateways in virtual time, 2,000 hours of it with faults, on all cores
# make kills    the job killed at each commit step, with its checkpoint and without (make test: at half of them)
# make clients  clients of all kinds through the gateway, on brokers of all releases that are tried (make test: a few)
# make bench    the benchmarks
# make soak     the job under a steady load for an hour: does anything grow? The report: tests/reports/soak.md
# make lock     requirements.lock anew from pyproject.toml
# make clean    back to a fresh clone (the cache stays)
#
# make PYTHON=python3.12 setup uses that Python; JAVA_HOME names the Java.

PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --no-input --disable-pip-version-check
STAMPS := $(VENV)/.stamps

# What a bare "make" says: the lines above.
.PHONY: help
help:
	@sed -n '/^# make/s/^# //p' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: preflight $(STAMPS)/jars
	@echo "setup: ready"

# Each time, because Java may go and come; a venv that exists is not checked against PYTHON again.
.PHONY: preflight
preflight:
	@scripts/preflight.sh $(PYTHON) >/dev/null

$(STAMPS)/packages: requirements.lock pyproject.toml | preflight
	@echo "setup: installing the locked Python packages into $(VENV) (minutes, the first time)"
	@test -x $(PY) || scripts/quietly.sh "$$(scripts/preflight.sh $(PYTHON))" -m venv $(VENV)
	@scripts/quietly.sh $(PIP) install --require-hashes -r requirements.lock
	@echo "setup: installing this package beside them"
	@scripts/quietly.sh $(PIP) install --no-deps --no-build-isolation -e .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/jars: conf/ivy.xml $(STAMPS)/packages
	@echo "setup: fetching the JARs that are not in the cache yet"
	@$(PY) -m sharegroup.testkit.jars
	@touch $@

.PHONY: demo
demo: setup
	@$(PY) jobs/demo.py

.PHONY: lint
lint: setup
	$(VENV)/bin/ruff check --no-cache
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# What tests' JVMs start from; made while the linters run.
$(STAMPS)/spark.jsa: $(STAMPS)/jars
	@$(PY) -m tests.class_archive

.PHONY: test
test: setup
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint $(STAMPS)/spark.jsa
	$(PY) -m pytest --ignore=tests/benchmarks --numprocesses=2 --dist=loadfile --no-loadscope-reorder

.PHONY: unit
unit: $(STAMPS)/packages
	$(PY) -m pytest tests/unit --numprocesses=2 --hypothesis-profile=quick

# Seeds that `make test` does not have: as many runs as RUNS says. What fails is printed with what runs it again.
RUNS ?= 50
# Exits 1 when a promise was broken, and tells how.
.PHONY: simulate
simulate: setup
	$(PY) -m sharegroup.testkit.simulate --seeds 0:2000 --hours 1

.PHONY: kills
kills: setup $(STAMPS)/spark.jsa
	$(PY) -m pytest tests/integration/test_kills.py -m long

.PHONY: clients
clients: setup $(STAMPS)/spark.jsa
	$(PY) -m pytest tests/integration/test_gateway_any_client.py -m long

.PHONY: properties
properties: $(STAMPS)/packages
	@for run in $$(seq $(RUNS)); do \
		echo "properties: run $$run of $(RUNS)"; \
		$(PY) -m pytest tests/unit --numprocesses=2 --quiet --hypothesis-profile=fresh \
			--randomly-seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') || exit 1; \
	done

.PHONY: bench
bench: setup
	$(PY) -m tests.benchmarks

.PHONY: soak
soak: setup
	$(PY) -m tests.benchmarks.soak

# uv, because pip cannot lock for several Python versions at once. --upgrade: a lock is renewed as a whole.
.PHONY: lock
lock: $(STAMPS)/packages
	$(PY) -m venv build/uv
	build/uv/bin/pip install --quiet uv
	build/uv/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --upgrade \
		--no-emit-index-url --custom-compile-command "make lock" --quiet --output-file requirements.lock

.PHONY: clean
clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
		spark-warehouse metastore_db derby.log var
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
