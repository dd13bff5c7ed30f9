"""Every sampler with every mechanism, kernel and mixing: it fits a toy release, or is refused in one sentence."""

import inspect
import itertools
import json
import os
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from operator import itemgetter

import numpy as np
import pytest
from scripts import PACKAGE, PATH

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.estimators.mixture import _requirements
from sklearn_dpmix.estimators.mixture._compose import KERNELS, MIXINGS, SAMPLERS
from sklearn_dpmix.kernels import CategoricalKernel, ConvolvedNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    FiniteChannelMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    HybridMechanism,
    LaplaceMechanism,
    MultivariateLaplaceMechanism,
    MultivariateNormalMechanism,
    MultivariateTMechanism,
    PerturbedHistogramMechanism,
    PiecewiseMechanism,
    RandomizedResponseMechanism,
    SmoothedHistogramMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers import JainNeal, Neal5
from sklearn_dpmix.samplers.mixture._sampler import declared
from sklearn_dpmix.samplers.mixture.cells._bins import Bins
from sklearn_dpmix.samplers.mixture.cells._sources import Sources
from sklearn_dpmix.samplers.mixture.moves._split_merge import log_split_prior

RECORDS = np.array([0.1, 0.15, 0.2, 0.7, 0.8, 0.85])[:, None]


def mechanisms():
    """name -> (mechanism, its confidential records)."""
    pairs = np.column_stack([RECORDS, RECORDS[::-1]])
    whole, categories = np.array([0, 1, 1, 3, 4, 4])[:, None], np.array([0, 0, 1, 2, 2, 1])[:, None]
    unit = {"bounds": (0, 1)}
    return {
        "none": (None, RECORDS),
        "none, two features": (None, pairs),
        "none, categories": (None, categories),
        "laplace": (LaplaceMechanism(5.0, **unit), RECORDS),
        "laplace, two features": (LaplaceMechanism(5.0, **unit), pairs),
        "laplace, not clamped": (LaplaceMechanism(scale=0.1), RECORDS),
        "gaussian": (GaussianMechanism(scale=0.1), RECORDS),
        "gaussian, clamped": (GaussianMechanism(scale=0.1, **unit), RECORDS),
        "gaussian, two features": (GaussianMechanism(scale=0.1), pairs),
        "discrete laplace": (DiscreteLaplaceMechanism(2.0, bounds=(0, 4)), whole),
        "discrete gaussian": (DiscreteGaussianMechanism(scale=1.0, bounds=(0, 4)), whole),
        "binomial": (BinomialMechanism(2.0, 4, **unit), RECORDS),
        "haar": (HaarWaveletMechanism(4.0, 2), RECORDS),
        "randomized response": (RandomizedResponseMechanism(2.0, 3), categories),
        "square wave": (SquareWaveMechanism(4.0), RECORDS),
        "piecewise, two features": (PiecewiseMechanism(4.0, (0, 1)), pairs),
        "hybrid": (HybridMechanism(0.5, (0, 1)), HybridMechanism(0.5, (0, 1)).privatize(RECORDS, random_state=0)),
        "finite channel": (FiniteChannelMechanism(np.eye(3) * 0.7 + 0.1), categories),
        "bits": (UnaryEncodingMechanism(2.0, 3), categories),
        "perturbed histogram": (PerturbedHistogramMechanism(4.0, 4, n_records=6), RECORDS),
        "smoothed histogram": (SmoothedHistogramMechanism(4.0, 4, 3, n_records=6), RECORDS),
        "smoothed histogram, many draws": (SmoothedHistogramMechanism(4.0, 4, 9, n_records=6), RECORDS),
        "multivariate normal": (MultivariateNormalMechanism(np.eye(2) * 0.01), pairs),
        "multivariate laplace": (MultivariateLaplaceMechanism(np.eye(2) * 0.01), pairs),
        "multivariate t": (MultivariateTMechanism(np.eye(2) * 0.01, df=4), pairs),
    }


def samplers():
    """name -> sampler: all that have names, those that these resolve to, and each of them wrapped."""
    named = {name: kind() for name, kind in SAMPLERS.items()} | {"bins": Bins(), "sources": Sources()}
    wrapped = {f"jain_neal({name})": JainNeal(kind) for name, kind in named.items() if name != "jain_neal"}
    return named | {"neal5, m = 2": Neal5(n_auxiliary=2)} | wrapped


def kernels():
    named = {name: kind for name, kind in KERNELS.items() if name not in ("categorical", "convolved_normal")}
    return {name: kind() for name, kind in named.items()} | {
        "categorical": CategoricalKernel(3),
        "convolved_normal": ConvolvedNormalKernel(),
    }


def mixings():
    return {name: kind() for name, kind in MIXINGS.items()} | {
        "prior": DirichletProcess(concentration=None, prior=(2.0, 2.0)),
        "large discount": PitmanYor(discount=0.9),
    }


