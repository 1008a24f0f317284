# make demo         a share group at work: broker, job and consumers, on this machine
# make test         lint, types, import directions, and the tests without the marker thorough or long (run before a push)
# make test-all     the same with all tests except those marked long, and all examples of each property
# make unit         the unit tests
# make setup        install what `make demo` needs, into .venv and a cache that clones share
# make setup-dev    install what `make test` needs as well
# make pythons      the unit tests on each supported Python that is installed
# make properties   the unit tests 50 times (RUNS), each time with fresh seeds and in another order
# make simulate     the job and the gateways in virtual time, 2,000 hours of it with faults, on all cores; planted defects
# make faults       brokers that fail, a full disk, lost power, a wrong clock and an unclean leader election
# make kills        the job and members killed at each step, two jobs on the same tables, old checkpoints
# make chaos        the job, gateways and brokers killed and paused in turn under a load, for CHAOS_MINUTES (30)
# make clients      clients of all kinds through the gateway, on brokers of all releases that are tried
# make bench        the benchmarks
# make soak         the job under a steady load for an hour, to find what grows; the report is tests/reports/soak.md
# make docs         the documentation as a site, in build/site; a dead link is an error
# make lock         renew requirements.lock from pyproject.toml
# make clean        back to a fresh clone (the cache stays)
#
# Each target first installs what it needs. make PYTHON=python3.12 ... uses that Python; JAVA_HOME names the Java.

PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps

# Compiled modules are kept below .venv, even where the environment turns this off: the targets start many Python
# processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/pycache

# A bare "make" prints the lines above.
.PHONY: help
help:
	@sed -n '/^# make/s/^# //p' $(firstword $(MAKEFILE_LIST))

.PHONY: setup setup-dev
setup: $(STAMPS)/demo $(STAMPS)/jars-spark+broker
	@echo "setup: ready for make demo"

setup-dev: $(STAMPS)/dev $(STAMPS)/jars-spark+broker
	@echo "setup: ready for make test"

# Checked each time, because Java may be removed later. An environment that exists is not checked against PYTHON again.
.PHONY: preflight
preflight:
	@scripts/preflight.sh $(PYTHON) >/dev/null

# The packages of one extra of pyproject.toml: $(STAMPS)/demo, .../dev, .../docs. They are installed one after the other, even with `make -j`.
$(STAMPS)/dev: | $(STAMPS)/docs
$(STAMPS)/docs: | $(STAMPS)/demo
$(STAMPS)/demo $(STAMPS)/dev $(STAMPS)/docs: requirements.lock pyproject.toml | preflight
	@echo "setup: installing the Python packages for $(@F) into $(VENV)"
	@VENV=$(VENV) scripts/quietly.sh scripts/install.sh $(@F) $(PYTHON)
	@mkdir -p $(STAMPS) && touch $@

# JAR sets of conf/ivy.xml, joined by "+": $(STAMPS)/jars-spark+broker. Packages come first: they bring Ivy.
$(STAMPS)/jars-%: conf/ivy.xml | $(STAMPS)/demo
	@$(PY) -m sharegroup.spark.jars $(subst +, ,$*)
	@touch $@

.PHONY: demo
demo: setup
	@$(PY) jobs/demo.py

.PHONY: lint
lint: $(STAMPS)/dev
	$(VENV)/bin/ruff check --no-cache
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# The class archives that the tests' JVMs start from; made while the linters run. The demo makes them too.
$(STAMPS)/spark.jsa: | $(STAMPS)/jars-spark+broker
	@$(PY) -m tests.class_archive

# The tests and all that they import, compiled once for all processes of the first run. Later runs compile what changed.
$(STAMPS)/tests-compiled: | $(STAMPS)/dev
	@scripts/quietly.sh $(PY) -m pytest tests --collect-only --quiet
	@touch $@

.PHONY: before-tests
before-tests: | setup-dev
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint $(STAMPS)/spark.jsa $(STAMPS)/tests-compiled

