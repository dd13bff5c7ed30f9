"""Dirichlet process (Ferguson 1973), with a fixed concentration or a gamma prior on it (Escobar & West 1995)."""

from math import inf, log

import numpy as np

from .._base.compiled import Component, compiled, lower
from .._base.parameters import is_real
from ._urn import cluster_of_another

MOST_CONCENTRATION = 20.0  # largest concentration, or prior mean of one, for a walk over mixing measures


class DirichletProcess(Component):
    """Dirichlet process prior on the mixing measure.

    Parameters
    ----------
    concentration : float or None, default=1.0
        α > 0: a priori, n records fall into about α·log(1 + n/α) clusters.  None: give ``prior``.
    prior : tuple (shape, rate), optional
        Gamma prior on the concentration; only with ``concentration=None``.

    Examples
    --------
    >>> from sklearn_dpmix.mixings import DirichletProcess
    >>> DirichletProcess(concentration=None, prior=(2.0, 1.0))
    DirichletProcess(concentration=None, prior=(2.0, 1.0))
    """

    #: the name, in the walk over mixing measures, of the distribution of the masses whose shares are the weights
    masses_as = "dirichlet"

    def __init__(self, concentration: float | None = 1.0, prior: tuple[float, float] | None = None) -> None:
        self.concentration = concentration
        self.prior = prior

    def _lower(self, **context):
        if (self.concentration is None) == (self.prior is None):
            raise ValueError(
                f"give exactly one of concentration and prior, got concentration={self.concentration!r}, "
                f"prior={self.prior!r}: DirichletProcess(concentration=1.0) or "
                "DirichletProcess(concentration=None, prior=(shape, rate))"
            )
        if self.prior is None:
            fixed, shape, rate = positive("concentration", self.concentration), 0.0, 0.0
        else:
            if np.shape(self.prior) != (2,):
                raise ValueError(f"prior must be a pair (shape, rate) of a gamma distribution, got {self.prior!r}")
            shape, rate = positive("prior shape", self.prior[0]), positive("prior rate", self.prior[1])
            fixed = shape / rate
        return lower(type(self), {"start": fixed, "prior_shape": shape, "prior_rate": rate, "discount": 0.0})

    @property
    def random_part(self) -> str | None:
        """Name of the parameter that is drawn besides the partition; None if the concentration is fixed."""
        return None if self.prior is None else "concentration"

    @property
    def can_walk(self) -> bool:
        """Whether there are few enough masses: about the concentration times log(50 n), for n records."""
        mean = self.concentration if self.prior is None else self.prior[0] / self.prior[1]
        return mean is not None and bool(mean <= MOST_CONCENTRATION)

    @compiled
    def new_cluster_weight(self, concentration, n_clusters):
        """Weight of a new cluster in the urn, where that of an old one is its number of records minus ``discount``."""
        return concentration

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        """Cluster of record i given the others, by the Pólya urn; -1 for a new one."""
        u = rng.random() * (concentration + alloc.size - 1)
        if u < concentration:
            return -1
        return cluster_of_another(u - concentration, alloc, counts, i)

    @compiled
    def update_concentration(self, rng, concentration, n_clusters, n_records):
        """Escobar & West (1995), eq. (13): exact given the number of clusters, through a beta variable."""
        if self.prior_shape == 0.0:
            return concentration
        a = rng.standard_gamma(concentration + 1.0)
        log_eta = log(a / (a + rng.standard_gamma(float(n_records))))
        rate = self.prior_rate - log_eta
        shape = self.prior_shape + n_clusters
        if rng.random() * (shape - 1.0 + n_records * rate) >= shape - 1.0:
            shape -= 1.0
        return rng.standard_gamma(shape) / rate


def positive(name, value):
    """Return a mixing parameter as a float, or raise an error that says what is wrong with it."""
    if not is_real(value) or not 0 < value < inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return float(value)
