"""DP-MCMC: iterations a second on 100,000 records, against the same chain with NumPy passes."""

import time
import tracemalloc
import warnings

import numpy as np

from sklearn_dpmix import DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.models import Banana

N_RECORDS = 100_000


class PlainBanana:
    """The same model without compiled methods."""

    def __init__(self, model):
        self.log_density, self.log_prior, self.n_params = model.log_density, model.log_prior, model.n_params


def penalty():
    """(iterations a second compiled, with NumPy, ratio, peak memory in multiples of the data); wall time, all cores."""
    model = Banana()
    X = model.sample_records(np.random.default_rng(0), np.array([0.0, 3.0]), N_RECORDS)
    budget = GaussianMechanism(epsilon=4.0, delta=1e-6)
    settings = {"clip_bound": 0.15, "proposal_scale": 0.06, "n_chains": 4, "n_jobs": 2}
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for one, n_iter in ((model, 4000), (PlainBanana(model), 400)):
            estimator = DPPenaltyMCMC(budget, model=one, n_iter=n_iter, **settings)
            estimator.fit(X)
            started = time.perf_counter()
            estimator.fit(X)
            rates.append(n_iter / (time.perf_counter() - started))
        tracemalloc.start()
        DPPenaltyMCMC(budget, model=Banana(data_norm=3.5), n_iter=40, n_chains=4, n_jobs=2).fit(X)
        peak = tracemalloc.get_traced_memory()[1] / X.nbytes
        tracemalloc.stop()
    return *rates, rates[0] / rates[1], peak
