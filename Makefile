.DEFAULT_GOAL := help
.PHONY: help demo quick test full setup sandbox fix lint types layers shape docs docs-write picture unit tests build escape contracts verification test-agents torture torture-house repositories bench changelog clean

BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of Python processes; each would compile its sources again
ARGS ?=
KILLS ?= 600
SEED ?=
TORTURED := benchmarks/results/torture$(SEED).json
# more than the cores of CI, for many tests wait for processes; each worker takes ten seconds of processor time
WORKERS ?= 6
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal
COLLECTED := .hypothesis/constants

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' Makefile

demo:  ## a whole session on a throw-away repository with scripted agents (ARGS=--json for machines)
	@scripts/setup.sh run
	@$(BIN)/blueflame demo $(ARGS)

quick: ARGS += --hypothesis-profile=quick
quick: lint types layers shape unit  ## the loop while you work: lint, types, import contract, shape, unit tests

test:  ## everything CI runs: first what fails fastest, then types beside the tests; sets itself up
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint layers shape docs $(COLLECTED)
	@$(MAKE) --no-print-directory --jobs=2 types tests  # the tests leave a sixth of two cores idle

full: export ARGS += --hypothesis-profile=full
full: test escape contracts test-agents torture  ## test, then what takes long and changes rarely; before a release

setup:  ## make .venv with all that development needs
	@scripts/setup.sh dev

sandbox:  # the same for targets that start agents
	@scripts/setup.sh test

fix: setup  ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lint: setup
	$(BIN)/ruff check --no-cache . && $(BIN)/ruff format --check .  # a cache misses what a moved file means for others

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

shape: setup  ## figures about names, files and words; fails where one is over its limit
	$(BIN)/python scripts/shape.py --check

docs: setup  ## the generated pages are what the code says
	$(BIN)/python scripts/references.py --check
	$(BIN)/python scripts/attacks.py --check
	$(BIN)/python scripts/verification.py --check
	$(BIN)/python scripts/contracts.py --check

docs-write: setup  ## write the generated pages
	$(BIN)/python scripts/references.py
	$(BIN)/python scripts/attacks.py
	$(BIN)/python scripts/verification.py --write

picture: sandbox  ## run the demo and draw it for the README
	$(BIN)/python scripts/picture.py

$(COLLECTED): | setup  # in a new clone each worker would compile all tests, and read all sources for Hypothesis
	@found=$$($(BIN)/pytest --collect-only -qq 2>&1) || { echo "$$found"; exit 1; }

unit: setup
	$(PYTEST) -n 2 tests/unit $(ARGS)  # these do not wait

tests: sandbox
	env -u MAKEFLAGS -u MFLAGS scripts/in_memory.sh $(PYTEST) $(ARGS)  # a make that a test starts has its own

build: setup  ## wheel and source distribution in dist/, by python -m build
	rm -rf dist && $(BIN)/python -m build --quiet --no-isolation

contracts: sandbox  ## every fact about the claude binary that we rely on; needed when its runtime or its pin changed
	$(PYTEST) tests/contracts/claude $(ARGS)
	$(PYTEST) -m real_claude $(ARGS)
	$(BIN)/python scripts/contracts.py

escape: sandbox  ## all attacks on the walls, each as root and as an ordinary user
	BLUEFLAME_EVERY_USER=1 $(PYTEST) tests/escape $(ARGS)

verification: sandbox  ## the 58 verification tests: a table of what each proves, and whether it passed
	@$(BIN)/python scripts/verification.py -n $(WORKERS) --dist worksteal $(ARGS)

test-agents: sandbox  ## Codex, Gemini CLI, opencode and an ACP agent for real, against our own model server (npm installs them)
	@scripts/agents.sh
	$(BIN)/pytest tests/contracts/agents -p no:xdist $(ARGS)

torture: sandbox  ## kill it hundreds of times (KILLS=600 at random, SEED=2 adds other ones); docs/evidence/reliability.md
	@mkdir -p $(dir $(TORTURED))
	@BLUEFLAME_TORTURE=$(KILLS) BLUEFLAME_TORTURE_SEED=$(SEED) BLUEFLAME_TORTURE_RESULTS=$(TORTURED) \
	$(BIN)/pytest tests/crash -p no:xdist $(ARGS); \
	code=$$?; $(BIN)/python scripts/reliability.py $(dir $(TORTURED))torture*.json docs/evidence/reliability.md; exit $$code

torture-house: sandbox  ## kill -9 the house, its sessions and agents at random while requests arrive (HOUSE_KILLS=60)
	BLUEFLAME_HOUSE_KILLS=$(or $(HOUSE_KILLS),60) $(BIN)/pytest tests/crash/test_crash_house.py -p no:xdist

repositories: sandbox  ## init and a landed change in a repository of each ecosystem; writes docs/evidence/repositories.md
	$(BIN)/python tests/repositories/run.py $(ARGS)

bench: sandbox  ## benchmarks: a table, and JSON in benchmarks/results/
	$(BIN)/python -m benchmarks

changelog: setup  ## move the fragments of changes/ into CHANGELOG.md, under the version of the package
	$(BIN)/towncrier build --yes --version "$$($(BIN)/python -c 'import blueflame; print(blueflame.__version__)')"

clean:
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
