"""What the tree of simulated statistics holds."""

import numpy as np

from ...samplers.simulation._simulator import Simulator
from ..curator._statistic_contents import StatisticContents


class ABCContents(StatisticContents):
    """Contents for :class:`PrivateABC`, whose draws need not come from chains and may have weights.

    Parameters
    ----------
    rows : ndarray of int, optional
        Numbers of the draws to take, in this order.
    """

    def __init__(self, fitted, rows=None):
        super().__init__(fitted)
        self.rows = rows

    def _flat(self, name):
        draws = super()._flat(name) if self._has_chains() else getattr(self.fitted, f"{name}_draws_")
        return draws if self.rows is None else draws[self.rows]

    def _has_chains(self):
        return self.fitted.theta_draws_.ndim == 3

    def posterior(self):
        if self._has_chains():
            return super().posterior()
        return {name: self._flat(name)[None] for name in ("theta", "statistic")}

    def coords(self):
        n_columns = self.fitted.statistic_draws_.shape[-1]
        found = super().coords()
        if n_columns > self._S().shape[1]:  # with a column that is not released
            found["entry"] = np.arange(n_columns)
        return found

    def observed(self):
        S, n_columns = self._S(), self.fitted.statistic_draws_.shape[-1]
        return S, ("repeat", "entry" if S.shape[1] == n_columns else "released")

    def sample_stats(self):
        weights = getattr(self.fitted, "weights_", None)
        if weights is None or self.rows is not None:
            return super().sample_stats()
        return {**super().sample_stats(), "weight": weights[None]}

    def attributes(self):
        names = ("log_evidence_", "log_evidence_error_", "k_hat_")
        return {name[:-1]: float(getattr(self.fitted, name)) for name in names if hasattr(self.fitted, name)}

    def _new_statistics(self, chosen, rng):
        simulator = Simulator(self.fitted.model, self.fitted.mechanism, self._S())
        return simulator.statistics(rng, self._flat("theta")[chosen])
