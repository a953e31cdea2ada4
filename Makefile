.DEFAULT_GOAL := help
.PHONY: help demo test check fix lint types layers unit docs docs-write bench shape clean setup

BIN := .venv/bin
ARGS ?=

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

demo:  ## a whole session on a throw-away repository with scripted agents (ARGS=--json for machines)
	@scripts/setup.sh run
	@$(BIN)/blueflame demo $(ARGS)

test: setup  ## set up, then everything CI runs, in the order that fails fastest
	@$(MAKE) --no-print-directory check

setup:  ## make .venv with all that development needs
	@scripts/setup.sh dev

check: lint types layers docs unit

fix:  ## format and mend what ruff can mend
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lint:
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types:
	$(BIN)/mypy

layers:
	$(BIN)/lint-imports

docs:  ## the generated references are what the code says
	$(BIN)/python scripts/references.py --check

docs-write:  ## write the generated references anew
	$(BIN)/python scripts/references.py

unit:
	$(BIN)/pytest -n 2 --dist worksteal

bench: setup  ## benchmarks: a table, and JSON in benchmarks/results/
	$(BIN)/python -m benchmarks

shape:  ## the shape of the tree (weather, not a wall)
	@$(BIN)/python ../shared/tools/shape.py src tests

clean:
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache
