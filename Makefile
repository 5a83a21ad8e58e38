# Each target sets up what it needs, in .venv, from the lock files in requirements/.
# All that the machine must have is Python 3.11 or newer, with its venv module, and make; for `make compiled`, also a C
# compiler and Python's headers.

.DEFAULT_GOAL := help

# `make PYTHON=/path/to/python3.12` picks one; otherwise the first of these that is new enough.
PYTHON  ?=
PYTHONS := python3 python3.13 python3.12 python3.11 python3.14

VENV := .venv
BIN  := $(VENV)/bin
COMPILED := .venv-compiled
# Proxies that the benchmark compares with, and that cannot share an environment with us.
PEERS := .venv-peers
SMOKESCREEN := v0.1.0
PIP  := $(BIN)/python -m pip --disable-pip-version-check --quiet install
# The package itself, in place, with the build tools of the lock instead of freshly downloaded ones.
SELF := --no-deps --no-build-isolation --editable .

DEMO_ARGS  ?=
TEST_ARGS  ?=
BENCH_ARGS ?=
STORM_ARGS ?=
CHAOS_ARGS ?=
FUZZ_ARGS  ?=
SOAK_ARGS  ?=
LOCK_ARGS  ?=

LOCK    = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
          --annotation-style line --custom-compile-command "make lock" $(LOCK_ARGS)
FOLDERS = $(wildcard proxy tests bench trials tools charts hatch_build.py)

.PHONY: help demo demo-degrade test lint types contracts check format bench storm chaos fuzz soak compiled test-compiled golden image cluster-test charts lock clean

help: ## this page
	@echo "Waterclock holds a whole agent job to one time budget."
	@echo
	@echo "  make demo         first: see it work, in under a minute"
	@echo "  make test         then: the tests"
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1|/p' $(firstword $(MAKEFILE_LIST)) \
	  | awk -F'|' '{ printf "%-23s %s\n", $$1, $$2 }'
	@echo
	@echo "Arguments go through: make test TEST_ARGS='-k budget -x', make bench BENCH_ARGS=--help,"
	@echo "make storm STORM_ARGS=--short, make chaos CHAOS_ARGS=--short (fuzz and soak likewise),"
	@echo "make demo DEMO_ARGS=..., make lock LOCK_ARGS=--upgrade,"
	@echo "make PYTHON=/path/to/python3 demo."

demo: $(VENV)/.run ## three tool calls under one budget, told step by step
	@$(BIN)/waterclock demo $(DEMO_ARGS)

demo-degrade: $(VENV)/.ready ## a chat that runs out of time, and answers all the same
	@$(BIN)/waterclock demo-degrade $(DEMO_ARGS)

test: $(VENV)/.ready ## all tests; one that misses an external program says so and is skipped
	@$(BIN)/python -m pytest -q $(TEST_ARGS)

lint: $(VENV)/.ready ## style, likely bugs and banned footguns (ruff)
	@$(BIN)/ruff check $(FOLDERS)
	@$(BIN)/ruff format --check $(FOLDERS)

types: $(VENV)/.ready ## strict types (mypy)
	@$(BIN)/mypy

contracts: $(VENV)/.ready ## who may import whom (import-linter)
	@$(BIN)/lint-imports --no-logo

check: lint types contracts test ## the four above, as a change must pass them

format: $(VENV)/.ready ## mend what lint can mend by itself
	@$(BIN)/ruff check --fix-only $(FOLDERS)
	@$(BIN)/ruff format $(FOLDERS)

bench: $(VENV)/.bench ## what a call costs, beside other proxies
	@if command -v $(CC) >/dev/null; then \
	  $(MAKE) --no-print-directory compiled; \
	else \
	  echo "There is no C compiler ($(CC)): without the row of the compiled build."; \
	fi
	@$(MAKE) --no-print-directory $(PEERS)/.ready || echo "Without mitmproxy and proxy.py: see above."
	@if ! command -v go >/dev/null; then \
	  echo "There is no Go: without Smokescreen."; \
	elif ! $(MAKE) --no-print-directory $(PEERS)/bin/smokescreen; then \
	  echo "Without Smokescreen: see above."; \
	fi
	@$(BIN)/python -m bench $(BENCH_ARGS)

storm: $(VENV)/.run ## many agents and a slow tool: what admission is for
	@$(BIN)/python -m bench storm $(STORM_ARGS)

chaos: $(VENV)/.ready ## an upstream that misbehaves, clients that leave, a sidecar that is killed; then simulated
	@$(BIN)/python -m trials chaos $(CHAOS_ARGS)
	@$(BIN)/python -m trials simulation $(CHAOS_ARGS)

fuzz: $(VENV)/.ready ## random and mutated input, to all that is read from outside
	@$(BIN)/python -m trials fuzz $(FUZZ_ARGS)

soak: $(VENV)/.ready ## half load for an hour: whether memory, descriptors, tasks and ledger level off
	@$(BIN)/python -m trials soak $(SOAK_ARGS)

compiled: $(COMPILED)/.run ## the wheel for production: the busiest modules in C, into dist and .venv-compiled

test-compiled: $(COMPILED)/.test ## all tests again, on that wheel
	@WATERCLOCK_COMPILE=1 PYTHONSAFEPATH=1 $(COMPILED)/bin/python -m pytest -q -o pythonpath= $(TEST_ARGS)

golden: $(VENV)/.ready ## write anew what tests/kube/golden expects of injected pods
	@GOLDEN=write $(BIN)/python -m pytest -q tests/kube/injection/test_golden.py

image: ## the container image; IMAGE=, LOCK=, BASE=, COMPILE=, ARCHIVE=, BUILD_ARGS= (see tools/image)
	@tools/image

