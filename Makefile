# Everything runs in .venv, which the targets make themselves. Only Python (3.11 or later) and make are needed.
# On Debian and Ubuntu, Python's module venv comes as python3-venv.
WINDOWS := $(filter Windows_NT,$(OS))
PYTHON ?= $(if $(WINDOWS),python,python3)
VENV ?= .venv
bin = $1/$(if $(WINDOWS),Scripts,bin)
BIN := $(call bin,$(VENV))
PEERS := .venv-peers
LOWEST := .venv-lowest
NEWEST := .venv-newest
# The versions to install; CONSTRAINTS= takes the newest. NEURAL=no leaves PyTorch out, and its tests skip.
CONSTRAINTS ?= constraints.txt
DEV := $(if $(filter no,$(NEURAL)),tools,dev)
KIND := $(if $(CONSTRAINTS),,-newest)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS),--upgrade --upgrade-strategy eager)
# Marks in an environment: that it was made, that an installation began, and what was installed last.
CORE_MARK := $(VENV)/.core$(KIND)
DEV_MARK := $(VENV)/.$(DEV)$(KIND)
JOBS ?= 2
# Tests wait for child processes and disks almost half of their time.
TEST_JOBS ?= 3
N ?= 10
SEED_OPTION := $(if $(SEED),--seed $(SEED))

.PHONY: help demo setup test test-here test-cluster test-repeat test-slow test-lowest test-newest fresh hostile lint types bench bench-peers bench-auto fuzz reproduce docs pictures dist dist-check clean

help:
	@echo "make demo    a search engine for Python's documentation, ranked by BM25 and by learning (installs the core)"
	@echo "make test    run all tests in random order (installs the development set); SEED=… for a known order"
	@echo "make test-repeat  tests that start threads and tests that these could disturb, in one process, N=10 times"
	@echo "make test-slow  slow tests, too: of a cluster whose workers are restarted, of the scripts of benchmarks/"
	@echo "make hostile  every ranker meets hostile numbers (ten minutes); HOSTILE='--targets ranksvm' for one"
	@echo "make test-lowest  part of the tests, with the lowest versions that pyproject.toml allows"
	@echo "make test-newest  the tests and the demo on the newest Python found here, with the newest packages, without PyTorch"
	@echo "make fresh   the demo and the tests on a bare Debian, as root: SUITE=bookworm, trixie or testing"
	@echo "make lint    ruff and mypy"
	@echo "make bench   speed, memory and quality beside the peers; BENCH=reading for one file"
	@echo "make bench-peers  our rankers and other libraries' at equal quality and equal time; BENCH='--data artificial'"
	@echo "make fuzz    damaged files, arrays and requests: MINUTES=1, SEED=0; CASES=100 of each; FORMATS=arrow,csv"
	@echo "make bench-auto  auto beside tuned boosters at equal time: DATA=DIR (real collections)"
	@echo "make reproduce  the papers' tables again: DATA=DIR (LETOR 3.0's OHSUMED); SIZE=--full for the paper's size"
	@echo "make pictures  the screenshots of the documentation again (needs Chromium)"
	@echo "make docs    build the site into site/; open site/index.html, no server needed"
	@echo "make dist    build wheel and sdist into dist/; make dist-check tries the wheel in an empty environment"
	@echo "make clean   remove .venv and caches"

demo: $(CORE_MARK)
	@$(BIN)/gainful demo $(DEMO)

setup: $(DEV_MARK)

# Tests that start clusters come in a process of their own: threads of a cluster disturb tests that watch the process. They
# wait more than they compute, so they run beside the others, and what they print comes in one piece.
# PYTEST may select tests of one kind only; pytest ends with 5 where it finds none of the other.
SELECTED := $(VENV)/.selected
RUN_PYTEST = $(BIN)/python -m pytest $(SEED_OPTION)
CLUSTER := tests/cluster tests/cli/test_cli_shards.py
CHECK_CODE = if [ $$code = 0 ]; then touch $(SELECTED); fi; [ $$code = 0 ] || [ $$code = 5 ]
# Bytecode is kept even if the environment says otherwise: each of many child processes would compile the package again.
test-here test-cluster: export PYTHONDONTWRITEBYTECODE :=
test: $(DEV_MARK)
	@rm -f $(SELECTED)
	@$(MAKE) --no-print-directory -j2 test-here test-cluster
	@test -e $(SELECTED) || { echo "no test is selected by $(PYTEST)" >&2; exit 5; }

test-here: $(DEV_MARK)
	@code=0; $(RUN_PYTEST) $(or $(PYTEST),--ignore tests/cluster) -n $(TEST_JOBS) --dist worksteal -m "not cluster" || code=$$?; $(CHECK_CODE)

