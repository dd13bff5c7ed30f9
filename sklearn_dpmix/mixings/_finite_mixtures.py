"""Mixture of finite mixtures: a prior on the number of components (Miller & Harrison 2018)."""

from math import exp, floor, inf, lgamma, log

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import Component, compiled, lower
from ._dirichlet import positive
from ._urn import urn_cluster

MOST_COMPONENTS, MOST_SHAPE = 50, 10.0  # or prior mean of them, for a walk over mixing measures; of the weights' γ
MANY = 10.0  # components at the start of a chain: those that are too many empty soon


class MixtureOfFiniteMixtures(Component):
    r"""A finite mixture with a prior on its number of components M and weights Dirichlet(γ, ..., γ) given M.

    Given M, the partition is that of the two-parameter urn with discount -γ and concentration γM, so every sampler here
    can use it.  M is drawn given the partition in every sweep (the telescoping sampler).  Unlike a Dirichlet process,
    it is consistent for the number of components, if there is one.

    Where the walk over mixing measures is not used, and γ is above 1 or the prior has gaps, a chain may keep the M that
    it starts with.  Such chains start at draws from the prior, so that R-hat shows it: use several of them.

    Parameters
    ----------
    concentration : float, default=1.0
        γ > 0, the Dirichlet parameter of the weights.
    prior : float or array-like of shape (most components,), default=0.1
        A number p in (0, 1): M is geometric, P(M) = p (1 - p)^(M-1), as in Miller & Harrison.  An array: probabilities
        of M = 1, 2, ..., up to a factor.

    References
    ----------
    Miller & Harrison (2018), "Mixture models with a prior on the number of components", eqs. (2)-(3);
    Frühwirth-Schnatter, Malsiner-Walli & Grün (2021), "Generalized mixtures of finite mixtures and telescoping
    sampling", eq. (3.3).

    Examples
    --------
    >>> from sklearn_dpmix.mixings import MixtureOfFiniteMixtures
    >>> MixtureOfFiniteMixtures(concentration=0.5, prior=[0.2, 0.4, 0.4])
    MixtureOfFiniteMixtures(concentration=0.5, prior=[0.2, 0.4, 0.4])
    """

    random_part = "n_components"
    #: the name, in the walk over mixing measures, of the distribution of the masses whose shares are the weights
    masses_as = "finite"

    def __init__(self, concentration: float | None = 1.0, prior: ArrayLike = 0.1) -> None:
        self.concentration = concentration
        self.prior = prior

    def _lower(self, **context):
        gamma = positive("concentration", self.concentration)
        try:
            prior = np.asarray(self.prior, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            prior = np.array(np.nan)
        if prior.ndim == 0 and 0 < prior < 1:
            table, log_fail, most = np.zeros(1), log(1.0 - float(prior)), inf
        elif prior.ndim == 1 and prior.size and np.all(np.isfinite(prior)) and np.all(prior >= 0) and prior.any():
            most = float(np.flatnonzero(prior)[-1] + 1)
            with np.errstate(divide="ignore"):
                table, log_fail = np.log(prior / prior.sum()), 0.0
        else:
            raise ValueError(
                "prior must be a number in (0, 1), for a geometric number of components, or the probabilities of 1, "
                f"2, ... components, got {self.prior!r}"
            )
        possible = np.flatnonzero(np.isfinite(table)) + 1
        has_gaps = len(possible) < possible[-1] - possible[0] + 1
        fields = {"discount": -gamma, "log_fail": log_fail, "log_prior": table, "most_clusters": most}
        return lower(type(self), fields | {"has_gaps": has_gaps, "hardly_moves": has_gaps or gamma > 1.0})

    @property
    def can_walk(self) -> bool:
        """Whether components can be added and removed one by one, and are few enough."""
        value = self._lower()
        if -value.discount > MOST_SHAPE:
            return False
        if value.most_clusters == inf:
            return exp(value.log_fail) <= 1.0 - 1.0 / MOST_COMPONENTS
        possible = np.flatnonzero(np.isfinite(value.log_prior)) + 1
        return bool(not value.has_gaps and (len(possible) > 1 or possible[0] == 1) and possible[-1] <= MOST_COMPONENTS)

    @compiled
    def draw_start(self, rng):
        """M at the start of a chain: a draw from the prior where M may never move, so that chains show it; or many.

        Components empty soon where γ is at most 1, but it takes about n^γ sweeps to add one.  If γ is larger, or M
        would have to pass over values that the prior excludes, a chain may stay where it starts.
        """
        if not self.hardly_moves:
            return min(MANY, self.most_clusters)
        if self.most_clusters == inf:
            return 1.0 + floor(log(1.0 - rng.random()) / self.log_fail)
        m, rest = 1.0, rng.random() - exp(self.log_prior[0])
        while rest >= 0.0 and m < self.most_clusters:
            rest -= exp(self.log_prior[int(m)])
            m += 1.0
        return m

    @compiled
    def new_cluster_weight(self, concentration, n_clusters):
        """γ(M - t): the total weight of the components without records.  ``concentration`` holds M."""
        return -self.discount * max(concentration - n_clusters, 0.0)

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        return urn_cluster(rng, self.new_cluster_weight(concentration, n_clusters), self.discount, alloc, counts, i)

    @compiled
    def update_concentration(self, rng, concentration, n_clusters, n_records):
        """M given the partition, exactly, through a beta variable.

        p(M | t, n) is proportional to p(M) M!/(M - t)! Γ(γM)/Γ(γM + n), and the last ratio is the integral of
        η^(γM-1) (1 - η)^(n-1) / Γ(n): η | M ~ Beta(γM, n); given η, a geometric prior makes M - t negative binomial.
        """
        gamma = -self.discount
        shape = gamma * concentration
        log_a = log(rng.standard_gamma(shape + 1.0)) + log(1.0 - rng.random()) / shape  # Gamma(γM), often below 1e-300
        log_z = gamma * (log_a - log(exp(log_a) + rng.standard_gamma(float(n_records))))
        if self.most_clusters == inf:
            z = exp(log_z + self.log_fail)
            return n_clusters + float(rng.poisson(rng.standard_gamma(n_clusters + 1.0) * z / (1.0 - z)))
        top, total, chosen = -inf, 0.0, float(n_clusters)
        for m in range(n_clusters, int(self.most_clusters) + 1):
            value = self.log_prior[m - 1] + lgamma(m + 1.0) - lgamma(m - n_clusters + 1.0) + m * log_z
            if value > -inf:
                if value > top:
                    total *= exp(top - value)
                    top = value
                share = exp(value - top)
                total += share
                if rng.random() * total < share:
                    chosen = float(m)
        return chosen
