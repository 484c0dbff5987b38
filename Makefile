# Everything runs in .venv, which `make setup` makes; the other targets make it when it is missing.

# Not 3.14: there is no TensorFlow for it.
PYTHON := $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	2>/dev/null \
	&& echo $$p && break; done)
RUN := .venv/bin/python -m
STAMP := .venv/.set-up
# Three processes, each with a separate /dev/shm (see tests/conftest.py), where the system allows that. Two leave a
# seventh of the time of two cores unused, because tests wait for limits of time.
PROCESSES := $(shell unshare --mount --propagation slave true 2>/dev/null && echo 3 || echo 0)
# Files go in the order of their names: those that share a cluster follow one another, and short ones are last.
# Python may keep the compiled tests, which take each process 6 s, also where PYTHONDONTWRITEBYTECODE is set.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(RUN) pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# Tests that take longer are in tests/slow.toml. Those that are nightly may also have that mark where they stand.
SHORT := not story and not nightly
CORE := $(addprefix tests/conformance/test_,remote_function.py nested.py errors.py cancel.py)

# What touches Dask: its clusters, values in both directions, the pages, and the core.
DASK_TESTS := tests/unit/test_dask_versions.py \
	$(addprefix tests/cluster/test_,dask.py guest.py membership.py lifetimes.py own_clusters.py local_clusters.py \
	pages.py objects.py) $(CORE) tests/conformance/test_actors.py
PYTHON_TESTS := tests/unit $(DASK_TESTS)

# Tests and examples start very many processes. Where PYTHONDONTWRITEBYTECODE is set, each would compile all
# that it imports; so what is installed is compiled by `make setup`, and this package by those who run it.
COMPILE := $(RUN) compileall -q raycompat
# pip would do it on one core; some packages have files for other Pythons.
COMPILE_ALL := $(RUN) compileall -qq -j 0 .venv/lib || true

SPHINX := $(RUN) sphinx -q -W --keep-going -n -c docs
# Pages that each build types as a reader does; `make nightly` types all.
TYPED := docs/index docs/quickstart docs/tasks docs/from_ray docs/from_dask docs/watching
CATALOGUES := _build/gettext locale zh_CN
# Where the site will be, for example https://example.org/raycompat; search engines get addresses with it.
DOCS_URL :=
# The folder of the files en.json and zh_CN.json, which name the versions of the site for the theme's switch between
# them; for example https://example.org/raycompat/versions. Without it the pages have no switch.
DOCS_VERSIONS :=
# Notebooks that each build runs; `make nightly` runs all.
NOTEBOOKS := docs/tasks
# Those that `make docs-page` builds.
LANGUAGES := en zh_CN

.PHONY: help setup setup-torch run test test-compile test-stories test-core test-data test-train test-tune test-rllib test-gpu test-fast test-wheel test-dask test-python test-oldest release-check lint format docs docs-en-checked docs-zh_CN docs-html-en docs-html-zh_CN docs-examples-en docs-examples-zh_CN docs-page docs-typed docs-installed docs-notebook docs-messages docs-translate docs-browser \
	docs-serve changelog conformance-ray nightly replay chaos fault-walk soak bench clean

help:  ## show this help
	@grep -hE '^[a-z% :-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 20

setup: $(STAMP)  ## make .venv with raycompat and all tools

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "the tools need Python 3.11, 3.12 or 3.13 with venv" \
		"(on Debian and Ubuntu the package python3-venv)"; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) --version); TensorFlow is the largest part of it"
	@# With uv where there is one; uv does not read pip's settings, so what it cannot find pip may.
	@# Looking for pip, not for python: a set-up that failed half-way leaves python behind.
	@set -ex; \
	if command -v uv >/dev/null && { test -x .venv/bin/python || uv venv --python $(PYTHON) .venv; } \
		&& uv pip install --python .venv/bin/python --compile-bytecode --editable . --group dev \
		&& uv pip install --python .venv/bin/python --compile-bytecode --no-deps --group legacy-keras; \
	then exit 0; fi; \
	$(RUN) pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv; \
	$(RUN) pip install --disable-pip-version-check --quiet --upgrade "pip>=25.1"; \
	$(RUN) pip install --disable-pip-version-check --progress-bar on --no-compile --editable . --group dev; \
	$(RUN) pip install --disable-pip-version-check --quiet --no-deps --no-compile --group legacy-keras; \
	$(COMPILE_ALL)
	@touch $(STAMP)

