"""Small runs of the estimators that release posterior draws under a budget."""

import numpy as np
import pytest

from sklearn_dpmix import DPBarkerMCMC, DPHamiltonianMC, DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.models import GaussianMean

BUDGET = GaussianMechanism(epsilon=4.0, delta=1e-6)
MEAN = GaussianMean(n_features=2, data_norm=3.0)
X = np.random.default_rng(0).normal([0.5, -0.3], 1.0, (2000, 2))

PENALTY = DPPenaltyMCMC(BUDGET, model=MEAN, n_iter=40, n_chains=2)
HAMILTONIAN = DPHamiltonianMC(BUDGET, model=MEAN, n_iter=12, n_leapfrog=2, n_chains=2)
BARKER = DPBarkerMCMC(BUDGET, model=MEAN, batch_size=200, temperature=0.05, n_iter=20, n_chains=2)
EVERY = pytest.mark.parametrize("estimator", [PENALTY, HAMILTONIAN, BARKER], ids=lambda e: type(e).__name__)
