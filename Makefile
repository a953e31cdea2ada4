.DEFAULT_GOAL := help
.PHONY: help demo test check fix lint types layers unit docs docs-write verification test-agents torture bench clean setup

BIN := .venv/bin
ARGS ?=
KILLS ?= 600
TORTURED := benchmarks/results/torture.json

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

demo:  ## a whole session on a throw-away repository with scripted agents (ARGS=--json for machines)
	@scripts/setup.sh run
	@$(BIN)/blueflame demo $(ARGS)

test: lint types layers docs unit  ## everything CI runs, in the order that fails fastest; sets itself up

setup:  ## make .venv with all that development needs
	@scripts/setup.sh dev

check: test

fix: setup  ## format and mend what ruff can mend
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lint: setup
	$(BIN)/ruff check --no-cache . && $(BIN)/ruff format --check .  # a cache misses what a moved file means for others

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

docs: setup  ## the generated references are what the code says
	$(BIN)/python scripts/references.py --check
	$(BIN)/python scripts/attacks.py --check
	$(BIN)/python scripts/verification.py --check

docs-write: setup  ## write the generated references anew
	$(BIN)/python scripts/references.py
	$(BIN)/python scripts/attacks.py
	$(BIN)/python scripts/verification.py --write

unit: setup
	$(BIN)/pytest -n 3 --dist worksteal  # one more than CI has cores: many tests wait for processes

verification: setup  ## the 58 verification tests: a table of what each proves, and whether it passed
	@$(BIN)/python scripts/verification.py -n 3 --dist worksteal $(ARGS)

test-agents: setup  ## Codex, Gemini CLI, opencode and an ACP agent for real, against a model of our own (npm installs them)
	@scripts/agents.sh
	$(BIN)/pytest tests/contracts/agents -p no:xdist $(ARGS)

torture: setup  ## kill it hundreds of times (KILLS=600 at random); a table, and docs/evidence/reliability.md
	@mkdir -p $(dir $(TORTURED))
	@BLUEFLAME_TORTURE=$(KILLS) BLUEFLAME_TORTURE_RESULTS=$(TORTURED) $(BIN)/pytest tests/crash -p no:xdist; \
	code=$$?; $(BIN)/python scripts/reliability.py $(TORTURED) docs/evidence/reliability.md; exit $$code

bench: setup  ## benchmarks: a table, and JSON in benchmarks/results/
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache
