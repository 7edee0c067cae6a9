# One target a chore. `make demo` and `make test` do all the set-up that they need.
PYTHON ?= python3
BIN := .venv/bin
NATIVE := $(wildcard native/*.cpp native/*.h native/bind/*.cpp native/bind/*.h) CMakeLists.txt
CPP := $(filter %.cpp %.h,$(NATIVE)) $(wildcard native/tests/*.cpp native/tests/*.h)

.PHONY: setup demo test check wheel bench docs format clean

setup: .venv/ready  ## a virtual environment with headrace and all that the other targets use

.venv/ready: pyproject.toml $(NATIVE)
	@echo "setting up: downloads PyTorch and compiles the core, some minutes the first time"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headrace needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev --editable ".[nmt,demo]"
	touch $@

demo: setup  ## train a small translation model and show what it does (STEPS=100: shorter; DATA=folder SRC=de TGT=en: your files)
	$(BIN)/python examples/demo.py $(if $(DATA),--data=$(DATA)) $(if $(SRC),--src=$(SRC)) $(if $(TGT),--tgt=$(TGT)) $(if $(STEPS),--steps=$(STEPS))

test: setup  ## all tests, those of the documentation and of the native core included
	$(BIN)/python -m pytest

check: setup  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy

wheel: setup  ## the package as users get it, in build/dist; looked through, installed elsewhere and tried
	rm -rf build/dist
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --config-settings=build-dir=build/wheel -w build/dist .
	$(BIN)/python tests/packaging/check_wheel.py build/dist/*.whl

bench: setup  ## benchmarks, each contender in a process of its own; JSON goes to build/bench
	$(BIN)/python -m benchmarks

docs: setup  ## the documentation as a web site, in build/site
	$(BIN)/mkdocs build --strict --quiet --site-dir build/site

format: setup  ## put the sources into the common form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

clean:  ## remove what the other targets made
	rm -rf .venv build demo