cluster-test: $(VENV)/.ready ## the whole life on a real cluster; KUBECONFIG=, IMAGE= (see tests/cluster/conftest.py)
	@CLUSTER_TEST=1 $(BIN)/python -m pytest -q tests/cluster $(TEST_ARGS)

charts: $(VENV)/.ready ## write what is made of the chart and for it: schema, CRD, docs/chart.md, manifests/
	@$(BIN)/python -m tools.charts

lock: $(VENV)/.ready ## write requirements/*.txt anew after a change in pyproject.toml
	@$(LOCK) pyproject.toml --extra kubernetes --extra redis --extra semantic --group build --group compile \
	  --group test --group lint --output-file requirements/dev.txt
	@$(LOCK) pyproject.toml --constraints requirements/dev.txt --output-file requirements/run.txt
	@$(LOCK) pyproject.toml --group build --group bench --constraints requirements/dev.txt \
	  --output-file requirements/bench.txt
	@$(LOCK) --group peers --output-file requirements/peers.txt
	@$(LOCK) pyproject.toml --extra kubernetes --extra redis --constraints requirements/dev.txt \
	  --output-file requirements/image.txt
	@$(LOCK) pyproject.toml --extra semantic --constraints requirements/dev.txt --output-file requirements/cache.txt
	@$(LOCK) --group build --constraints requirements/dev.txt --output-file requirements/build.txt
	@$(LOCK) --group build --group compile --constraints requirements/dev.txt \
	  --output-file requirements/compile.txt

clean: ## remove what make made: .venv, caches, builds (never the journal in .waterclock)
	@rm -rf $(VENV) $(COMPILED) $(PEERS) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------------- set-up
# A stamp is touched only when its installation went through, so that an interrupted one is done again.

$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml | $(BIN)/python
	@echo "Installing what waterclock needs to run into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements/run.txt -r requirements/build.txt
	@$(PIP) $(SELF)
	@touch $@

$(VENV)/.ready: requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Installing the tools for development into $(VENV) (once, a minute or so) ..."
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) $(SELF)
	@touch $(VENV)/.run $@

$(VENV)/.bench: requirements/bench.txt pyproject.toml | $(BIN)/python
	@echo "Installing what the benchmark compares with into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements/bench.txt
	@$(PIP) $(SELF)
	@touch $(VENV)/.run $@

$(PEERS)/.ready: requirements/peers.txt tools/optimized_python.py | $(BIN)/python
	@python=$$($(BIN)/python tools/optimized_python.py) && \
	echo "Installing mitmproxy and proxy.py into $(PEERS), with $$python ..." && \
	$$python -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/peers.txt
	@touch $@

$(PEERS)/bin/smokescreen:
	@echo "Building Smokescreen into $(PEERS) (a minute or so) ..."
	@mkdir -p $(PEERS)/bin
	@GOBIN="$(CURDIR)/$(PEERS)/bin" go install github.com/stripe/smokescreen@$(SMOKESCREEN)

$(VENV)/.compile: requirements/compile.txt | $(BIN)/python
	@echo "Installing what compiles into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements/compile.txt
	@touch $@

# Of the interpreters that can run what $(BIN)/python compiles, one that was built with optimizations.
$(COMPILED)/.deps: requirements/run.txt tools/optimized_python.py | $(BIN)/python
	@python=$$($(BIN)/python tools/optimized_python.py) && \
	echo "Installing what waterclock needs to run into $(COMPILED), with $$python ..." && \
	$$python -m venv --clear $(COMPILED)
	@$(COMPILED)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/run.txt
	@touch $@

# Compiled anew whenever a source is newer: unlike the editable installation in $(VENV), this one does not follow edits.
$(COMPILED)/.run: hatch_build.py pyproject.toml $(shell find proxy -name '*.py') $(VENV)/.compile $(COMPILED)/.deps
	@echo "Compiling (a minute or so) ..."
	@rm -rf build/compiled
	@WATERCLOCK_COMPILE=1 $(BIN)/python -m hatchling build --target wheel --directory build/compiled
	@$(COMPILED)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --force-reinstall build/compiled/*.whl
	@mkdir -p dist && cp build/compiled/*.whl dist/
	@touch $@

# The tests and their tools are those of the checkout and of $(VENV). They come last on the path of $(COMPILED), so that
# `proxy` is the one in the wheel.
$(COMPILED)/.test: $(VENV)/.ready $(COMPILED)/.run
	@tools=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	place=$$($(COMPILED)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	printf '%s\n' "$$PWD" "$$tools" >"$$place/tests-of-the-checkout.pth"
	@touch $@

$(BIN)/python:
	@old=; bare=; \
	for python in $(or $(PYTHON),$(PYTHONS)); do \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  if ! $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	    old="$$old $$python is $$version."; \
	  elif ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	    bare="$$python $$version"; \
	  else \
	    echo "Making $(VENV) with $$python ($$version) ..."; \
	    $$python -m venv --clear $(VENV) && exit 0; \
	    echo "$$python could not make $(VENV); see above." >&2; exit 1; \
	  fi; \
	done; \
	if [ -n "$$bare" ]; then \
	  set -- $$bare; \
	  echo "$$1 is Python $$2, which is new enough, but its venv module is not installed." >&2; \
	  echo "On Debian and Ubuntu: sudo apt-get install python$$2-venv" >&2; \
	  echo "Then run make again." >&2; \
	else \
	  echo "Waterclock needs Python 3.11 or newer, and found none.$$old" >&2; \
	  echo "On Debian 12+ or Ubuntu 24.04+: sudo apt-get install python3 python3-venv" >&2; \
	  echo "On macOS with Homebrew: brew install python@3.13" >&2; \
	  echo "If one is installed elsewhere: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
	fi; \
	exit 1
