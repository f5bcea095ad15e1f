# `make test` on a fresh machine needs python3 (3.11 or newer) and make, nothing else.
PYTHON ?= python3
BIN    := .venv/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest

# What fails beside the others is run once more, alone: where others use the machine too, a test of
# real processes may meet a pause of it. What fails twice fails (1: some tests failed, 5: none left).
again = || { [ $$? = 1 ] && $(1) -m pytest --last-failed --last-failed-no-failures none; }

# Compiled modules are kept, whatever the environment says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup run demo test test-fast check conformance chaos bench docs wheel wheel-test clean help

setup: .venv/.test             ## the virtual environment, with what running and testing needs

run: setup                     ## the example service on port 8020, in the foreground
	$(BIN)/faircall serve faircall.workers.example:service

demo: setup                    ## a heavy and a light user, through FIFO and through the fair queue
	$(BIN)/faircall demo

test: setup                    ## the test suite, in parallel
	$(PYTEST) -n auto -m "not stress" $(call again,$(BIN)/python)

test-fast: setup               ## only what takes milliseconds
	$(PYTEST) -q -m "not slow and not stress"

check: .venv/.dev build/pkg    ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

conformance: setup             ## the recorded cases of Hadoop and Pulsar; FAIRCALL_GOLDEN=<folder> takes others
	$(PYTEST) -q -n auto tests/conformance

chaos: setup                   ## every kill point of every operation (minutes)
	$(PYTEST) -n auto -m stress

bench: setup                   ## the benchmarks: make bench SUITES="fairness noisy"; docs/benchmarks.md
	$(BIN)/faircall bench run $(SUITES)

docs: setup                    ## docs/configuration.md and metrics.md, written from the declarations
	$(BIN)/python -m faircall.server.settings.reference docs/configuration.md
	$(BIN)/python -m faircall.server.admin.metrics_reference docs/metrics.md

wheel: .venv/.dev              ## dist/faircall-*.whl, by way of the source distribution
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

wheel-test: wheel              ## the test suite against the wheel, in an environment of its own
	rm -rf build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[test]"
	cp -r tests pyproject.toml build/wheel/
	cd build/wheel && bin/python -m pytest -n auto -m "not stress" $(call again,bin/python)

clean:                         ## everything that git does not track and make made
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	rm -rf .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:                          ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

.venv/.test: pyproject.toml
	@echo "making .venv (a minute, the first time)"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("faircall needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(PIP) --editable ".[test]"
	touch $@

.venv/.dev: .venv/.test
	$(PIP) --editable ".[dev]"
	touch $@

# Links by which tools that read paths, and run nothing, find `faircall.*` and the tests by name.
build/pkg:
	mkdir -p $@
	ln -sfn ../.. $@/faircall
	ln -sfn ../../tests $@/tests