def outcome(sampler, mechanism, records, kernel, mixing):
    """ "fitted", "refused", or what else happened."""
    estimator = PrivateDPMixture(
        mechanism, kernel=kernel, mixing=mixing, sampler=sampler, n_chains=1, n_warmup=1, n_draws=2, random_state=0
    )
    try:
        Z = records if mechanism is None else mechanism.privatize(records, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = estimator.fit(Z)
    except Exception as error:
        text, last = " ".join(str(error).split()), traceback.extract_tb(error.__traceback__)[-1]
        is_ours = last.filename.startswith(str(PACKAGE)) and last.line.startswith("raise ")  # not "math domain error"
        is_refused = is_ours and len(text) < 500 and type(error) in (ValueError, TypeError)
        return "refused" if is_refused else f"{type(error).__name__}: {text}"
    return "fitted" if np.all(np.isfinite(np.concatenate(model._draws_.flat.theta))) else "draws are not finite"


def product():
    """Names of all combinations: mechanism, sampler, kernel, mixing."""
    return list(itertools.product(mechanisms(), samplers(), kernels(), mixings()))


def outcomes(chosen):
    """Yield (names, outcome)."""
    parts = mechanisms(), samplers(), kernels(), mixings()
    for names in chosen:
        (mechanism, records), sampler, kernel, mixing = (one[name] for one, name in zip(parts, names, strict=True))
        yield names, outcome(sampler, mechanism, records, kernel, mixing)


def in_turn(chosen):
    """Some of the names: each sampler that stands for itself once, with mechanisms, kernels and mixings in turn."""
    found, seen = [], Counter()
    own = sorted((names for names in chosen if "auto" not in names[1]), key=itemgetter(1))
    for _, alike in itertools.groupby(own, itemgetter(1)):
        found.append(min(alike, key=lambda names: sum(seen[name] for name in names)))
        seen.update(found[-1])
    return found


def run(chosen, **environment):
    """[(names, outcome)] in a process of its own; all but "fitted" and "refused" are wrong."""
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"PYTHONPATH": PATH} | environment,
        input=json.dumps(chosen),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [(tuple(names), result) for names, result in map(json.loads, done.stdout.splitlines())]
    assert [names for names, _ in found] == chosen
    assert {result for _, result in found} <= {"fitted", "refused"}, [
        one for one in found if one[1] not in ("fitted", "refused")
    ]
    return found


@pytest.mark.nightly
def test_compositions_fit_or_are_refused_in_one_sentence():
    """Catches needs that are not declared, over the whole product, and types that do not fit.

    In plain Python nothing compiles, and a bad index is an error.  Types that plain Python does not mind and numba does
    are looked for in a fit of each sampler, compiled without optimisation.
    """
    found = run(product(), NUMBA_DISABLE_JIT="1")
    fitted = [names for names, result in found if result == "fitted"]
    impossible = {f"jain_neal({name})" for name in ("cells", "bins", "sources", "mixing_measure")}
    assert {names[1] for names in fitted} == set(samplers()) - impossible
    chosen = in_turn(fitted)
    assert {result for _, result in run(chosen, NUMBA_DISABLE_JIT="0", NUMBA_OPT="0")} == {"fitted"}


@pytest.mark.parametrize("prior", [[0.5, 0.5], [1.0]])
def test_a_full_mixture_is_not_split(prior):
    """Catches the logarithm of a new cluster's weight, which is 0 where a finite mixture has all its components."""
    mixing = MixtureOfFiniteMixtures(prior=prior)._lower()
    assert log_split_prior(mixing, float(len(prior)), len(prior), 2.0, 1.0) == -np.inf
    assert len(prior) == 1 or np.isfinite(log_split_prior(mixing, 2.0, 1, 2.0, 1.0))


# --- wrappers ---------------------------------------------------------------------------------------------------------


def test_a_wrapper_asks_for_all_that_the_other_sampler_does():
    """Catches a need that is declared in one sampler and lost in another that runs it."""
    names = set(declared())
    assert {"needs_cells", "needs_sources", "needs_histogram", "takes_histograms", "keeps_records"} <= names
    for other in samplers().values():
        if isinstance(other, JainNeal):
            continue
        wrapper = JainNeal(other)
        for name in names:
            ours, theirs = getattr(wrapper, name), getattr(other, name)
            if name.startswith(("needs_", "has_")):
                assert ours or not theirs, (other, name)
            elif name.startswith(("takes_", "max_", "keeps_")):
                assert ours <= theirs, (other, name)
            elif name == "kernel_needs":
                assert set(ours) == {"predictive", *theirs}
            elif name == "float_ranges":
                assert theirs.items() <= ours.items()
            else:
                assert ours == theirs, (other, name)


def test_what_a_subclass_of_a_wrapper_declares_is_kept():
    class Choosy(JainNeal):
        needs_histogram = True
        max_discount = 0.1

    assert Choosy(Neal5()).needs_histogram and Choosy(Neal5()).max_discount == 0.1 and Choosy(Neal5()).needs_order


def test_each_need_is_asked_of_the_other_parts():
    """Catches a need that a sampler may declare and that nothing looks at: the sampler would run without it."""
    asked = inspect.getsource(_requirements)
    of_the_state = {"needs_levels", "needs_order", "takes_summaries"}
    for name in {name for name in declared() if name.startswith(("needs_", "takes_"))} - of_the_state:
        assert f"sampler.{name}" in asked, name


@pytest.mark.parametrize(
    ("name", "other"),
    [
        *(("laplace", other) for other in ("cells", "bins", "sources")),
        *(("haar", other) for other in ("auto", "cells", "bins")),
        *(("perturbed histogram", other) for other in ("auto", "cells", "bins")),
        *(("smoothed histogram", other) for other in ("auto", "cells", "sources")),
    ],
)
def test_split_merge_by_records_needs_records(name, other):
    """Catches a page of numba's, and moves by records that are not drawn given the clusters: a wrong posterior."""
    mechanism, records = mechanisms()[name]
    result = outcome(JainNeal(samplers()[other]), mechanism, records, NormalKernel(), DirichletProcess())
    assert result == "refused"


def test_chains_of_categories_start_from_categories():
    """Catches a start at the release's guess, which noise on integers takes beyond the last category, an index."""
    kernel = CategoricalKernel(3)
    assert kernel.nearest(np.array([[-2.0, 0.4], [1.6, 7.0]])).tolist() == [[0.0, 0.0], [2.0, 2.0]]


if __name__ == "__main__":
    for names, result in outcomes(json.load(sys.stdin)):
        print(json.dumps([names, result]), flush=True)
