# The inner loop. `PYTHON` is the interpreter of a development environment; see CONTRIBUTING.md.
PYTHON ?= .venv/bin/python
# Tests are compiled once, wherever compiled files are not wanted elsewhere.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: check unit test format docs constraints release

check: ## style, types, layers and the unit tests: under 20 s on 2 cores
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(dir $(PYTHON))lint-imports
	$(PYTHON) -m pytest -q -n 2 --dist worksteal -m unit

unit: ## tests that start no process and import no torch
	$(PYTHON) -m pytest -q -m unit

test: ## everything that needs no GPU
	$(PYTHON) -m pytest -n 2 --dist worksteal

format: ## what ruff mends by itself
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

docs: ## pages that are made from the code and the recipes
	$(PYTHON) docs/generate.py

constraints: ## the hashed versions of a development environment, torch apart
	$(PYTHON) -m uv pip compile --quiet --universal --python-version 3.10 --extra dev --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate \
	  --output-file constraints.txt pyproject.toml

release: ## build, check and tag; publishes nothing
	$(PYTHON) scripts/release.py
