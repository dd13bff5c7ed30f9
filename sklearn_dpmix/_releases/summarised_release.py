"""A release of which only a summary is left."""

from functools import cached_property

import numpy as np

from .nodes import FEW
from .release import FINER, LEVELS, Release, reach_of


class SummarisedRelease(Release):
    """A :class:`Release` of which only a summary is kept; what needs single records is missing."""

    def __init__(self, summary, mechanism, n_all=None):
        self._summary, self._is_narrowest = summary, summary.n_records > FEW
        self.n_all = n_all
        self.mechanism = self.channel = mechanism
        self.n_features, self.n_records = 1, summary.n_records

    @cached_property
    def spread(self):
        n, mean, squares, least, largest = self._summary._sums
        return np.array([mean]), np.array([squares / n]), np.array([max(largest, -least)])

    def nodes(self, width):
        return self._summary.nodes()

    def _quantiles(self, levels):
        places, weights = self._summary.nodes()
        return np.interp(levels, (np.cumsum(weights) - 0.5 * weights) / self.n_records, places)[:, None]

    def data(self):
        return self._summary._contents()

    def encoded(self):
        return None

    def shortage(self, wanted, error):
        """The warning to give if narrower cells were needed."""
        return (
            f"the summary's cells are {self._summary.cell_width:.3g} wide, which is too wide for this fit: its log "
            f"likelihood is off by up to {error:.2g}; make the summary with width={wanted / FINER:.2g}"
        )

    def guess(self):
        raise NotImplementedError("a summary has no records")

    def _known_moments(self):
        (mean, variance, _), n = self.spread, self.n_records
        return self.channel.moments_of(n, mean, variance)

    def _moved_nearer(self):
        places, weights = self._summary.nodes()
        n, up_to = self.n_records, np.cumsum(weights)
        out = np.maximum(LEVELS[:2] * n, 1.0)
        below, above = np.searchsorted(up_to, out, "right"), np.searchsorted(up_to, n - out[::-1])
        low, high = reach_of(places[[*below, *above]])
        if self._summary._sums.least >= low and self._summary._sums.largest <= high:
            return None
        places = np.clip(places, low, high)
        mean, largest = weights @ places / n, np.abs(places).max()
        moved = SummarisedRelease(self._summary, self.mechanism, self.n_all)
        moved.spread = np.array([mean]), np.array([weights @ (places - mean) ** 2 / n]), np.array([largest])
        return moved

    def centre(self):
        """As for records, by the nodes: the median of the releases, moved as :meth:`Release.guess` moves them."""
        places, weights = self._summary.nodes()
        median = places[np.searchsorted(np.cumsum(weights), 0.5 * self.n_records)]
        centre, variance = self.moments()
        mean, spread, _ = self.spread
        shrink = np.sqrt(np.divide(variance, spread, out=np.ones(1), where=spread > 0))
        return ((median - mean) * np.minimum(shrink, 1.0) + centre)[None]

    def shares(self):
        return []  # of whose parts only the nodes are known

    def farthest(self, bounds):
        """As for records, from the smallest and the largest one."""
        values = np.array(self._summary._sums[3:])
        outside = np.maximum(np.maximum(bounds[0, 0] - values, values - bounds[0, 1]), 0.0)
        tail = self.mechanism.tail_probability(outside, self.mechanism.noise_scale)
        if tail is None:
            return 1.0, "", "", self.n_records
        tail = np.where(outside > 0, tail, 1.0)
        worst = int(np.argmin(tail))
        return float(tail[worst]), "the release", f"{values[worst]:.6g}", self.n_records
