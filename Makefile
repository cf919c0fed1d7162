.DEFAULT_GOAL := help
VENV   := .venv
PYTHON := $(VENV)/bin/python
PIP    := $(PYTHON) -m pip install --disable-pip-version-check --quiet -c constraints.txt

.PHONY: help demo test stress check bench pages docs format clean

help:
	@echo "make demo    train and compare three networks on digits, and write a report"
	@echo "make test    run the tests; ARGS=\"-k name\" is passed to pytest"
	@echo "make stress  all spectra, sizes and scales of tests/stress, of which the tests take a sample: hours"
	@echo "make check   format, lint, types, import order"
	@echo "make bench   time alem beside its peers; ARGS=--quick is passed on"
	@echo "make pages   measure what the other pages of docs/results/ show"
	@echo "make docs    build the documentation into docs/_build/html/"
	@echo "make format  rewrite the sources in the house format"
	@echo "make clean   remove caches and build outputs (.venv stays)"

# One stamp for each extra. torch goes first and alone, so that its pin alone decides which build is
# taken.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed-train
	$(PYTHON) -m alem train --data digits --log ln,mul,gap --seeds 3 --epochs 20 --out alem-demo

# A thread for each worker: more would compete for the same cores.
test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 $(ARGS)

stress: $(VENV)/.installed-dev
	ALEM_STRESS=full OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 tests/stress $(ARGS)

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.installed-bench
	$(PYTHON) -m benchmarks.speed $(ARGS)

pages: $(VENV)/.installed-dev
	@set -e; for module in $(basename $(notdir $(filter-out benchmarks/_% benchmarks/speed.py benchmarks/epochs.py benchmarks/estimators.py benchmarks/blocks.py benchmarks/devices.py benchmarks/faults.py,$(wildcard benchmarks/*.py)))); do \
	    echo "benchmarks.$$module"; $(PYTHON) -m benchmarks.$$module; done

docs: $(VENV)/.installed-docs
	$(PYTHON) -m sphinx -W --keep-going -b html docs docs/_build/html

format: $(VENV)/.installed-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:
	rm -rf build dist docs/_build .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find src tests benchmarks examples docs -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
