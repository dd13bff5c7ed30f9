"""Fits under a budget with neighbours that move what they release as far as one record can."""

import numpy as np

from sklearn_dpmix import DPBarkerMCMC, DPHamiltonianMC, DPLogisticRegressionMCMC, DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.models import Banana, GaussianMean, LinearGaussianLikelihood, LogisticLikelihood
from sklearn_dpmix.samplers import PrivateNewton

BUDGET = GaussianMechanism(epsilon=4.0, delta=1e-6)
N = 200


class Location:
    """A user's model in NumPy: Laplace's, Lipschitz in θ, with gradients ±1."""

    n_params = 1

    def log_density(self, X, theta):
        return -np.abs(X[:, 0] - theta[0])

    def grad_log_density(self, X, theta):
        return np.sign(X[:, :1] - theta)

    def log_prior(self, theta):
        return -0.5 * np.sum(theta**2, axis=1)

    def log_ratio_range(self, theta, new):
        return 2.0 * abs(new[0] - theta[0])

    def gradient_range(self, theta, frame):
        return 2.0 * abs(frame[0, 0])


class Precision(Location):
    """One whose records have an information of their own, 0 to 1; a record far out makes it NaN."""

    def observed_information(self, X, theta):
        with np.errstate(all="ignore"):
            each = np.where(X[:, 0] > 0.0, 1.0, 0.0) + 0.0 * np.where(np.abs(X[:, 0]) > 1e5, np.nan, 0.0)
        return np.array([[each.sum()]])

    def information_range(self, theta):
        return 1.0


class Unbounded:
    """A user's model whose ratios nothing bounds, so that they are clipped; a far record makes one NaN."""

    n_params = 1

    def log_density(self, X, theta):
        with np.errstate(all="ignore"):
            return np.where(np.abs(X[:, 0]) > 1e200, np.nan, -0.5 * (X[:, 0] - theta[0]) ** 2)

    def grad_log_density(self, X, theta):
        with np.errstate(all="ignore"):
            return np.where(np.abs(X) > 1e200, np.nan, X - theta)

    def log_prior(self, theta):
        return -0.5 * np.sum(theta**2, axis=1)


def replaced(X, first, second):
    """Data sets of which the last record is one or the other."""
    return tuple((np.vstack([X[:-1], np.reshape(row, (1, -1))]),) for row in (first, second))


def labelled(pair):
    """The last column apart, as y."""
    return tuple((X[:, :-1], X[:, -1].astype(int)) for (X,) in pair)


RNG = np.random.default_rng(0)
LINE = RNG.normal(0.3, 1.0, (N, 1))
PLANE = RNG.normal([0.5, -0.3], 1.0, (N, 2))
MEAN, MEANS = GaussianMean(1, data_norm=3.0), GaussianMean(2, data_norm=3.0)
ROWS = np.column_stack([RNG.uniform(-1, 1, N), RNG.integers(0, 2, N)]).astype(float)
ENDS = replaced(LINE, 50.0, -50.0)
ANGLES = replaced(PLANE, [50.0, 50.0], [-50.0, -50.0])
LABELS = replaced(ROWS, [1.0, 1.0], [1.0, 0.0])
TIGHT = LogisticLikelihood(1, fit_intercept=False, prior_sigma=0.3, data_norm=1.0)

PENALTY = DPPenaltyMCMC(BUDGET, model=MEAN, n_iter=60, n_chains=2)
HAMILTONIAN = DPHamiltonianMC(BUDGET, model=MEAN, n_iter=12, n_leapfrog=3, n_chains=2)
NEWTON = PrivateNewton(n_steps=2, share=0.2)


def with_params(estimator, **params):
    from sklearn.base import clone

    return clone(estimator).set_params(**params)


