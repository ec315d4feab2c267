# Two commands do everything from a fresh checkout: `make demo` and `make test`. Each installs what it needs, and is fast when nothing has changed.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help ablate demo test coverage test-pages test-cluster test-slow test-secured pictures bench bench-report chaos fuzz soak stories fleet-day evaluate bench-triage lint setup clean lock

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

demo: $(READY)  ## a real Kafka, a real incident, its verdict and report (about 90 seconds, plus the first download)
	@$(BIN)/workbench demo --output build/demo

# Each part of the tests has a process, and a Spark and a Kafka of its own, if it needs them. Those of doors and on Kafka mostly wait.
ALONE := not apt and not cluster and not slow and not secured
PARTS := unit "not door and not jvm and not lab and $(ALONE)" doors "door and not jvm and not lab and $(ALONE)" then judged "jvm and judged and $(ALONE)" spark "jvm and not judged and $(ALONE)" kafka "lab and not jvm and not journey and $(ALONE)" journeys "lab and not jvm and journey and $(ALONE)"

# A test that hangs ends its part, and the part's log says where each thread was; else a run would only be cut off, and say nothing.
BOUNDED := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

test: $(READY)  ## what must hold on every commit: lint, unit tests, tests with Spark and with a real Kafka, beside each other
	@FIRST="$(BIN)/workbench lab setup" BESIDE="$(MAKE) -s lint" GENTLE="judged spark" PYTEST="$(BIN)/python -m pytest" .ci/side-by-side --durations=5 $(BOUNDED) -- $(PARTS)

coverage: $(READY)  ## the same tests, and which lines of the package they have not run
	@rm -rf build/coverage; mkdir -p build/coverage
	@FIRST="$(BIN)/workbench lab setup" PYTEST="$(BIN)/coverage run -m pytest" .ci/side-by-side --durations=5 -- $(PARTS)
	@$(BIN)/coverage combine -q; $(BIN)/coverage report

test-pages: $(READY)  ## report and notebook in a real browser, a real Alertmanager and VictoriaMetrics, Burrow beside triage (fetched with apt)
	@$(BIN)/workbench lab setup
	@$(BIN)/python -m pytest -m apt

test-slow: $(READY)  ## the other live incidents, long replays, and the installed wheel in a separate environment
	@$(BIN)/workbench lab setup
	@PYTEST="$(BIN)/python -m pytest" .ci/side-by-side --durations=10 -- slow "slow and not apt and not cluster and not secured"

test-secured: $(READY)  ## three secured brokers: every way to lose one of them (about 15 minutes)  [RUNS=20 SEED=1]
	@$(BIN)/workbench lab setup
	@SECURED_RUNS=$(or $(RUNS),20) SECURED_SEED=$(or $(SEED),1) $(BIN)/python -m pytest -s -m secured --durations=10

pictures: $(READY)  ## retake the README's screenshots from the current pages
	@$(BIN)/python -m tests.browser.pictures

test-cluster: $(READY)  ## the sweep on a standalone Spark cluster with a killed executor; triage and sweep with Spark Connect
	@$(BIN)/python -m pytest -m cluster --durations=3

bench: $(READY)  ## Workbench and its peers in the same run, to build/bench.json; fails if a ratio dropped by a tenth  [ONLY=name RECORD=1]
	@$(BIN)/workbench lab setup
	@$(BIN)/python -m tests.bench $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record)

chaos: $(READY)  ## kills, freezes, back-pressure, truncated logs, recreated topics and more on real groups  [SEEDS=1-20 SECONDS=20]
	@$(BIN)/workbench lab setup
	@CHAOS_SEEDS=$(or $(SEEDS),1) CHAOS_SECONDS=$(or $(SECONDS),20) $(BIN)/python -m pytest -s -m lab tests/runtime/test_chaos.py

fuzz: $(READY)  ## mutated inputs for every parser of untrusted data, within 512 MB  [SEED=1 INPUTS=100000]
	@$(BIN)/python -m tests.fuzz --seed $(or $(SEED),1) --inputs $(or $(INPUTS),100000)

bench-report: $(READY)  ## the scheduled report over many subscriptions, from a capture  [N=500]
	@$(BIN)/python -m tests.bench.health $(or $(N),500)

stories: $(READY)  ## 306 simulated groups, 100 healthy and 206 in trouble, judged in one job  [SEED=1 KIND=name WRONG=1 CLIENTS=1]
	@$(BIN)/python -m evaluation.stories.score --seed $(or $(SEED),1) $(if $(KIND),--kind $(KIND)) $(if $(WRONG),--list-wrong) $(if $(CLIENTS),--clients)

fleet-day: $(READY)  ## a simulated day of 500 healthy groups, swept each quarter of an hour: how many alarms  [SEED=1 N=500]
	@$(BIN)/python -m evaluation.stories.day --seed $(or $(SEED),1) --groups $(or $(N),500)

evaluate: $(READY)  ## the evaluation: cases with truth, tiers, baselines, two faults, unknown ones, to build/evaluation  [SEEDS=901 PERTURB=1 CAPTURES=1]
	@$(BIN)/python -m evaluation.tiers --seeds $(or $(SEEDS),901) $(if $(PERTURB),--perturb) $(if $(CAPTURES),--captures)

ablate: $(READY)  ## without each rule of the tree, and with each number changed: what would be judged otherwise  [SEEDS=5001 RECORDINGS=DIR]
	@$(BIN)/python -m evaluation.ablate --seeds $(or $(SEEDS),5001) $(if $(RECORDINGS),--recordings $(RECORDINGS))

bench-triage: $(READY)  ## accuracy of triage on real incidents, to build/triage.json  [SEEDS=101-105 ONLY=a,b ADVICE=1]
	@$(BIN)/workbench lab setup
	@$(BIN)/python -m evaluation.live $(if $(SEEDS),--seeds $(SEEDS)) $(if $(ONLY),--only $(ONLY)) $(if $(ADVICE),--apply-advice)

soak: $(READY)  ## the replay of a third of a million-record topic, end to end
	@$(BIN)/workbench lab setup
	@REPLAY_RECORDS=1000000 $(BIN)/python -m pytest tests/lab/test_replay_end_to_end.py --durations=5

lint: $(READY)  ## ruff and mypy --strict
	@$(BIN)/ruff check -q workbench tests evaluation
	@$(BIN)/ruff format -q --check workbench tests evaluation
	@$(BIN)/mypy

setup: $(READY)  ## install the Python environment, and a Java if the machine has none

lock:  ## update the lock file from the dependencies in pyproject.toml
	@.ci/lock

clean:  ## remove what the targets made here (keeps downloads in the user's cache)
	@-[ -x $(BIN)/workbench ] && $(BIN)/workbench lab down --quiet
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse

$(READY): pyproject.toml .ci/requirements.lock .ci/requirements-build.lock .ci/requirements-java.lock
	@[ -n "$(PYTHON)" ] || { echo "Workbench needs Python 3.11 or newer on PATH (python3 is: $$(python3 --version 2>&1))." >&2; exit 2; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version): about 2 minutes the first time."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --require-hashes --only-binary :all: -r .ci/requirements-build.lock
	@# Only pyspark is built here: 450 MB of jars, which are compressed already.
	@$(BIN)/pip install -q --require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation --config-settings="--build-option=--compression=stored" -r .ci/requirements.lock
	@$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@$(BIN)/python -m workbench.spark.java >/dev/null 2>&1 || { \
		echo "No Java 17 or newer here: installing one into $(VENV)."; \
		$(BIN)/pip install -q --require-hashes -r .ci/requirements-java.lock; }
	@touch $@
