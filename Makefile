.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

RUN := PYTHONPATH=operator:tests $(BIN)/python
# Single tests take up to 20 s: a worker that has none left takes some of the other's.
WORKERS := -n 2 --dist worksteal
# Real processes on a busy machine: a test that fails is tried again, shown as R, and still a bug.
AGAIN := --reruns 2 -raR
FAST := not controlplane and not node and not engine

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## Make the virtual environment from the locked requirements
$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one: make setup PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) (about a minute the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## The whole product at work on a real node (root on Linux; KEEP=1 leaves it up)
	@$(RUN) -m testbed.demo $(if $(KEEP),--keep)

down: setup ## End what `make demo KEEP=1` left up
	@$(RUN) -m testbed.cluster down

test: check histories controlplane ## All tests that need no root: the quick gate, then the slower tiers

controlplane: setup ## Tests on a real control plane (etcd, kube-apiserver, controllers)
	@$(RUN) -m testbed.cluster build --control-plane
	$(BIN)/python -m pytest -m controlplane $(WORKERS) $(AGAIN)

test-engine: setup ## Compare with real vLLM on a CPU (opt-in: 6 GB once, then minutes)
	$(BIN)/python -m pytest -m "engine and not node" --timeout 1800

e2e: setup ## The stories on a real node (root on Linux; ENGINE=vllm: with real vLLM on a CPU)
	@$(RUN) -m testbed.demo --build
	$(BIN)/python -m pytest -m "$(if $(filter vllm,$(ENGINE)),engine and node,node and not engine)" -v $(AGAIN)

bench: setup ## How fast the planner and the command line are
	@$(RUN) bench/bench_planner.py
	@$(RUN) bench/bench_cli.py $(if $(AICONFIGURATOR),--aiconfigurator $(AICONFIGURATOR))

bench-revert: setup ## How fast a mistake is undone, beside a Deployment and Argo Rollouts (root)
	@$(RUN) bench/bench_revert.py --runs $(or $(RUNS),3)

check: setup format-check lint types layers generated fast ## The quick gate, under two minutes

format-check:
	$(BIN)/ruff format --check .
lint:
	$(BIN)/ruff check .
types:
	$(BIN)/mypy
layers:
	PYTHONPATH=operator:tests $(BIN)/lint-imports
generated: ## Fail when a generated file differs from its source
	$(BIN)/python -m pytest -q tests/api/test_generated.py
fast: ## Unit, property, golden and simulation tests
	$(BIN)/python -m pytest -m "$(FAST)" $(WORKERS)

golden: setup ## Write the golden manifests anew; review the difference
	UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/rollout/test_golden.py
histories: ## Hundreds of random histories of an endpoint, as `make test` plays them
	@$(MAKE) --no-print-directory simulate HISTORIES=600
simulate: setup ## Thousands of them (HISTORIES=5000 SEED=0)
	PARKADE_HISTORIES=$(or $(HISTORIES),5000) $(BIN)/python -m pytest -q $(WORKERS) tests/rollout/test_simulation.py

generate: setup ## Write the CRD, the chart's copy, docs/reference.md and docs/failure-classes.md
	$(BIN)/parkade crd --write .

format: setup ## Format and mend what ruff can mend
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lock: ## Lock the dependencies with hashes (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" pyproject.toml -o requirements/runtime.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --group dev --group build pyproject.toml -o requirements/dev.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --group build -o requirements/build.txt

.PHONY: help setup lock demo down test controlplane test-engine e2e bench bench-revert check format-check lint types layers generate generated fast format golden histories simulate
