# Everything from a fresh clone with Python 3.11 or later and make. Each target says what it does and
# may be run again: what is done already is not done twice.

VENV := .venv
BIN := $(VENV)/bin
ROUNDS ?= 30
SEEDS ?= 10000
SCENARIO ?= rest-api
# Where the one engine that is compiled at install is tested, apart from everything else.
LLAMA_BIN := .llama-venv/bin

# The first interpreter that is new enough; PYTHON=... names another.
PYTHON ?= $(shell for candidate in python3.11 python3 python3.13 python3.12 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo $$candidate; break; }; done)

# Installed state is keyed by the dependencies: another pyproject.toml means another stamp.
HASH := $(shell cksum < pyproject.toml | tr -d ' \t')
RUN_STAMP := $(VENV)/.installed-$(HASH)
DEV_STAMP := $(VENV)/.installed-dev-$(HASH)

.DEFAULT_GOAL := help
.PHONY: help venv serve test lint types contracts check demo determinism kill-test simulate llama-test bench clean

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 14

venv: $(DEV_STAMP)  ## Create .venv with everything development needs

serve: $(RUN_STAMP)  ## Migrate the data folder (./data) and serve on 127.0.0.1:7700
	@echo "==> serving (address and data folder follow); Ctrl-C stops"
	@exec $(BIN)/lambo serve

test: $(DEV_STAMP)  ## Run the whole test suite
	@echo "==> running the whole test suite"
	@$(BIN)/python -m pytest

lint: $(DEV_STAMP)  ## Check format and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(DEV_STAMP)  ## Check types, strictly
	$(BIN)/mypy

contracts: $(DEV_STAMP)  ## Check who imports whom
	$(BIN)/lint-imports

check: lint types contracts test  ## Run what continuous integration runs, in this folder

demo: $(RUN_STAMP)  ## Run the two-agent scenario, tell it, and let you look around (SCENARIO=cloud-ops for the other)
	@$(BIN)/lambo demo $(SCENARIO) --stay

determinism: $(DEV_STAMP)  ## Run the demo in fresh processes, ROUNDS times, and compare the bytes
	@echo "==> $(ROUNDS) fresh runs of the demo"
	@DETERMINISM_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/process/test_determinism.py -s

kill-test: $(DEV_STAMP)  ## Kill the server under load, ROUNDS times, and count what was lost
	@echo "==> $(ROUNDS) rounds of SIGKILL and SIGTERM under load"
	@KILL_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest tests/process/test_kill.py -s

simulate: $(DEV_STAMP)  ## Play SEEDS runs of servers that fail on a simulated store, and audit each
	@echo "==> $(SEEDS) seeds of two servers, kills, pauses, broken connections and retries"
	@SIMULATION_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/simulation/test_durability.py -s -p no:logging -k no_seed

# A wheel that was built here before is found in pip's cache; compiling one anew takes minutes.
llama-test: | .llama-venv/.created  ## Test embedding by llama.cpp, in a .llama-venv (compiles it if no wheel is cached)
	@wheel=$$($(LLAMA_BIN)/python -m pip cache list --format=abspath llama_cpp_python | sort -V | tail -n 1); \
	echo "==> installing lambo and $${wheel:-llama-cpp-python, to be compiled,} into .llama-venv"; \
	$(LLAMA_BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,llama]' \
		"$${wheel:-llama-cpp-python}[server]"
	@$(LLAMA_BIN)/python -c 'import llama_cpp.server.app'
	@echo "==> testing embedding by llama.cpp, in the test's process and by its own server"
	@$(LLAMA_BIN)/python -m pytest -rs tests/unit/memory/embed tests/process/test_llama_server.py

bench: $(DEV_STAMP)  ## Measure and print the speed report
	@$(BIN)/python -m benchmarks

clean:  ## Remove what these targets made, data excepted
	rm -rf $(VENV) .ci-venv .llama-venv build dist *.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# A stamp, not bin/python: that one is there before an interrupted creation is complete.
$(VENV)/.created .llama-venv/.created:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or later is needed and none was found; install it, or run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi
	@echo "==> creating $(@D) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(@D)
	@touch $@

$(RUN_STAMP): | $(VENV)/.created
	@if [ -f $(DEV_STAMP) ]; then :; else \
		echo "==> installing lambo into $(VENV) (once, and after a change of pyproject.toml)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . || exit 1; \
	fi
	@touch $@

$(DEV_STAMP): | $(VENV)/.created
	@echo "==> installing lambo and its development tools into $(VENV) (once, and after a change of pyproject.toml)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