#: name: (estimator, first, second); the last record is replaced by the one that is hardest to tell from it.
CASES = {
    "DPPenaltyMCMC": (PENALTY, *ENDS),
    "DPPenaltyMCMC, two parameters": (with_params(PENALTY, model=MEANS), *ANGLES),
    "DPPenaltyMCMC, guided": (with_params(PENALTY, model=MEANS, move="guided"), *replaced(PLANE, [0, 9.0], [0, -9.0])),
    "DPPenaltyMCMC, tempered": (with_params(PENALTY, temperature=0.1), *ENDS),
    "DPPenaltyMCMC, batches": (
        with_params(PENALTY, batch_size=N - 1, temperature=0.1),
        *replaced(np.full((N, 1), -50.0), -50.0, 50.0),
    ),
    "DPPenaltyMCMC, clipped": (
        with_params(PENALTY, model=Unbounded(), clip_bound=1.0, clipped_fraction_share=0.1), *ENDS,
    ),
    "DPPenaltyMCMC, NaN of one record": (with_params(PENALTY, model=Unbounded(), clip_bound=1.0),
                                         *replaced(LINE, 1e300, 0.3)),
    "DPPenaltyMCMC, start": (with_params(PENALTY, preconditioner=NEWTON), *ENDS),
    "DPPenaltyMCMC, user's model": (with_params(PENALTY, model=Location(), n_chains=1), *ENDS),
    "DPPenaltyMCMC, user's model, start": (with_params(PENALTY, model=Precision(), preconditioner=NEWTON), *ENDS),
    "DPPenaltyMCMC, user's model, NaN of one record": (
        with_params(PENALTY, model=Precision(), preconditioner=NEWTON), *replaced(LINE, 1e6, -0.5),
    ),
    "DPPenaltyMCMC, logistic": (with_params(PENALTY, model=TIGHT, preconditioner=NEWTON), *LABELS),
    "DPPenaltyMCMC, linear": (
        with_params(PENALTY, model=LinearGaussianLikelihood(1, False, data_norm=1.0, y_bound=2.0, sigma=3.0)),
        *replaced(ROWS, [1.0, 9.0], [1.0, -9.0]),
    ),
    "DPPenaltyMCMC, banana": (with_params(PENALTY, model=Banana(), clip_bound=0.01), *ANGLES),
    "DPHamiltonianMC": (HAMILTONIAN, *ENDS),
    "DPHamiltonianMC, fresh gradients": (with_params(HAMILTONIAN, reuse_gradients=False, preconditioner=NEWTON), *ENDS),
    "DPHamiltonianMC, user's model": (with_params(HAMILTONIAN, model=Location()), *ENDS),
    "DPHamiltonianMC, clipped": (
        with_params(HAMILTONIAN, model=Unbounded(), clip_bound=1.0, gradient_clip_bound=0.5), *ENDS,
    ),
    "DPHamiltonianMC, NaN of one record": (
        with_params(HAMILTONIAN, model=Unbounded(), clip_bound=1.0, gradient_clip_bound=0.5),
        *replaced(LINE, 1e300, 0.3),
    ),
    "DPLogisticRegressionMCMC": (
        DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, prior_sigma=0.3, fit_intercept=False,
                                 sampler=DPPenaltyMCMC(n_iter=60, n_chains=2, preconditioner=NEWTON)),
        *labelled(LABELS),
    ),
}  # fmt: skip

#: Neighbours that need not be far apart in what is released: the point is that they are not too far.
NEAR = {name for name in CASES if "NaN" in name}

BARKER = {
    "DPBarkerMCMC, user's model": (
        DPBarkerMCMC(BUDGET, model=Unbounded(), batch_size=N - 1, temperature=0.05, n_iter=20, n_chains=1),
        *replaced(np.where(np.arange(N)[:, None] % 2, 1e9, -1e9), 1e9, -1e9),
    ),
    "DPBarkerMCMC": (
        DPBarkerMCMC(BUDGET, model=MEAN, batch_size=N - 1, temperature=0.05, n_iter=400, n_chains=1),
        *replaced(np.where(np.arange(N)[:, None] % 2, 50.0, -50.0), 50.0, -50.0),
    ),
}

#: What `make test` runs of them.
QUICK = ("DPPenaltyMCMC, user's model", "DPHamiltonianMC, user's model")