test-cluster: $(DEV_MARK)
	@code=0; $(RUN_PYTEST) $(or $(PYTEST),$(CLUSTER)) -n 1 -m cluster > $(VENV)/cluster.log 2>&1 || code=$$?; cat $(VENV)/cluster.log; $(CHECK_CODE)

# Tests that could disturb others (clusters, servers, threads, signals) and tests that are easily disturbed (Hypothesis),
# in one process, N times in different orders.
TOGETHER := tests/cluster tests/data/test_blocks.py tests/serve tests/cli tests/rankers/test_rankboost.py tests/losses/test_losses.py tests/metrics
test-repeat: $(DEV_MARK)
	for i in $$(seq $(N)); do $(BIN)/python -m pytest --mixed --explore $(or $(PYTEST),$(TOGETHER)) || exit 1; done

# Those that wait for minutes (workers of a cluster that hang and are restarted) and those that run benchmarks.
test-slow: $(DEV_MARK)
	GAINFUL_SLOW=1 $(BIN)/python -m pytest tests/cluster tests/benchmarks $(SEED_OPTION) $(PYTEST)

# Infinite, huge, subnormal, masked, damaged: refused in one line or scored, by every ranker.
hostile: $(DEV_MARK)
	$(BIN)/python benchmarks/hostile.py $(HOSTILE)

# The core and these extras in their lowest declared versions, on the lowest Python; tools and what these need in turn
# come as new as they may. Without neural: the oldest PyTorch brings gigabytes of CUDA libraries.
LOWEST_EXTRAS := serve dask export tune
LOWEST_PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2> /dev/null || echo $(PYTHON))
LOWEST_TOOLS := pytest pytest-xdist hypothesis psutil httpx httpx2 cloudpickle pandas polars
LOWEST_TESTS := tests/formats/test_table.py tests/formats/test_round_trip.py tests/metrics/test_metric_values.py \
  tests/rankers/test_model_file.py tests/trees tests/cli/test_cli.py tests/serve/test_serve_requests.py \
  tests/exports/test_export_contract.py tests/tuning/test_store.py tests/data/test_ranking_data.py
LOWEST_RANKERS := regression or ranksvm or structured-svm-kernel or rankmm-1 or adarank-ndcg or rankboost or lambdamart
# Old versions use what newer ones of others call deprecated.
LOWEST_PYTEST = $(call bin,$(LOWEST))/python -m pytest -n $(JOBS) $(SEED_OPTION) -W default::DeprecationWarning
test-lowest: $(LOWEST)/.made
	$(LOWEST_PYTEST) $(or $(PYTEST),$(LOWEST_TESTS))
	$(LOWEST_PYTEST) tests/contract/test_rankers.py -k "$(LOWEST_RANKERS)"

# Newer packages than constraints.txt has, on a newer Python than it is for. PyTorch would bring gigabytes.
NEWEST_PYTHON = $(shell $(PYTHON) tests/packaging/newest_python.py)
NEWEST_MAKE = $(MAKE) --no-print-directory VENV=$(NEWEST) PYTHON=$(NEWEST_PYTHON) CONSTRAINTS= NEURAL=no
# Where these packages have no release for that Python yet, one line says so; whatever else fails is an error.
OURS := Retrying|ResolutionImpossible|onnection|No space|invalid
test-newest:
	@$(NEWEST_PYTHON) --version
	@rm -f $(NEWEST)/.tools-newest  # what came out since the last time counts
	@$(NEWEST_MAKE) setup > $(NEWEST).log 2>&1 || { cat $(NEWEST).log; ! grep -qE '$(OURS)' $(NEWEST).log; } || exit 2
	@if test -e $(NEWEST)/.tools-newest; then $(NEWEST_MAKE) test demo DEMO="$(DEMO) --no-open"; \
	  else echo "the newest packages cannot be installed on $(NEWEST_PYTHON), so no test ran there"; fi

fresh:
	@tests/packaging/fresh.sh $(or $(SUITE),trixie) "$(CURDIR)"

lint: $(DEV_MARK)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV_MARK)
	$(BIN)/python benchmarks/run.py $(BENCH)

# Resumes where it was stopped; BENCH=--fresh begins anew.
bench-peers: $(PEERS)/.made
	$(call bin,$(PEERS))/python benchmarks/peers/run.py $(BENCH)

# Failures are kept in fuzz/found; docs/fuzzing.md says what to do with them.
MINUTES ?= 1
fuzz: $(DEV_MARK)
	$(BIN)/python -m fuzz run $(if $(CASES),--cases $(CASES),--minutes $(MINUTES)) $(SEED_OPTION) \
	  $(if $(FORMATS),--formats $(FORMATS)) --jobs $(JOBS)

