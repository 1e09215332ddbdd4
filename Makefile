# Everything runs in .venv, which the targets make themselves. Only Python (3.11 or later) and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
JOBS ?= 2
N ?= 10
SEED_OPTION := $(if $(SEED),--seed $(SEED))

.PHONY: help demo setup test test-repeat test-slow hostile lint types bench bench-peers reproduce docs dist dist-check clean

help:
	@echo "make demo    train rankers on artificial data and compare them (installs the core); DEMO=all for all"
	@echo "make test    run all tests in random order (installs the development set); SEED=… for a known order"
	@echo "make test-repeat  tests that start threads and tests that these could disturb, in one process, N=10 times"
	@echo "make test-slow  tests of a cluster whose workers hang and are restarted, too"
	@echo "make hostile  every ranker meets hostile numbers (ten minutes); HOSTILE='--targets ranksvm' for one"
	@echo "make lint    ruff and mypy"
	@echo "make bench   speed, memory and quality beside the peers; BENCH=reading for one file"
	@echo "make bench-peers  our rankers and other libraries' at equal quality and equal time; BENCH='--data artificial'"
	@echo "make reproduce  the papers' tables again: DATA=DIR (LETOR 3.0's OHSUMED); SIZE=--full for the paper's size"
	@echo "make docs    build the site into site/; open site/index.html, no server needed"
	@echo "make dist    build wheel and sdist into dist/; make dist-check tries the wheel in an empty environment"
	@echo "make clean   remove .venv and caches"

DEMO ?= regression,ranksvm,listnet,structured-svm,structured-svm-tight,rankmm-1,rsrank-sparse,lambdamart,gbrank

demo: $(VENV)/.core
	$(BIN)/gainful compare --rankers $(DEMO)
	@echo "gainful rankers lists all rankers; gainful compare DATA compares them on your data"

setup: $(VENV)/.dev

# Tests that start clusters come in processes of their own: threads of a cluster disturb tests that watch the process.
# PYTEST may select tests of one kind only; pytest ends with 5 where it finds none of the other.
test: $(VENV)/.dev
	@one=0; other=0; \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not cluster" $(SEED_OPTION) $(PYTEST) || one=$$?; \
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m cluster $(SEED_OPTION) $(PYTEST) || other=$$?; \
	case "$$one $$other" in "0 0" | "0 5" | "5 0") ;; *) exit 1 ;; esac

# Tests that could disturb others (clusters, servers, threads, signals) and tests that are easily disturbed (Hypothesis),
# in one process, N times in different orders.
TOGETHER := tests/cluster tests/data/test_blocks.py tests/serve tests/cli tests/rankers/test_rankboost.py tests/losses/test_losses.py tests/metrics
test-repeat: $(VENV)/.dev
	for i in $$(seq $(N)); do $(BIN)/python -m pytest --mixed $(or $(PYTEST),$(TOGETHER)) || exit 1; done

# Those that wait for minutes: workers of a cluster that hang and are restarted.
test-slow: $(VENV)/.dev
	GAINFUL_SLOW=1 $(BIN)/python -m pytest tests/cluster $(SEED_OPTION) $(PYTEST)

# Infinite, huge, subnormal, masked, damaged: refused in one line or scored, by every ranker.
hostile: $(VENV)/.dev
	$(BIN)/python benchmarks/hostile.py $(HOSTILE)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py $(BENCH)

# Resumes where it was stopped; BENCH=--fresh begins anew.
bench-peers: $(PEERS)/.made
	$(PEERS)/bin/python benchmarks/peers/run.py $(BENCH)

# Resumes where it was killed. OpenMP threads that wait for each other's cores would only spin: one a trial.
reproduce: $(VENV)/.dev
	@test -n "$(DATA)" || { echo "say where OHSUMED is: make reproduce DATA=DIR (the folder with Fold1 … Fold5)" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/gainful reproduce ohsumed --data "$(DATA)" --jobs $(JOBS) --results docs/results
	OMP_NUM_THREADS=1 $(BIN)/gainful reproduce artificial $(SIZE) --results docs/results

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

dist: $(VENV)/.dev
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist .

dist-check: dist
	$(BIN)/python tests/packaging/check_wheel.py dist/*.whl

clean:
	rm -rf $(VENV) $(PEERS) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gainful needs Python 3.11 or later; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing gainful into $(VENV) (about a minute) …"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing gainful and its development set into $(VENV) (a few minutes) …"
	@$(PIP) --editable '.[dev]'
	@touch $(VENV)/.core $@

# Other libraries' rankers, apart from .venv so that nothing of ours comes to lean on them.
$(PEERS)/.made: pyproject.toml constraints.txt benchmarks/peers/requirements.txt
	@echo "installing gainful and its peers into $(PEERS) (a few minutes) …"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --requirement benchmarks/peers/requirements.txt --editable .
	@touch $@
