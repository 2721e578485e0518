# The words of this house. `make` alone lists them.
#
# Caches live outside the checkout; the virtual environment is .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/distributed-grid
PYTHON := .venv/bin/python
PYTEST = $(PYTHON) -m pytest $(ARGS)

export RUFF_CACHE_DIR := $(CACHE)/ruff
export MYPY_CACHE_DIR := $(CACHE)/mypy
export IMPORT_LINTER_CACHE_DIR := $(CACHE)/import-linter
export HYPOTHESIS_STORAGE_DIRECTORY := $(CACHE)/hypothesis
export PYTEST_ADDOPTS := -o cache_dir=$(CACHE)/pytest

# Rules and junk: what nobody would type on purpose.
EDGE_TESTS = $(wildcard tests/property tests/e2e/test_bad_input.py)

.PHONY: help
help:  ## list these words
	@awk -F ':.*  ## ' '/^[a-z0-9-]+:.*  ## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup:  ## set everything up; quick and offline the second time
	@scripts/setup

.PHONY: demo
demo:  ## set up, then show Grid at work on this machine
	@scripts/setup demo
	@.venv/bin/grid demo $(ARGS)

.PHONY: test
test: setup  ## set up, then run every check and every test
	@$(PYTHON) -m scripts.stages test $(if $(NO_SKIPS),--no-skips)

.PHONY: check
check: setup  ## format, lint, types, import contracts, tidy
	@$(PYTHON) -m scripts.stages check

.PHONY: format
format: setup  ## put the code into its format
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

.PHONY: unit
unit: setup  ## unit and property tests (ARGS="-k rank" for some of them)
	@$(PYTEST) $(wildcard tests/unit tests/property)

.PHONY: sim
sim: setup  ## a made-up owner, a made-up mesh and a made-up cluster (SEED=7): stories, verdicts
	@$(PYTHON) -m distributed_grid.sim.owner --seed $(or $(SEED),0) $(ARGS)
	@$(PYTHON) -m distributed_grid.sim.mesh --seed $(or $(SEED),0) $(ARGS)
	@$(PYTHON) -m distributed_grid.sim.across --seed $(or $(SEED),0) $(ARGS)

.PHONY: soak
soak: setup  ## 5,000 made-up clusters with all faults, then words of liars (SEEDS=n, WORDS=n, SEED=n)
	@$(PYTHON) -m scripts.soak --seed $(or $(SEED),0) --seeds $(or $(SEEDS),5000) --words $(or $(WORDS),5000) $(ARGS)

.PHONY: nemesis
nemesis: setup  ## five real agents, a liar, all faults, then a count (SEED=n, SECONDS=n; needs root)
	@$(PYTHON) -m tests.nemesis --seed $(or $(SEED),0) --seconds $(or $(SECONDS),60) $(ARGS)

.PHONY: fuzz-http
fuzz-http: setup  ## schemathesis over all of the HTTP interface (SECONDS=n, SEED=n; needs root)
	@$(PYTHON) -m scripts.fuzz_http --seed $(or $(SEED),0) --seconds $(or $(SECONDS),300) $(ARGS)

.PHONY: fuzz
fuzz: setup  ## a million spoilt messages, files and bodies for all that reads them (CASES=n, SEED=n)
	@$(PYTHON) -m scripts.fuzz --seed $(or $(SEED),0) --cases $(or $(CASES),1000000) $(ARGS)

.PHONY: edge
edge: setup  ## edge cases only: any order, any junk, malformed files
	@$(PYTEST) $(EDGE_TESTS)

.PHONY: docs
docs: setup reference  ## write the generated pages, then run every command and snippet of the docs
	@$(PYTEST) tests/docs

.PHONY: reference
reference: setup  ## write the generated reference pages
	@$(PYTHON) -m scripts.reference

.PHONY: e2e
e2e: setup  ## end to end: the installed product
	@$(PYTEST) tests/e2e

.PHONY: mesh
mesh: setup  ## many machines: real agents, each in a network of its own (needs root)
	@$(PYTEST) tests/mesh

.PHONY: bench
bench: setup  ## measure placement, peers in the same run (NAME=cluster, jobs, mesh, shipping, …)
	@$(PYTHON) -m benchmarks.$(or $(NAME),placement) $(ARGS)

.PHONY: rows
rows: setup  ## which promises are proven, and what is left
	@$(PYTHON) -m scripts.rows

.PHONY: rows-audit
rows-audit: setup  ## ten random rows with the source of their tests (SEED=2 for one seed)
	@$(PYTHON) -m scripts.rows --audit $(if $(SEED),--seed $(SEED)) $(if $(DICE),--dice $(DICE))

.PHONY: clean
clean:  ## remove what was made here, and the caches
	rm -rf .venv build dist *.egg-info .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis "$(CACHE)"
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