# Resumes where it was stopped. DATA=DIR has the real collections; BENCH='--seconds 300 --data mq2007' for a part.
bench-auto: $(PEERS)/.made
	$(call bin,$(PEERS))/python benchmarks/auto/run.py $(if $(DATA),--shared "$(DATA)") $(BENCH)

# Resumes where it was killed. OpenMP threads that wait for each other's cores would only spin: one a trial.
reproduce: $(DEV_MARK)
	@test -n "$(DATA)" || { echo "say where OHSUMED is: make reproduce DATA=DIR (the folder with Fold1 … Fold5)" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/gainful reproduce ohsumed --data "$(DATA)" --jobs $(JOBS) --results docs/results
	OMP_NUM_THREADS=1 $(BIN)/gainful reproduce artificial $(SIZE) --results docs/results

# Screenshots for the documentation, from the pages of a demo; they need Chromium.
pictures: $(DEV_MARK)
	$(BIN)/gainful demo --no-open
	$(BIN)/python docs/_site/pictures.py gainful-demo docs/pictures

docs: $(DEV_MARK)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

dist: $(DEV_MARK)
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist .

dist-check: dist
	$(BIN)/python tests/packaging/check_wheel.py dist/*.whl

clean:
	rm -rf $(VENV) $(PEERS) $(LOWEST) $(NEWEST) $(NEWEST).log site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment is made anew where its making or filling did not end (Ctrl-C, no network, a full disk), where its Python is
# gone, and where PYTHON= names another one.
VERSION = $(shell $1 -c 'import sys; print(sys.base_prefix, sys.version)' 2>&1)
ifneq ($(wildcard $(VENV)/.made),)
STALE := $(or $(if $(wildcard $(VENV)/.filling),the last installation into it did not end),\
  $(if $(shell $(BIN)/python -c 'print(1)' 2>&1 | grep -x 1),,its Python is gone),\
  $(if $(findstring command,$(origin PYTHON)),$(if $(findstring $(call VERSION,$(PYTHON)),$(call VERSION,$(BIN)/python)),,it has another Python)))
ifneq ($(STALE),)
$(info $(VENV) is made anew: $(STALE))
$(shell rm -f $(VENV)/.made)
endif
endif
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gainful needs Python 3.11 or later, and $(PYTHON) is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2> /dev/null || { echo "$(PYTHON) cannot make environments:" \
	  "its module venv or ensurepip is missing. Install it: apt install python3-venv (Debian, Ubuntu; for another Python" \
	  "than the system's, python`$(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'`-venv)," \
	  "dnf install python3-libs (Fedora) or brew install python (macOS)" >&2; exit 2; }
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 2; }
	@touch $@

# $(call fill,EXTRAS): install gainful and these extras
define fill
@rm -f $(addprefix $(VENV)/,.core .core-newest .dev .dev-newest .tools .tools-newest)
@touch $(VENV)/.filling
@$(PIP) --editable '.$1' || { echo "the installation into $(VENV) failed; the same command tries again" >&2; exit 2; }
@rm $(VENV)/.filling
endef

$(CORE_MARK): $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	@echo "installing gainful into $(VENV) (about a minute) …"
	$(call fill)
	@touch $@

$(DEV_MARK): $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	@echo "installing gainful and its development set into $(VENV) (a few minutes) …"
	$(call fill,[$(DEV)])
	@touch $(CORE_MARK) $@

$(LOWEST)/.made: pyproject.toml tests/packaging/lowest_versions.py
	@echo "installing the lowest versions into $(LOWEST) (a minute or two) …"
	@test -x $(call bin,$(LOWEST))/python || $(LOWEST_PYTHON) -m venv $(LOWEST)
	@$(call bin,$(LOWEST))/python tests/packaging/lowest_versions.py pyproject.toml $(LOWEST_EXTRAS) > $(LOWEST)/requirements.txt
	@$(call bin,$(LOWEST))/python -m pip install --quiet --disable-pip-version-check --requirement $(LOWEST)/requirements.txt \
	  $(LOWEST_TOOLS) --editable .
	@touch $@

# Other libraries' rankers, apart from .venv so that nothing of ours comes to lean on them.
$(PEERS)/.made: pyproject.toml constraints.txt benchmarks/peers/requirements.txt
	@echo "installing gainful and its peers into $(PEERS) (a few minutes) …"
	@test -x $(call bin,$(PEERS))/python || $(PYTHON) -m venv $(PEERS)
	@$(call bin,$(PEERS))/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --requirement benchmarks/peers/requirements.txt --editable .
	@touch $@
