PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint types check bench site clean

help:
	@echo "make demo   make .venv, install, certify w10000, a graph of 10,000 poses that ships with GTSAM"
	@echo "make test   make .venv, install, lint, types, all tests"
	@echo "make site   the documentation as web pages, in build/site"
	@echo "make bench DATA=folder   benchmarks on a folder of g2o files; writes docs/benchmarks.md"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gtsam 4.3 needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed

demo: $(VENV)/installed
	$(BIN)/gtsam-sdp certify w10000

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/pyright --pythonpath $(BIN)/python

# a process for each core, and then a second kernel of OpenBLAS for what depends on rounding (without effect on other
# processors)
check: export OPENBLAS_NUM_THREADS := 1
check: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal
	OPENBLAS_CORETYPE=Prescott $(BIN)/python -m pytest -n auto --dist worksteal tests/relaxation tests/regressions tests/proof \
		tests/certification

test: lint types check

bench: $(VENV)/installed
	$(BIN)/python -m tests.benchmarks.certify_datasets $(DATA)

site: $(VENV)/installed-dev
	$(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml

clean:
	rm -rf $(VENV) build dist *.egg-info
