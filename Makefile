# Everything runs in .venv, which the first target builds from constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# Threads that wait sleep instead of spinning: two test processes with a thread per core each would keep one another
# from working. The number of threads stays that of the machine.
export OMP_WAIT_POLICY ?= passive
export OPENBLAS_THREAD_TIMEOUT ?= 4

.PHONY: help demo test test-machines lint types clean

help:                   ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

demo: $(READY)          ## train on the embedded data and show what comes out
	$(BIN)/sldl demo

.PHONY: documents
documents: $(READY)     ## rewrite the measured blocks of README.md and docs/ from results/
	$(BIN)/python benchmarks/documents.py --write

test: lint types        ## style, types, doctests and tests
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test-machines: $(READY) ## the tests and fits that depend on numbers, under other threads and processors
	$(BIN)/python tests/machines/run.py

lint: $(READY)          ## style, and the layers of the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(READY)         ## types
	$(BIN)/mypy

clean:                  ## remove what was built
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
