# Everything runs in .venv, which the first target builds from constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test lint types check clean

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
	$(BIN)/python -m pytest --doctest-modules src
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