# Three processes for two cores, because tests of the job spend half of their time waiting.
TESTS := --ignore=tests/benchmarks --numprocesses=3 --dist=loadscope --no-loadscope-reorder

.PHONY: test
test: setup-dev $(STAMPS)/jars-tools+s3-server before-tests
	$(PY) -m pytest $(TESTS) --hypothesis-profile=quick -m "not thorough and not long"

.PHONY: test-all
test-all: setup-dev $(STAMPS)/jars-tools+s3+s3-server before-tests
	$(PY) -m pytest $(TESTS) -m "not long"

.PHONY: unit
unit: $(STAMPS)/dev
	$(PY) -m pytest tests/unit --numprocesses=2 --hypothesis-profile=quick -m "not thorough and not long"

# Twelve processes, because tests spend most of their time in the pauses.
.PHONY: pauses
pauses: $(STAMPS)/dev
	$(PY) -m pytest tests/unit tests/processes -p tests.pauses --numprocesses=12 --hypothesis-profile=quick \
		-m "not thorough and not long"

# Pythons beside the one of .venv, each with an environment of its own.
.PHONY: pythons
pythons: $(STAMPS)/dev
	@scripts/pythons.sh

# Exits 1 if a guarantee was violated, and prints what happened.
.PHONY: simulate
simulate: setup-dev
	$(PY) -m tests.simulation.simulate --seeds 0:2000 --hours 1
	$(PY) -m pytest tests/unit/simulation --numprocesses=2 -m long

.PHONY: faults
faults: setup-dev $(STAMPS)/spark.jsa $(STAMPS)/jars-tools
	$(PY) -m pytest tests/integration/test_broker_failures.py tests/integration/test_embedded_kafka_cluster.py \
		tests/integration/test_full_disk.py tests/integration/test_power_loss.py \
		tests/integration/test_unclean_election.py tests/integration/test_wrong_clock.py -m long

.PHONY: kills
kills: setup-dev $(STAMPS)/spark.jsa
	$(PY) -m pytest tests/integration/test_cluster.py tests/integration/test_fencing.py \
		tests/integration/test_group_admin.py tests/integration/test_kills.py tests/integration/test_restart.py \
		tests/integration/test_share_consumer.py -m long

.PHONY: chaos
chaos: setup-dev $(STAMPS)/spark.jsa $(STAMPS)/jars-tools
	$(PY) -m pytest tests/integration/test_chaos.py -m long --capture=no

.PHONY: clients
clients: setup-dev $(STAMPS)/spark.jsa $(STAMPS)/jars-tools+streams+broker-4.4+broker-3.9+broker-3.7+broker-2.8
	$(PY) -m pytest $(wildcard tests/integration/test_client_*.py tests/integration/test_gateway_*.py) \
		tests/integration/test_commands_as_kafkas.py tests/integration/test_share_group_admin.py \
		tests/integration/test_share_groups_command.py tests/integration/test_one_kind_of_group.py -m long

# RUNS is the number of runs. A failure prints the command that repeats it.
RUNS ?= 50
.PHONY: properties
properties: $(STAMPS)/dev
	@for run in $$(seq $(RUNS)); do \
		echo "properties: run $$run of $(RUNS)"; \
		$(PY) -m pytest tests/unit --numprocesses=2 --quiet --hypothesis-profile=fresh \
			-m "not thorough and not long" --randomly-seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') || exit 1; \
	done

.PHONY: bench
bench: setup-dev
	$(PY) -m tests.benchmarks

.PHONY: soak
soak: setup-dev
	$(PY) -m tests.benchmarks.soak

.PHONY: docs
docs: $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build
	@echo "docs: build/site/index.html"

# --upgrade: a lock is renewed as a whole.
.PHONY: lock
lock: $(STAMPS)/dev
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --upgrade \
		--no-emit-index-url --custom-compile-command "make lock" --quiet --output-file requirements.lock

.PHONY: clean
clean:
	rm -rf $(VENV) $(VENV)-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
		spark-warehouse metastore_db derby.log var
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
