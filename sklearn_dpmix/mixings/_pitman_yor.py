"""Pitman–Yor process: power-law cluster sizes (Pitman & Yor 1997)."""

from math import inf

from .._base.compiled import Component, compiled, lower
from .._base.parameters import is_real
from ._dirichlet import DirichletProcess
from ._urn import urn_cluster

MOST_DISCOUNT, MOST_CONCENTRATION = 0.3, 5.0  # of the walk over mixing measures


class PitmanYor(Component):
    """Pitman–Yor prior on the mixing measure: a Dirichlet process whose small clusters are more numerous.

    Parameters
    ----------
    concentration : float, default=1.0
        α > -discount.
    discount : float, default=0.25
        In [0, 1); 0 is the Dirichlet process.

    Examples
    --------
    >>> from sklearn_dpmix.mixings import PitmanYor
    >>> PitmanYor(concentration=1.0, discount=0.5)
    PitmanYor(discount=0.5)
    """

    masses_as = "pitman_yor"
    random_part = None

    def __init__(self, concentration: float = 1.0, discount: float = 0.25) -> None:
        self.concentration = concentration
        self.discount = discount

    def _lower(self, **context):
        if not is_real(self.discount) or not 0 <= self.discount < 1:
            raise ValueError(f"discount must be a number in [0, 1), got {self.discount!r}")
        if not is_real(self.concentration) or not -self.discount < self.concentration < inf:
            raise ValueError(f"concentration must be a number greater than -discount, got {self.concentration!r}")
        fields = {"start": float(self.concentration), "discount": float(self.discount)}
        return lower(type(self), fields | {"prior_shape": 0.0, "prior_rate": 0.0})  # without a discount

    @property
    def can_walk(self) -> bool:
        """Whether there are few enough atoms for the walk over mixing measures: their number grows as u^-discount."""
        if self.discount == 0.0:
            return DirichletProcess(self.concentration).can_walk
        return self.discount <= MOST_DISCOUNT and 0.0 < self.concentration <= MOST_CONCENTRATION

    @compiled
    def new_cluster_weight(self, concentration, n_clusters):
        return concentration + self.discount * n_clusters

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        return urn_cluster(rng, self.new_cluster_weight(concentration, n_clusters), self.discount, alloc, counts, i)

    @compiled
    def update_concentration(self, rng, concentration, n_clusters, n_records):
        return concentration
