# Each target does its own set-up: an environment in this tree, torch, the extension. A second call finds it done. The environment is
# .venv; for another torch, as in `make test TORCH=2.14.1`, it is one of its own (.venv-3.11-torch2.14), and so for another Python
# (`make test PYTHON=python3.12`).

TORCH ?= 2.13.0
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv$(if $(filter 3.11-2.13.%,$(VERSION)-$(TORCH)),,-$(VERSION)-torch$(basename $(TORCH)))
BIN := $(VENV)/bin
COMMUNITY := $(subst .venv,.venv-community,$(VENV))
C_FILES := $(wildcard $(addprefix csrc/,*.[ch] */*.[ch] */*.cpp))

.DEFAULT_GOAL := build
.PHONY: build demo serve-demo zoo zoo-community test test-full matrix sanitize coverage bench bench-smoke profile lint format docs dist clean force

build: $(VENV)/.built

demo: build
	$(BIN)/python -m benchmarks.demo

# The LitServe example under load, beside the same server uncompiled and with torch.compile.
serve-demo: build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[serve]"
	$(BIN)/python -m benchmarks.serve_demo $(ARGS)

# Some sixty models beside eager and torch.compile; leaves docs/zoo.md.
zoo: build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[zoo]"
	$(BIN)/python -m benchmarks.zoo --write docs/zoo.md

# Models of many packages beside torch.compile, in an environment of their own that sees this one's torch; leaves
# docs/zoo_community.md. `make zoo-community ARGS=--resume` goes on with models that have not run.
zoo-community: $(COMMUNITY)/.installed
	$(COMMUNITY)/bin/python -m benchmarks.zoo_community --write docs/zoo_community.md $(ARGS)

# What CI runs.
test: build
	$(BIN)/python -m pytest

# With everything that takes long and needs extras (chromium comes with the system: apt install chromium chromium-driver), a file
# of tests at a time on each processor; leaves tests/results/.
test-full: build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[serve,zoo,drop-in]"
	$(BIN)/python -m pytest --full --numprocesses=auto --dist=loadfile

# `make test` on each Python and torch that is set up in this tree, one after the other; leaves tests/results/matrix.md.
matrix: build
	$(BIN)/python -m tools.matrix

# Which lines of tracer/ and shapes/ the tests run: a table, and pages in build/coverage/html; `make coverage ARGS=tests/shapes` of a
# part. Coverage follows frames through sys.settrace, under which compiled code and the frame hook work as without; tests take a few
# times as long. C is not counted.
coverage: build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[coverage]"
	mkdir -p build/coverage
	$(BIN)/python -m pytest --cov --cov-report=term --cov-report=html $(ARGS)

# The tests of the C extension under the address and undefined-behaviour sanitizers of gcc, in build/sanitized/.
sanitize: build
	$(BIN)/python tools/sanitize.py $(ARGS)

# Side by side with torch.compile: a table, and benchmarks/results/bench.json. What is measured how: benchmarks/README.md.
bench: build
	$(BIN)/python -m benchmarks.bench

bench-smoke: build
	$(BIN)/python -m benchmarks.bench --smoke

# Where the time of one case goes; `make profile CASE=list` names the cases.
profile: build
	$(BIN)/python -m benchmarks.profile_case "$(or $(CASE),list)" $(ARGS)

lint: $(VENV)/.installed
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	$(BIN)/python -m mypy

format: $(VENV)/.installed
	$(BIN)/python -m ruff check --fix-only .
	$(BIN)/python -m ruff format .
	$(BIN)/clang-format -i $(C_FILES)

# The pages of docs/ and the API reference, as a site in build/site. Warnings are errors.
docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[docs]"
	$(BIN)/python -m mkdocs build --quiet --strict

# build/dist: an sdist, and the wheel that is built from it: in this tree, build/lib would add files that are gone from the sources. Each is
# installed in a fresh environment, and a program runs there (the sdist compiles once more).
dist: build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[dist]"
	rm -rf build/dist
	$(BIN)/python -m build --no-isolation --outdir build/dist
	$(BIN)/python -m tools.try_distribution build/dist

# Leaves the environment and its torch; `rm -rf .venv` is what starts from nothing.
clean:
	rm -rf build *.egg-info tracer/_C*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis $(VENV)/.built

# ---- set-up ----

# An environment that is there already is kept. Where venv cannot bring pip along (Debian without python3-venv), the
# pip of the interpreter does.
$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "No python3.11 is found; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	    { $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	      $(PYTHON) -m pip --python $(BIN)/python install pip; }
	touch $@

$(VENV)/.torch: $(VENV)/.made
	$(BIN)/python -m pip install --quiet "torch==$(TORCH)" "setuptools>=77" wheel
	touch $@

# Builds against the torch of this environment, hence without isolation.
$(VENV)/.installed: pyproject.toml $(VENV)/.torch
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[test,lint]"
	touch $@

# Without dependencies: many of these packages name a torch or torchvision of their own. What they import is in the list.
$(COMMUNITY)/.installed: benchmarks/zoo_models/community/requirements.txt $(VENV)/.built
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[zoo]"
	$(BIN)/python -m venv --without-pip $(COMMUNITY)
	echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
	    > "$$($(COMMUNITY)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/beside.pth"
	$(BIN)/python -m pip --python $(COMMUNITY)/bin/python install --quiet --no-deps --no-warn-conflicts \
	    -r benchmarks/zoo_models/community/requirements.txt
	touch $@

# The extension lies in tracer/, one for each Python; build/torch-of-VERSION says which torch it was built for.
EXTENSION := $(wildcard tracer/_C.cpython-$(subst .,,$(VERSION))-*.so)
BUILT_FOR := build/torch-of-$(VERSION)
IS_BUILT := $(and $(EXTENSION),$(filter $(TORCH),$(shell cat $(BUILT_FOR) 2>/dev/null)))
$(VENV)/.built: $(VENV)/.installed setup.py $(C_FILES) $(if $(IS_BUILT),,force)
	$(if $(IS_BUILT),,rm -f $(EXTENSION))
	$(BIN)/python setup.py --quiet build_ext --inplace
	mkdir -p build && echo $(TORCH) > $(BUILT_FOR)
	touch $@

force:
