"""Checkpoints that are whole but wrong: each array of a run edited, written with right checksums, and fitted again.

``python checkpoint_edits.py FOLDER [CASE ...]`` prints what is not refused by name; a case may be "NAME: EDIT" as well.
"""

import json
import os
import sys
import warnings
from contextlib import suppress
from functools import partial
from unittest.mock import patch

import numpy as np
from coin import Coin

from sklearn_dpmix import (
    PrivateABC,
    PrivateDPMixture,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
)
from sklearn_dpmix._chains import chain as chain_module
from sklearn_dpmix._chains.progress import Progress
from sklearn_dpmix.estimators.curator import _exp_family, _naive_bayes
from sklearn_dpmix.estimators.curator._exp_family_engines import choose_engine
from sklearn_dpmix.kernels import (
    BetaKernel,
    CategoricalKernel,
    ConvolvedNormalKernel,
    MultivariateNormalKernel,
    NormalKernel,
    TruncatedNormalKernel,
)
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
    RandomizedResponseMechanism,
    SmoothedHistogramMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures
from sklearn_dpmix.models import (
    GammaPrior,
    GaussianPredictors,
    HistogramPredictors,
    NormalInverseGammaPrior,
    PoissonCount,
)
from sklearn_dpmix.queries import ClassFeatureCounts, NoisyCount, RegressionMoments
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture._one_normal import OneNormal
from sklearn_dpmix.samplers.mixture.measure import _walk

TIMES = {"n_chains": 2, "n_warmup": 2, "n_draws": 3, "random_state": 0}
RECORDS = np.array([0.05, 0.1, 0.12, 0.4, 0.5, 0.85, 0.9, 0.95])[:, None]