setup-torch: setup  ## add PyTorch to .venv; without it, its tests and examples are skipped
	$(RUN) pip --version >/dev/null 2>&1 || $(RUN) ensurepip
	$(RUN) pip install --disable-pip-version-check --quiet --upgrade "pip>=25.1"
	$(RUN) pip install --disable-pip-version-check --progress-bar on --no-compile --group torch
	@$(COMPILE_ALL)

run: setup  ## run the main job: Keras models in two actors learn to read digits
	.venv/bin/python tutorials/digits_with_keras.py

test: setup lint  ## check the code and run all tests that take about a second at most
	$(COMPILE)
	$(PYTEST) -m "$(SHORT)"

# `make test` and `make test-stories` do it too, but each of their processes compiles every file, at the same time.
test-compile: setup  ## import all tests once, so that they are compiled
	env -u PYTHONDONTWRITEBYTECODE $(RUN) pytest --collect-only -qqq

test-stories: setup  ## run the longer tests that continuous integration runs: one or two of each user story
	$(COMPILE)
	$(PYTEST) -m story

# The tests of a library are named after it; the core's are all others. Each has an environment with its own extras only:
# who works on the core needs no TensorFlow.
LIBRARIES := data train tune rllib
EXTRAS-core :=
EXTRAS-data := [data]
EXTRAS-train := [data,tensorflow]
EXTRAS-tune := [tune]
EXTRAS-rllib := [rl]
TESTS-core := $(foreach library,$(LIBRARIES),--ignore-glob='*/test_$(library)*') --ignore tests/docs --ignore tests/eras tests

