"""Fits of long runs, and how they are stopped."""

import numpy as np
from coin import Coin
from sklearn.base import clone

from sklearn_dpmix import (
    PrivateABC,
    PrivateDPMixture,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
)
from sklearn_dpmix._chains import chain as chain_module
from sklearn_dpmix._chains import checkpoint
from sklearn_dpmix._chains.progress import Progress
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.queries import ClassFeatureCounts, RegressionMoments

RECORDS = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
RELEASE = RECORDS.privatize(make_three_normals(60, random_state=0)[0], random_state=1)
TIMES = {"n_chains": 2, "n_warmup": 20, "n_draws": 30, "random_state": 0}


def fits():
    """name -> (estimator, release)."""
    moments = LaplaceMechanism(epsilon=5.0, query=RegressionMoments((-1, 1), (-1, 1), 1))
    counts = LaplaceMechanism(epsilon=5.0, query=ClassFeatureCounts(2, 2, 1))
    x = np.linspace(-1, 1, 30)
    table = np.column_stack([np.arange(30) % 2, np.arange(30) // 15])
    noisy = LaplaceMechanism(scale=2.0)
    return {
        "mixture": (PrivateDPMixture(RECORDS, **TIMES), RELEASE),
        "family": (PrivateExpFamilyGibbs(noisy, family="binomial", n_records=20, **TIMES), [13.0]),
        "regression": (
            PrivateLinearRegressionDA(moments, n_records=30, **TIMES),
            moments.privatize(np.column_stack([x, 0.5 * x]), random_state=0),
        ),
        "bayes": (PrivateNaiveBayesDA(counts, n_records=30, **TIMES), counts.privatize(table, random_state=0)),
        "own": (PrivatePosteriorDA(RECORDS_OF_COINS, model=Coin(), **TIMES), COINS),
        "abc": (PrivateABC(noisy, model=Coin(), method="mcmc", **TIMES), [13.0]),
    }


RECORDS_OF_COINS = LaplaceMechanism(epsilon=2.0, bounds=(0, 1))
COINS = RECORDS_OF_COINS.privatize((np.arange(20)[:, None] % 3 > 0).astype(float), random_state=0)
FITS = fits()


def draws_of(model):
    found = {name: value for name, value in vars(model).items() if name.endswith("_draws_") and name[0] != "_"}
    assert found
    return found | {"n_iter": model.n_iter_, "r_hat": model.r_hat_, "ess": model.ess_}


def stop_at(monkeypatch, n_sweeps, error=KeyboardInterrupt):
    """Make fits stop with an error at a number of sweeps; single sweeps are blocks, and each is saved."""

    def call(self, n_done, words=""):
        if self.done + n_done >= n_sweeps:
            raise error

    monkeypatch.setattr(chain_module, "BLOCK_SECONDS", 0.0)
    monkeypatch.setattr(Progress, "__call__", call)


def mixture(**params):
    return clone(FITS["mixture"][0]).set_params(**params)


def save_always(monkeypatch):
    """Checkpoints are written after each block."""
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 0)
