# Everything runs in .venv, which the first target builds from constraints.txt. The suites that need an environment of
# their own (test-core, test-bounds, test-wheel, test-annif) make a fresh one below build/venvs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
VENVS := build/venvs
TEST_TOOLS := pytest pytest-timeout pytest-xdist hypothesis
PYTEST := -m pytest --numprocesses 2 --dist worksteal
# Threads that wait sleep instead of spinning: two test processes with a thread per core each would keep one another
# from working. The number of threads stays that of the machine.
export OMP_WAIT_POLICY ?= passive
export OPENBLAS_THREAD_TIMEOUT ?= 4

# Selections of the suites below; files are named without their folders, since their names are unique.
# Without numba the plain loops of the rankers and of the joint decoder take long, so their tests are left out.
CORE_TESTS := src tests/_utils tests/contracts tests/datasets tests/embedding tests/mapping tests/metrics \
  tests/neighbors tests/persistence tests/preprocessing tests/test_project.py
# Together these use NumPy, SciPy, scikit-learn, numba, faiss, cyclopts, rich, starlette, uvicorn, matplotlib, jinja2.
BOUNDS_TESTS := tests/datasets tests/decoding tests/metrics tests/neighbors tests/persistence tests/preprocessing \
  $(shell find tests -name test_cli_golden_path.py -o -name test_figures.py -o -name test_card.py -o -name test_app.py)
# These read what the wheel must hold beside modules: the page, templates, tables.
WHEEL_TESTS := tests/persistence tests/inspection \
  $(shell find tests -name test_cli_golden_path.py -o -name test_catalog.py -o -name test_app.py -o -name test_stats.py)

# The core of the library under the versions of NumPy, SciPy, scikit-learn and Starlette that Annif pins.
ANNIF_TESTS := tests/annif tests/datasets tests/persistence tests/preprocessing \
  $(shell find tests -name test_concepts.py -o -name test_cli_golden_path.py -o -name test_app.py)

.PHONY: help axe demo docs documents screenshots hashes test fuzz crash test-machines test-dask test-core test-bounds test-wheel test-annif coverage lint types clean

help:                   ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

# What finds faults of accessibility in the page; its test skips where there is no npm to get it.
AXE := build/npm/node_modules/axe-core/axe.min.js
$(AXE):
	npm install --silent --no-audit --no-fund --prefix build/npm axe-core@4.14.0

axe: $(AXE)             ## get axe-core through npm for the test of the page's accessibility

demo: $(READY)          ## train on the built-in data and show what comes out
	$(BIN)/sldl demo

docs: $(READY)          ## the documentation site, into build/docs
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	$(BIN)/sphinx-build -W --keep-going --quiet -j auto docs build/docs
	@echo "open build/docs/index.html"

documents: $(READY)     ## rewrite the measured blocks of README.md and docs/ from results/
	$(BIN)/python benchmarks/documents.py --write

screenshots: $(READY)   ## pictures of the page, wide, narrow and dark, into build/screenshots; needs Chromium
	$(BIN)/python -m pytest --quiet tests/serve/test_serve_page.py
	@ls build/screenshots

test: lint types        ## style, layers, types, doctests and tests
	$(BIN)/python $(PYTEST)

fuzz: $(READY)          ## damaged and forged models, damaged data files, 2,000 of each kind (FUZZ="--count 10000" for more)
	$(BIN)/python benchmarks/fuzz.py $(FUZZ)

crash: $(READY)         ## writers killed at every system call, without space, and two at once; needs strace
	$(BIN)/python benchmarks/crash.py $(CRASH)

hashes: $(READY)        ## write constraints-hashed.txt: every file that users install, with its SHA-256
	$(BIN)/python .ci/hashes.py

test-machines: $(READY) ## the tests and fits that depend on numbers, under other threads and processors
	$(BIN)/python tests/machines/run.py

test-dask: $(READY)     ## workers, schedulers, clients and files that fail in work on Dask
	$(BIN)/python -m pytest -o addopts="" tests/dask/faults.py $(DASK)

test-core:              ## tests in an environment without any extra; those that need one skip
	$(PYTHON) -m venv --clear $(VENVS)/core
	$(VENVS)/core/bin/python -m pip install --quiet --constraint constraints.txt $(TEST_TOOLS) --editable .
	PYSLDL_TEST_WITHOUT_EXTRAS=1 $(VENVS)/core/bin/python $(PYTEST) --doctest-ignore-import-errors $(CORE_TESTS)

test-bounds:            ## tests with the oldest versions that pyproject.toml allows (but torch, which is large)
	$(PYTHON) -m venv --clear $(VENVS)/bounds
	$(PYTHON) .ci/lower_bounds.py plot fast faiss serve dev > $(VENVS)/lower-bounds.txt
	$(VENVS)/bounds/bin/python -m pip install --quiet --constraint $(VENVS)/lower-bounds.txt $(TEST_TOOLS) \
	  pandas polars safetensors --editable ".[plot,fast,faiss,serve]"
	$(VENVS)/bounds/bin/python $(PYTEST) -W ignore::DeprecationWarning $(BOUNDS_TESTS)

test-wheel: $(READY)    ## build sdist and wheel, and test the installed wheel instead of the tree
	rm -rf build/dist
	$(BIN)/python -m build --outdir build/dist
	$(BIN)/python .ci/sbom.py build/dist/pysldl.cdx.json
	$(PYTHON) -m venv --clear $(VENVS)/wheel
	$(VENVS)/wheel/bin/python -m pip install --quiet --constraint constraints.txt $(TEST_TOOLS) \
	  "$$(ls build/dist/*.whl)[plot,fast,serve]"
	cd $(VENVS) && wheel/bin/python -c "import pysldl; assert 'site-packages' in pysldl.__file__, pysldl.__file__"
	$(VENVS)/wheel/bin/python $(PYTEST) $(WHEEL_TESTS)
	$(VENVS)/wheel/bin/sldl demo

test-annif:             ## our backend in the installed Annif, and the core with the versions that Annif pins
	$(PYTHON) -m venv --clear $(VENVS)/annif
	$(VENVS)/annif/bin/python -m pip install --quiet $(TEST_TOOLS) omikuji --editable ".[annif,fast,serve,skos]"
	$(VENVS)/annif/bin/python $(PYTEST) -W ignore::DeprecationWarning $(ANNIF_TESTS)

coverage: $(READY)      ## the share of lines that the tests run (COVERAGE=--record keeps it for the documents)
	-$(BIN)/python $(PYTEST) --cov=pysldl --cov-report=  # some tests fail as coverage.py cannot write its own files
	$(BIN)/python benchmarks/coverage_by_package.py --missing estimator persistence serve $(COVERAGE)

lint: $(READY)          ## style, and the layers of the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(READY)         ## types
	$(BIN)/mypy

clean:                  ## remove what was built
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist
