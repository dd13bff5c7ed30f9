"""Compile in advance what fits compile on first use: ``python -m sklearn_dpmix.warmup [estimator ...]``.

Compiled code is kept on disk next to the package, or in the folder that ``NUMBA_CACHE_DIR`` names.  A line with this
command in a Dockerfile, after the package is installed, saves about ten seconds in the first fit of each container.
The code is used on processors of the same kind; what is kept next to the package may move with it.
"""

import argparse
import doctest
import os
import sys
import time
import warnings
from collections.abc import Sequence

from joblib import Parallel, delayed

import sklearn_dpmix

__all__ = ["warm_up"]

#: Examples of the docstrings use one feature and Laplace noise; these are the other defaults.
MIXTURE = """
>>> from sklearn_dpmix import PrivateDPMixture
>>> from sklearn_dpmix.datasets import make_three_normals
>>> from sklearn_dpmix.mechanisms import {mechanism} as Mechanism
>>> X = make_three_normals({n_features} * 200, random_state=0)[0].reshape(-1, {n_features})
>>> mechanism = Mechanism(scale=1.0, bounds=[(-10, 10)] * {n_features})
>>> model = PrivateDPMixture(mechanism, n_warmup=5, n_draws=5, random_state=2)
>>> model = model.fit(mechanism.privatize(X, random_state=1))
>>> draws = model.density_draws(X[:2])
"""
MORE = {
    "PrivateDPMixture": [
        MIXTURE.format(mechanism=mechanism, n_features=n_features)
        for mechanism in ("LaplaceMechanism", "GaussianMechanism")
        for n_features in (1, 2)
    ]
}


def estimators() -> list[str]:
    """Names of all estimators."""
    return [name for name in sklearn_dpmix.__all__ if hasattr(getattr(sklearn_dpmix, name), "fit")]


def warm_up(names: Sequence[str] = (), n_jobs: int | None = None) -> dict[str, float]:
    """Compile what the defaults of some estimators need, each in its own process.

    Parameters
    ----------
    names : sequence of str
        Names of estimators; without any, all are compiled.
    n_jobs : int, optional
        Number of processes.  None: as many as there are cores.

    Returns
    -------
    seconds : dict of str to float
        Time by estimator, for the slowest of its examples.

    Raises
    ------
    ValueError
        For a name that is not that of an estimator.

    Examples
    --------
    >>> from sklearn_dpmix.warmup import warm_up
    >>> warm_up(["GaussianMixture"])
    Traceback (most recent call last):
        ...
    ValueError: 'GaussianMixture' is not an estimator of sklearn_dpmix: there are DPBarkerMCMC, ...
    """
    unknown = [name for name in names if name not in estimators()]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not an estimator of sklearn_dpmix: there are {', '.join(estimators())}")
    jobs = [(name, text) for name in names or estimators() for text in (None, *MORE.get(name, ()))]
    found = Parallel(n_jobs=os.cpu_count() if n_jobs is None else n_jobs)(delayed(run_examples)(*job) for job in jobs)
    return {name: max(time for (other, _), time in zip(jobs, found, strict=True) if other == name) for name, _ in jobs}


def run_examples(name, text=None):
    """Run a class's examples, or these; return the seconds that they took."""
    started, names = time.perf_counter(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so few draws have not mixed
        for example in doctest.DocTestParser().get_examples(text or getattr(sklearn_dpmix, name).__doc__):
            if example.exc_msg is None:
                exec(compile(example.source, name, "exec"), names)
    return time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sklearn_dpmix.warmup", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="estimator", help="all, where none is given")
    parser.add_argument("--jobs", type=int, help="processes; as many as there are cores")
    options = parser.parse_args(arguments)
    try:
        seconds = warm_up(options.names, options.jobs)
    except ValueError as error:
        parser.error(str(error))
    for name, time_of_it in seconds.items():
        print(f"{name}: {time_of_it:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
