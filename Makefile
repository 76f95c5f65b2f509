# Two commands: `make demo` and `make test`. Each makes its own environment in .venv first.
# Another interpreter: make PYTHON=python3.12 demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test slow docs lint bench reproduce clean

help:
	@echo "make demo    train a small stack on dSprites, score it, draw it (under 5 minutes)"
	@echo "make test    lint and run the tests"
	@echo "make slow    run the long tests: a Ray cluster that loses a node, a study killed twenty times"
	@echo "make docs    build the documentation site into site/"
	@echo "make reproduce METHOD=beta_vae STRENGTH=4 SEEDS=0,1   train and score a cell of the published study"
	@echo "make bench   print the CPU speed beside a textbook loop"
	@echo "make clean   remove the environment and the demo's output"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else \
	"unweave needs Python 3.11 to 3.13, $(PYTHON) is %d.%d: run make PYTHON=python3.12" % v)'
	$(PYTHON) -m venv $(VENV)

# torch comes first and pinned: a looser wish can pull another build of several gigabytes. Modules are
# compiled when they are first imported: most of these packages' never are.
$(VENV)/core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q --no-compile -c constraints.txt torch==2.13.0
	$(PIP) install -q --no-compile -c constraints.txt -e .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(PIP) install -q --no-compile -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/core
	$(BIN)/unweave demo --out demo

lint: $(VENV)/dev
	$(BIN)/ruff check .

# A process for each core, with one thread each: half the time of one process with many.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

slow: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m slow

docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/core
	$(BIN)/python bench/cpu.py

# 300,000 steps a run want a GPU: `unweave study cost` says for how long. The same line goes on where it
# was stopped.
METHOD ?= beta_vae
STRENGTH ?= 4
SEEDS ?= 0,1
STORE ?= reproduce
reproduce: $(VENV)/core
	$(BIN)/unweave study run locatello2019 --data dsprites --methods $(METHOD) --strengths $(STRENGTH) \
	  --seeds $(SEEDS) --store $(STORE)
	@echo "beside the published runs: unweave study agreement $(STORE) --published dsprites_full.csv.gz"

clean:
	rm -rf $(VENV) demo site