def cases():
    """name -> callable () -> (estimator, what fit gets)."""
    noise = LaplaceMechanism(epsilon=20.0, bounds=(0, 1))
    normal_noise = GaussianMechanism(scale=0.1)
    response = RandomizedResponseMechanism(3.0, 3)
    smooth = SmoothedHistogramMechanism(10.0, 4, 6, n_records=8)
    rough = PerturbedHistogramMechanism(5.0, 4, n_records=8)
    moments = LaplaceMechanism(epsilon=5.0, query=RegressionMoments((-1, 1), (-1, 1), 1))
    tables = LaplaceMechanism(epsilon=5.0, query=ClassFeatureCounts(2, 2, 1))
    bits = np.column_stack([np.arange(8) % 2, np.arange(8) // 4])
    pairs = np.column_stack([RECORDS, RECORDS**2])
    sums = LaplaceMechanism(scale=2.0)

    def mixture(mechanism, Z, **params):
        return PrivateDPMixture(mechanism, **TIMES, **params), Z

    def under(mechanism, records, **params):
        return mixture(mechanism, mechanism.privatize(records, random_state=0), **params)

    unknown = NoisyCount(20, sums)
    random_mixing = DirichletProcess(concentration=None, prior=(2.0, 2.0))
    return {
        "neal8": lambda: under(noise, RECORDS, sampler="neal8", mixing=random_mixing),
        "interweaved": lambda: under(noise, RECORDS, sampler="interweaved"),
        "mixing measure": lambda: under(noise, RECORDS, sampler=MixingMeasure(n_moves=4), mixing=random_mixing),
        "slice": lambda: under(noise, RECORDS, sampler="slice"),
        "neal5": lambda: under(noise, RECORDS, sampler="neal5", mixing=MixtureOfFiniteMixtures()),
        "imputed": lambda: under(noise, pairs, kernel=MultivariateNormalKernel(), sampler="imputed"),
        "correlated": lambda: under(noise, pairs, kernel=MultivariateNormalKernel(), sampler=MixingMeasure(n_moves=4)),
        "beta": lambda: mixture(None, RECORDS, kernel=BetaKernel(2.0, 2.0), sampler="neal5"),
        "reuse": lambda: mixture(None, RECORDS, sampler="reuse"),
        "jain_neal": lambda: mixture(None, RECORDS, kernel=NormalKernel(), sampler="jain_neal"),
        "truncated": lambda: under(noise, RECORDS, kernel=TruncatedNormalKernel(), sampler="neal5"),
        "convolved": lambda: under(
            normal_noise, RECORDS, kernel=ConvolvedNormalKernel(), sampler=MixingMeasure(n_moves=4)
        ),
        "neal2": lambda: mixture(None, RECORDS, sampler="neal2"),
        "conditional": lambda: under(noise, RECORDS, sampler="conditional"),
        "neal3": lambda: mixture(None, RECORDS, kernel=NormalKernel(), sampler="neal3"),
        "categories": lambda: under(
            response, np.arange(8)[:, None] % 3, kernel=CategoricalKernel(3), sampler=MixingMeasure(n_moves=4)
        ),
        "bins": lambda: under(rough, RECORDS),
        "sources": lambda: under(smooth, RECORDS),
        "binomial": lambda: (PrivateExpFamilyGibbs(sums, family="binomial", n_records=20, **TIMES), [13.0]),
        "counts": lambda: (PrivateExpFamilyGibbs(sums, family="binomial", n_records=unknown, **TIMES), [13.0]),
        "poisson": lambda: (PrivateExpFamilyGibbs(sums, family="poisson", n_records=unknown, **TIMES), [13.0]),
        "gamma": lambda: (
            PrivateExpFamilyGibbs(sums, family="exponential", prior=GammaPrior(), n_records=20, **TIMES),
            [13.0],
        ),
        "normal": lambda: (
            PrivateExpFamilyGibbs(
                sums, family="normal", prior=NormalInverseGammaPrior(), n_records=20, approximation="normal", **TIMES
            ),
            [13.0, 30.0],
        ),
        "records": lambda: (
            PrivateExpFamilyGibbs(
                sums, family="normal", prior=NormalInverseGammaPrior(), n_records=20, approximation="exact", **TIMES
            ),
            [13.0, 30.0],
        ),
        "normal, whole numbers": lambda: (
            PrivateExpFamilyGibbs(
                DiscreteLaplaceMechanism(scale=2.0),
                family="poisson",
                n_records=unknown,
                approximation="normal",
                **TIMES,
            ),
            [13.0],
        ),
        "normal counts": lambda: (
            PrivateExpFamilyGibbs(sums, family="multinomial", n_records=unknown, approximation="normal", **TIMES),
            [7.0, 5.0, 8.0],
        ),
        "multinomial": lambda: (PrivateExpFamilyGibbs(sums, family="multinomial", n_records=20, **TIMES), [7.0, 5, 8]),
        "poisson, known": lambda: (PrivateExpFamilyGibbs(sums, family="poisson", n_records=20, **TIMES), [13.0]),
        "beta, given": lambda: (PrivateExpFamilyGibbs(None, family="beta", n_records=8, **TIMES), [-9.0, -7.0]),
        "normal, given": lambda: (PrivateExpFamilyGibbs(None, family="normal", n_records=8, **TIMES), [3.0, 8.0]),
        "counts, given": lambda: (PrivateExpFamilyGibbs(None, family="binomial", n_records=unknown, **TIMES), [7.0]),
        "regression": lambda: (
            PrivateLinearRegressionDA(moments, n_records=NoisyCount(8, sums), **TIMES),
            moments.privatize(pairs, random_state=0),
        ),
        "regression, normal predictors": lambda: (
            PrivateLinearRegressionDA(moments, n_records=8, x_model=GaussianPredictors(), **TIMES),
            moments.privatize(pairs, random_state=0),
        ),
        "regression, histograms": lambda: (
            PrivateLinearRegressionDA(moments, n_records=8, x_model=HistogramPredictors(3), **TIMES),
            moments.privatize(pairs, random_state=0),
        ),
        "regression, given": lambda: (PrivateLinearRegressionDA(None, **TIMES), (RECORDS, RECORDS[:, 0] ** 2)),
        "one normal": lambda: (
            PrivateDPMixture(
                normal_noise,
                kernel="multivariate_normal",
                mixing=MixtureOfFiniteMixtures(prior=[1.0]),
                sampler=OneNormal(),
                **TIMES,
            ),
            np.column_stack([RECORDS, RECORDS**2]),
        ),
        "tables": lambda: (
            PrivateNaiveBayesDA(tables, n_records=8, **TIMES),
            tables.privatize(bits, random_state=0),
        ),
        "collapsed": lambda: (
            PrivateNaiveBayesDA(tables, n_records=8, **TIMES),
            tables.privatize(bits, random_state=0),
        ),
        "own": lambda: (
            PrivatePosteriorDA(LaplaceMechanism(epsilon=2.0, bounds=(0, 1)), model=Coin(), **TIMES),
            bits[:, :1] + 0.1,
        ),
        "own, given": lambda: (PrivatePosteriorDA(None, model=Coin(), **TIMES), bits[:, :1]),
        "tables, given": lambda: (PrivateNaiveBayesDA(None, **TIMES), (bits[:, :1], bits[:, 1])),
        "abc": lambda: (PrivateABC(sums, model=PoissonCount(), method="mcmc", **TIMES), [13.0]),
    }


def edits(array):
    """(name, edited array): its shape, its type, and what is in it."""
    yield "cut", array[:-1]
    yield "longer", np.concatenate([array, array[-1:]])
    yield "twice", np.concatenate([array, array])
    yield "empty", array[:0]
    yield "flat", array.reshape(1, *array.shape)
    if array.ndim > 1:
        yield "narrow", array[..., :-1]
        yield "wide", np.concatenate([array, array], axis=-1)
    for dtype in ("float32", "int16", ">f8", "complex128", "U8"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield dtype, array.astype(dtype)
    big = np.iinfo(array.dtype).max if array.dtype.kind == "i" else 1e300
    for value in (-1, big, -big, *((np.nan, np.inf, -np.inf, 0.5) if array.dtype.kind == "f" else ())):
        yield f"all {value}", np.full_like(array, value)
        for at in {0, array.size // 2, array.size - 1} if array.size else ():
            edited = array.copy()
            edited[np.unravel_index(at, array.shape)] = value
            yield f"{value} at {at}", edited


def headers(header):
    """(name, edited header)."""
    for key, values in {
        "n_done": (-1, 0, 4, 2**40, 1.5, "5", None, True),
        "aim": (-1, 1.5, "x"),
        "pace": ([], [0, 1, 1], [2, 1], [2, 1, 1, 1], [2, 0, 0], [2, 2, 1], [2, 16, 16], [2, 1.0, 1], "pace", None),
        "state": (["sklearn_dpmix.samplers.mixture._run", "Draws"], ["numpy", "ndarray"], None),
        "draws": (None, ["sklearn_dpmix._chains.chain", "Chain"]),
        "rng_states": ([], header["rng_states"][:1], [{}, {}], [1, 2], header["rng_states"] * 2),
    }.items():
        for value in values:
            if value != header[key]:
                yield f"{key}={str(value)[:40]}", header | {key: value}


def variants(arrays):
    """(what was edited, all arrays) for each edit of a checkpoint."""
    header = json.loads(arrays["header"].tobytes())
    for name, edited in headers(header):
        yield name, arrays | {"header": np.frombuffer(json.dumps(edited).encode(), np.uint8)}
    for name, array in arrays.items():
        if name.startswith(("state/0", "draws/1")):
            rest = {key: value for key, value in arrays.items() if key != name}
            yield f"{name} missing", rest
            for words, edited in edits(array):
                if not (edited.dtype == array.dtype and np.array_equal(edited, array, equal_nan=True)):
                    yield f"{name} {words}", arrays | {name: edited}


def numbers(value):
    """All arrays of draws, which may be lists of lists."""
    if isinstance(value, list):
        return [array for part in value for array in numbers(part)]
    return [value]


def outcome(model, data, path, whole=None):
    """(what happened, the draws): "refused", "same" as a run goes that was left alone, "changed", or what is wrong."""
    try:
        model.fit(*data) if isinstance(data, tuple) else model.fit(data)
    except ValueError as error:
        is_named = str(error).startswith(f"checkpoint={path!r}") and "it was left as it" in str(error)
        return "refused" if is_named else f"ValueError: {error}", None
    except Exception as error:
        return f"{type(error).__name__}: {error}", None
    named = sorted(name for name in vars(model) if name.endswith("_draws_") and name[0] != "_")
    draws = [array for name in named for array in numbers(getattr(model, name))]
    draws += getattr(model._draws_, "flat", ())  # of mixtures
    if not all(np.all(np.isfinite(array)) for array in draws):
        return "draws are not finite", None
    is_same = whole is not None and all(np.array_equal(one, other) for one, other in zip(whole, draws, strict=True))
    return "same" if is_same else "changed", draws


def once(known, *args):
    """The engine of the first call: a case has one problem, and some take a second to look for its modes."""
    return known[0] if known else known.setdefault(0, choose_engine(*args))


def try_all(name, path, only=""):
    """Edit a case's checkpoint in every way, or in one; return {edit: what happened}."""
    if name == "collapsed":
        _naive_bayes.independent_tables = lambda *args: None
    _exp_family.choose_engine = partial(once, {})
    _walk.N_TRIAL = 30  # 600 sweeps in plain Python would take longer than all edits

    def go_on(arrays, whole=None):
        with open(path, "wb") as file:
            np.savez(file, **arrays)
        model, data = cases()[name]()
        return outcome(model.set_params(checkpoint=path, n_draws=5), data, path, whole)

    model, data = cases()[name]()
    model.set_params(checkpoint=path)
    interrupt = patch.object(Progress, "__call__", side_effect=KeyboardInterrupt)
    with patch.object(chain_module, "BLOCK_SECONDS", 0.0), interrupt:
        with suppress(KeyboardInterrupt):
            model.fit(*data) if isinstance(data, tuple) else model.fit(data)
    assert os.path.exists(path)  # from the warm-up, without draws
    words, _ = outcome(model, data, path)
    assert words == "changed", words  # a fit
    with np.load(path) as file:
        arrays = dict(file)
    words, whole = go_on(arrays)
    assert words == "changed", words  # a fit
    return {words: go_on(edited, whole)[0] for words, edited in variants(arrays) if only in ("", words)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder, *chosen = sys.argv[1:]
    for one in chosen or cases():
        case, _, only = one.partition(": ")
        results = try_all(case, f"{folder}/{one.replace('/', ' ')}", only)
        kinds = {kind: [words for words, result in results.items() if result == kind] for kind in ("changed", "same")}
        wrong = {words: result for words, result in results.items() if result not in ("refused", *kinds)}
        print(json.dumps({"case": one, "n": len(results), **kinds, "wrong": wrong}), flush=True)
