# make demo | quick | test | test-oldest | test-wheel | lint | docs | bench | nightly | clean.  Needs Python 3.11 or newer; everything else goes into $(VENV).
# Another interpreter: make PYTHON=python3.12 test.  Arguments for pytest: make test ARGS="-k mixture -x".
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

PY := $(VENV)/bin/python
# Byte code is made of what is imported: to make it of all files takes as long as the rest of an installation.
PIP := $(PY) -m pip install -q --no-compile
export MPLBACKEND ?= Agg
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Empty: Python keeps byte code, else each of the tests' scripts would read 150 files anew.
export PYTHONDONTWRITEBYTECODE =

# Two processes share two cores, and matrices are small: threads of BLAS would only wait for each other.
quick test test-oldest test-wheel nightly: export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help demo quick test test-oldest test-wheel lint docs bench nightly clean
.NOTPARALLEL:

help:
	@sed -n '1,2s/^# //p' Makefile

demo: $(VENV)/.installed-plot
	$(PY) examples/demo.py

# For the loop while editing: nothing is compiled.  What is not here fits at length, or takes long as plain Python.
QUICK_TESTS := acceptance_ratios accounting baselines binomial calibration_metrics channels components compositions \
  datasets discrete_mechanisms guarantees interoperation layers ledger ledger_file ledger_sharing \
  likelihood_models lost_digits mass_laws mechanisms metrics mmd multivariate numeric packaging privacy private_bounds \
  queries query_sensitivities rank_uniformity refusals regression_paths release_mode smooth_mechanisms smooth_noise \
  smooth_sensitivity truncated_draws typing urns warmup
SLOW_AS_PYTHON := mechanisms/test_channels.py::test_categories_taken_for_numbers_are_doubted \
  mechanisms/test_channels.py::test_sources_keep_their_books_when_clusters_outgrow_their_slots \
  mechanisms/test_mechanisms.py::TestGaussian::test_two_features_share_the_budget \
  mechanisms/test_mechanisms.py::TestLaplace::test_impute_is_the_exact_conditional \
  mechanisms/test_mechanisms.py::TestGaussian::test_impute_is_the_exact_conditional \
  samplers/test_mass_laws.py::test_numbers_of_components_that_the_prior_excludes_do_not_occur \
  samplers/test_mass_laws.py::test_concentration_has_its_prior_where_nothing_is_known
quick: $(VENV)/.installed-dev
	NUMBA_DISABLE_JIT=1 $(PY) -m pytest -q -n 2 -m "not slow and not nightly" $(ARGS) \
	  $(SLOW_AS_PYTHON:%=--deselect=tests/%) \
	  tests/audit tests/fuzz $(QUICK_TESTS:%=tests/*/test_%.py)

# Halves of the list, each to one process until the other is idle: what the tests of a file share is made once.
test: $(VENV)/.installed-dev
	$(PY) -m pytest -q -n 2 --dist worksteal --durations=20 $(ARGS)

# scikit-learn's checks of the estimators on the oldest scikit-learn and numba that pyproject.toml allows
test-oldest:
	$(MAKE) VENV=$(VENV)-oldest $(VENV)-oldest/.installed-oldest
	$(VENV)-oldest/bin/python -m pytest -q -n 2 tests/house/test_scikit_learn.py

# The wheel as users get it: no extras, a cold cache, and the clone's package out of reach.  What build/ holds from an
# earlier build would go into the wheel, so it goes first.
WHEEL_TESTS := compile_cache components datasets digest estimator layers ledger ledger_file ledger_sharing mechanisms \
  metrics own_components population queries query_sensitivities release_mode scikit_learn time_and_memory
NEED_EXTRAS := plotting/* mechanisms/_opendp.py
WHEEL_PY := "$(CURDIR)/build/venv/bin/python"
test-wheel:
	rm -rf build
	$(PYTHON) -m venv build/venv
	$(WHEEL_PY) -m pip wheel -q --no-deps -w build .
	$(WHEEL_PY) -m pip install -q build/*.whl pytest
	mkdir build/elsewhere
	cd build/elsewhere && unset PYTHONPATH && $(WHEEL_PY) -P -c \
	  'import sys, sklearn_dpmix as p; print(sys.version, p.__file__); sys.exit(not p.__file__.startswith(sys.prefix))'
	cd build/elsewhere && unset PYTHONPATH && $(WHEEL_PY) -P -m pytest -q -p no:cacheprovider \
	  -c ../../pyproject.toml --rootdir ../.. -m "not slow and not nightly" $(ARGS) \
	  $(NEED_EXTRAS:%=--ignore-glob='/*/sklearn_dpmix/%') --pyargs sklearn_dpmix $(WHEEL_TESTS:%=../../tests/*/test_%.py)

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m mypy --strict --config-file= --ignore-missing-imports --follow-imports=silent tests/typing_surface.py

# The site, in docs/_build/html: no network, and warnings are errors.  Pages of examples that did not change are kept.
docs: $(VENV)/.installed-docs
	$(PY) -m sphinx -q -n -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.installed-dev
	$(PY) -m benchmarks $(ARGS)

nightly: $(VENV)/.installed-dev
	$(PY) -m pytest -q -n 2 -m nightly $(ARGS)
	$(MAKE) docs
	$(MAKE) test-wheel ARGS=

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is missing or older than 3.11: make PYTHON=/path/to/a/newer/python"; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || \
	  { echo "$(PYTHON) cannot create a venv; some systems package that apart (python3-venv)"; exit 1; }
	@touch $@

$(VENV)/.installed-plot: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[plot]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[test,dev]'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/.installed-oldest: pyproject.toml | $(VENV)/.created
	$(PIP) -e . 'scikit-learn==1.6.*' 'numba==0.61.*' pytest pytest-xdist
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache examples/output
	rm -rf docs/_build docs/generated docs/gallery docs/sg_execution_times.rst
	find sklearn_dpmix tests examples benchmarks tools -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
