# `make` prints help. The same commands run locally and in continuous integration.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
LOCKS := $(wildcard src/onceward/jars/*.xml src/onceward/jars/*.sha256) src/onceward/servers/broker/archive.py
# A python of your own: make setup PYTHON=/path/to/python3.12
PYTHON ?= $(shell command -v python3.11 || command -v python3)
ARGS ?=
UV ?= uv
# Pythons that the quick tests run on besides, where they are on PATH.
OTHERS := 3.12 3.13
# Whose quick tests cover epoch/ and kafka/; `make test ARGS=--after-coverage` leaves those out.
COVERING := tests/epoch tests/kafka tests/proof tests/docs

.PHONY: help setup check types format quick test test-all coverage docs lock demo bench prove mutants clean

help:  ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  ARGS="…" is handed on:  make demo ARGS="--kills 3"   make test ARGS="-k broker"'

setup: $(STAMP)  ## the virtual environment in .venv, and the jars in the user's cache

$(STAMP): requirements.lock pyproject.toml $(LOCKS)
	@test -n "$(PYTHON)" || { echo "Onceward needs Python 3.11 or newer, and there is no python3 on PATH." \
	  "Install it, or name one: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Onceward needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" -V 2>&1)." \
	  "Name another: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x "$${JAVA_HOME:-/nowhere}/bin/java" || command -v java >/dev/null || { \
	  echo "Onceward needs Java 17 or newer, and there is neither JAVA_HOME nor a java on PATH." \
	  "Install a JDK 17 (Debian: openjdk-17-jre-headless), or set JAVA_HOME." >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make a virtual environment (Debian: install python3-venv)." >&2; \
	  rm -rf $(VENV); exit 1; }
	@# --no-deps: the lock names everything. With pip's resolver a newer release of an extra's package fails the hashes.
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check --disable-pip-version-check -q
	$(BIN)/onceward jars fetch
	@touch $(STAMP)

check: $(STAMP) types  ## format, lint, strict types, room order
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(STAMP)  ## strict types in src, and in tests (tests/mypy.ini)
	$(BIN)/mypy
	cd tests && $(CURDIR)/$(BIN)/mypy --config-file mypy.ini --cache-dir ../.mypy_cache/tests .

format: $(STAMP)  ## put the code into shape
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format .

# Three processes, of which one waits at any time, that take groups of tests, the longest first: tests/support/timings.py. What runs when: docs/testing.md.
PYTEST = $(BIN)/python -m pytest -n 3 --dist loadscope --times

quick: $(STAMP)  ## all tests that need no server and no JVM (under a minute)
	$(PYTEST) --tier quick $(ARGS)

test: $(STAMP)  ## the tests, on real processes, three at a time (one: ARGS="-n 0"; one room: ARGS=tests/sinks/files)
	$(PYTEST) $(ARGS)

test-all: $(STAMP)  ## every combination of kills, sinks and ways to write too (an hour); the quick tests on other Pythons
	$(PYTEST) --tier all $(ARGS)
	@$(MAKE) --no-print-directory $(OTHERS:%=quick-%) ARGS=

# From the same lock, in a virtual environment of its own.
$(OTHERS:%=quick-%): quick-%:
	@if python="$$(command -v python$*)" && "$$python" -c "" 2>/dev/null; then \
	  $(MAKE) --no-print-directory quick VENV=.venv-$* PYTHON="$$python"; \
	else echo "there is no python$* on PATH: the quick tests were not run on it"; fi

coverage: $(STAMP)  ## branches of epoch/ and kafka/ that the quick tests miss: none may be
	$(PYTEST) --tier quick --cov=onceward.epoch --cov=onceward.kafka \
	  --cov-report=term-missing:skip-covered --cov-fail-under=100 $(COVERING) $(ARGS)

docs: $(STAMP)  ## the documentation site in build/site, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict $(ARGS)
	@echo "build/site/index.html"

lock:  ## requirements.lock anew from pyproject.toml, with hashes and without an index's address (needs uv)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv (pip install uv), or name one: make lock UV=…" >&2; exit 1; }
	$(UV) pip compile pyproject.toml --all-extras --group dev --group docs --universal --generate-hashes --no-emit-index-url \
	  --no-header --quiet $(ARGS) -o requirements.lock
	@! grep -nE '^-|https?://' requirements.lock || { echo "requirements.lock names an index" >&2; exit 1; }

demo: $(STAMP)  ## kill an application at random, then bill every campaign to the cent
	$(BIN)/onceward demo $(ARGS)

bench: $(STAMP)  ## the figures of this machine in ten minutes (others: ARGS="P3 --rounds 5"; what there is: ARGS=--list)
	$(BIN)/onceward bench $(ARGS)

prove: $(STAMP)  ## the long proof: a million simulated schedules, a thousand real kills, 500 sequences (hours)
	$(BIN)/python -m bench.proof $(ARGS)

mutants: $(STAMP)  ## small changes to the core, each of which a test must notice (some minutes; one: ARGS="-k synced")
	$(BIN)/python -m bench.mutants $(ARGS)

clean:  ## remove what make has made (the jars in the user's cache stay)
	rm -rf $(VENV) $(OTHERS:%=.venv-%) build dist .mypy_cache .ruff_cache .import_linter_cache .pytest_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