test-core test-data test-train test-tune test-rllib: test-%:  ## run the tests of the core, or of one library, without what the others need
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --disable-pip-version-check --quiet --upgrade "pip>=25.1"
	.venv-$*/bin/python -m pip install --disable-pip-version-check --quiet --editable '.$(EXTRAS-$*)' --group test
	$(subst .venv/,.venv-$*/,$(PYTEST)) -m "$(SHORT)" $(or $(TESTS-$*),$(wildcard tests/*/test_$**.py))

# Without leases, because `make test` runs the same tests with them.
test-wheel: setup  ## build wheel and sdist, and run the core's tests on the wheel, without leases, outside of this folder
	rm -rf dist _build/wheel
	$(RUN) build --outdir dist .
	$(PYTHON) -m venv _build/wheel/venv
	_build/wheel/venv/bin/python -m pip install --disable-pip-version-check --quiet \
		dist/*.whl pytest pytest-timeout pytest-xdist
	mkdir -p _build/wheel/tests
	cp -r tests/conftest.py tests/slow.toml tests/_left_over.py tests/_python_path.py tests/conformance _build/wheel/tests
	cd _build/wheel && RAYCOMPAT_LEASES=0 venv/bin/python -m pytest -q -n $(PROCESSES) --dist loadfile -c ../../pyproject.toml \
		--rootdir tests $(CORE)

# In an environment for each; with VERSION=main, what Dask's developers have today.
test-dask:  ## run the tests of Dask clusters with another release of Dask: make test-dask VERSION=2025.4.0 (or main)
	@test -n "$(VERSION)" || { echo "VERSION is missing, for example: make test-dask VERSION=2025.4.0"; exit 1; }
	$(PYTHON) -m venv .venv-dask-$(VERSION)
	.venv-dask-$(VERSION)/bin/python -m pip install --disable-pip-version-check --quiet --upgrade "pip>=25.1"
	.venv-dask-$(VERSION)/bin/python -m pip install --disable-pip-version-check --quiet --editable . --group test-clusters \
		$(foreach each,dask distributed,$(if $(filter main,$(VERSION)),\
		"$(each) @ git+https://github.com/dask/$(each)","$(each)==$(VERSION)"))
	$(subst .venv/,.venv-dask-$(VERSION)/,$(PYTEST)) -m "not nightly and not hosts" \
		-W "ignore::raycompat.exceptions.UntriedDaskWarning" $(DASK_TESTS)

test-python:  ## run the same tests and the unit tests with another Python, without TensorFlow: make test-python VERSION=3.14
	@test -n "$(VERSION)" || { echo "VERSION is missing, for example: make test-python VERSION=3.14"; exit 1; }
	python$(VERSION) -m venv .venv-python-$(VERSION)
	.venv-python-$(VERSION)/bin/python -m pip install --disable-pip-version-check --quiet --upgrade "pip>=25.1"
	.venv-python-$(VERSION)/bin/python -m pip install --disable-pip-version-check --quiet --editable . --group test-clusters
	$(subst .venv/,.venv-python-$(VERSION)/,$(PYTEST)) -m "not nightly and not hosts" $(PYTHON_TESTS)

test-oldest:  ## run the same tests with the oldest release of each dependency in pyproject.toml
	python3.11 -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --disable-pip-version-check --quiet --upgrade "pip>=25.1"
	mkdir -p _build
	.venv-oldest/bin/python packaging/oldest.py pyproject.toml > _build/oldest.txt
	.venv-oldest/bin/python -m pip install --disable-pip-version-check --quiet --editable . --group test-clusters \
		--constraint _build/oldest.txt
	cat _build/oldest.txt
	$(subst .venv/,.venv-oldest/,$(PYTEST)) -m "not nightly and not hosts" $(DASK_TESTS)

release-check: setup  ## build sdist and wheel, install each into an empty environment, run the quickstart and the wheel's tests
	$(MAKE) test-wheel
	$(RUN) twine check --strict dist/*
	for file in dist/*; do packaging/try_release.sh $(PYTHON) $$file || exit 1; done

test-gpu: setup-torch  ## run the tests that need a GPU of NVIDIA, and print figures
	$(RUN) pytest -m gpu tests/gpu -s

test-fast: setup  ## run the tests that need no cluster
	$(RUN) pytest tests/unit tests/compat

lint: setup  ## check style, types, layers, spelling and docstrings
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(RUN) mypy tests/unit/test_typed_handles.py tests/unit/typed_libraries.py tests/simulation/simulate.py
	.venv/bin/lint-imports
	.venv/bin/codespell
	.venv/bin/python -W ignore docs/_tools/parameters.py

format: setup  ## put the code into shape
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

# The examples start clusters of their own, whatever runs on this machine.
docs docs-page: export RAY_ADDRESS := local
docs: setup  ## build the documentation in both languages, run its examples, check it
	$(COMPILE)
	rm -rf _build/html _build/doctest
	@# What is run is the same in both languages: each build runs the pages to which it comes first. So the two end at
	@# the same time, although one has more to do before.
	$(MAKE) --jobs 2 SHARED="-D shared_examples=_build/doctest/shared" docs-en-checked docs-zh_CN
	cp docs/_root/index.html _build/html
	.venv/bin/python docs/_tools/llms.py docs/_root/llms.txt _build/html
	.venv/bin/python docs/_tools/check_site.py --least 150 \
		_build/html _build/doctrees _build/doctest docs/zh-allowed.txt

# In steps: one `make` of all would run them at the same time.
docs-en-checked: docs-messages
	.venv/bin/python docs/_tools/po.py check $(CATALOGUES)
	$(MAKE) docs-html-en
	.venv/bin/python docs/_tools/typed.py _build/doctrees/en $(TYPED)
	.venv/bin/python docs/_tools/run_notebooks.py _build/html/en $(NOTEBOOKS)
	$(MAKE) docs-examples-en

docs-zh_CN: setup
	$(MAKE) docs-html-zh_CN
	$(MAKE) docs-examples-zh_CN

docs-html-en docs-html-zh_CN: docs-html-%: setup
	$(SPHINX) $(if $(DOCS_URL),-D html_baseurl=$(DOCS_URL:/=)/$*/) \
		$(if $(DOCS_VERSIONS),-D versions_url=$(DOCS_VERSIONS:/=)/$*.json) -D language=$* -d _build/doctrees/$* -b html . _build/html/$*

docs-examples-en docs-examples-zh_CN: docs-examples-%: setup
	$(SPHINX) -D language=$* $(SHARED) -d _build/doctrees/$* -b doctest . _build/doctest/$*

docs-page: setup  ## build one page and run its examples, in both languages: make docs-page PAGE=tutorials/weights
	@test -f "$(PAGE).rst" || { echo "PAGE=$(PAGE): no file $(PAGE).rst; for example PAGE=tutorials/weights"; exit 1; }
	@# The first time all pages are built, since the search needs them; examples are run of one page alone.
	@set -ex; for language in $(LANGUAGES); do \
		test -f _build/html/$$language/searchindex.js && page=$(PAGE).rst || page=; \
		$(SPHINX) -D language=$$language -d _build/doctrees/$$language -b html . _build/html/$$language $$page; \
		$(SPHINX) -D language=$$language -d _build/doctrees/$$language -b doctest . _build/doctest/$$language \
			$(PAGE).rst; \
	done

# A page has only what a reader sees: no hidden import, and none of the repository's files but its downloads.
docs-typed: setup  ## type a page as printed into Python in an empty folder: make docs-typed PAGE=docs/quickstart, or PAGE=--all
	@test -n "$(PAGE)" || { echo "PAGE is missing, for example: make docs-typed PAGE=docs/quickstart"; exit 1; }
	$(SPHINX) -D language=en -d _build/doctrees/en -b dummy . _build/dummy
	.venv/bin/python docs/_tools/typed.py _build/doctrees/en $(PAGE)

# An installation has only what the page's line installs.
docs-installed: setup  ## type a page in an installation that is made by its own line: make docs-installed PAGE=docs/quickstart, or PAGE=--all
	@test -n "$(PAGE)" || { echo "PAGE is missing, for example: make docs-installed PAGE=docs/quickstart"; exit 1; }
	$(SPHINX) -D language=en -d _build/doctrees/en -b dummy . _build/dummy
	.venv/bin/python docs/_tools/installed.py _build/doctrees/en $(PAGE)

docs-notebook: setup  ## run a page's notebook in an empty folder: make docs-notebook PAGE=docs/quickstart, or PAGE=--all
	@test -n "$(PAGE)" || { echo "PAGE is missing, for example: make docs-notebook PAGE=docs/quickstart"; exit 1; }
	$(SPHINX) -D language=en -d _build/doctrees/en -b html . _build/html/en
	.venv/bin/python docs/_tools/run_notebooks.py _build/html/en $(PAGE)

docs-messages: setup
	rm -rf _build/gettext
	SOURCE_DATE_EPOCH=0 $(SPHINX) -E -D language=en -d _build/doctrees/en -b gettext . _build/gettext

docs-translate: docs-messages  ## bring the translation's files in step with the English pages
	.venv/bin/python docs/_tools/po.py update $(CATALOGUES)

docs-browser:  ## try the built documentation in Chromium, and take pictures of it
	.venv/bin/python docs/_tools/browser_check.py _build/html _build/pictures

docs-serve:  ## serve the built documentation at http://localhost:8000
	.venv/bin/python -m http.server --bind localhost --directory _build/html 8000

conformance-ray: .venv-ray/.set-up  ## run the conformance tests on the real Ray
	.venv-ray/bin/python -m pytest tests/conformance --impl ray

.venv-ray/.set-up:
	@test -n "$(PYTHON)" || { echo "the tools need Python 3.11, 3.12 or 3.13 with venv"; exit 1; }
	$(PYTHON) -m venv --clear .venv-ray
	.venv-ray/bin/python -m pip install --disable-pip-version-check --quiet \
		"ray[data,default,train,tune]==2.60.0" pytest pytest-timeout pandas psutil numpy crc32c pillow \
		hyperopt optuna polars datasketches tensorflow-cpu torch
	.venv-ray/bin/python -m pip install --disable-pip-version-check --quiet --no-deps tf-keras
	@touch $@

changelog: setup  ## write the fragments of changes/ into CHANGES.md: make changelog VERSION=0.2.0
	@test -n "$(VERSION)" || { echo "VERSION is missing, for example: make changelog VERSION=0.2.0"; exit 1; }
	.venv/bin/towncrier build --yes --version $(VERSION)

nightly: setup  ## run the long tests: 2,000 random programs, new ones each time, chaos, TensorFlow on four workers, pages as typed
	RAYCOMPAT_PROGRAMS=2000 $(RUN) pytest -s -m nightly
	$(MAKE) docs-typed PAGE=--all
	$(MAKE) docs-installed PAGE=--all
	$(MAKE) docs-notebook PAGE=--all

# The same order of sets in each process makes a seed the same history.
replay: setup  ## show a history of the simulated cluster step by step: make replay SEED=17, or RECORD=FILE
	@test -n "$(SEED)$(RECORD)" || { echo "SEED or RECORD is missing, for example: make replay SEED=17"; exit 1; }
	PYTHONHASHSEED=0 .venv/bin/python tests/simulation/simulate.py $(if $(RECORD),--record $(RECORD),--replay $(SEED))

chaos: setup  ## kill processes and nodes for two minutes and see that every value is right
	.venv/bin/python tests/nightly/chaos.py

fault-walk: setup  ## stop each kind of process for a minute and see that nothing hangs or is lost
	.venv/bin/python tests/nightly/fault_walk.py
	RAYCOMPAT_INTERRUPT_STEP=1 $(RUN) pytest tests/cluster/test_interrupts.py

soak: setup  ## run 300,000 tasks and see that no process grows
	.venv/bin/python tests/nightly/soak.py

bench: setup  ## measure calls, objects and actors
	.venv/bin/python benchmarks/microbenchmark.py

clean:  ## remove what was made
	rm -rf .venv .venv-* _build build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
