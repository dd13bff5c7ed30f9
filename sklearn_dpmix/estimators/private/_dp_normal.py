"""A normal approximation of a posterior under a budget: what PrivateNormalApproximation does, planned and paid for."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples

from ..._base.parameters import check_flag
from ..._base.typing import Floats, Seed
from ...privacy import PrivacyLedger
from ...samplers import PrivateNormalApproximation
from ...samplers.private._normal_approximation import normal_posteriors
from ...samplers.private._target import Target
from .._chain_estimator import warn_user
from .._monitored_draws import despite_interruption
from ._dp_inputs import DPInputs

#: Of a column's released curvature, in standard deviations of its noise: too little to tell it from 0; plainly more.
HIDDEN, PLAIN = 3.0, 30.0


class DPNormal(DPInputs, BaseEstimator):
    """Independent draws of a noise-aware posterior: as :class:`DPPenaltyMCMC`, but no chains and no R-hat."""

    _needs = ("grad_log_density", "observed_information")
    _public_name = "DPLogisticRegressionMCMC"  # which alone makes it
    _logit_scale = 4.0
    init = None

    def __init__(
        self,
        preconditioner: PrivateNormalApproximation,
        mechanism: BaseEstimator | None = None,
        *,
        model: Any = None,
        ledger: PrivacyLedger | None = None,
        simulate: bool = False,
        random_state: Seed = None,
    ) -> None:
        self.preconditioner = preconditioner
        self.mechanism = mechanism
        self.model = model
        self.ledger = ledger
        self.simulate = simulate
        self.random_state = random_state

    @property
    def secure(self) -> bool:  # type: ignore[override]
        return check_flag("secure", self.preconditioner.secure)

    def _check_ranges(self, model):
        """No log ratio is released."""

    def _prepare(self, n_records):
        """(model, Budget, parts, releases), with all checks that need no record."""
        model, budget = self._check_model(), self._check_privacy()
        parts = self.preconditioner.parts(budget)
        releases = [one for pair in parts for one in pair]
        if self.ledger is not None and not self.simulate:
            self.ledger.check(releases, self._public_name)
        return model, budget, parts, releases

    def _draw(self, X, y):
        """Draw from the approximation given confidential records, without a warning; return what was released."""
        model, budget, parts, releases = self._prepare(_num_samples(X))
        records = self._check_records(model, X, y)
        if self.ledger is not None and not self.simulate:
            self.ledger.spend(releases, self._public_name)
        (source,) = self._sources(1)
        target = Target(model, records)
        steps = normal_posteriors(target, self._start(model), parts, source)
        self.n_iter_, self._was_interrupted_ = 0, False
        try:
            for posterior in steps:
                self.released_, self.n_iter_ = posterior.released, self.n_iter_ + 1
        except KeyboardInterrupt:
            if self.n_iter_ == 0:
                raise
            self._was_interrupted_ = True
        self._was_interrupted_ |= despite_interruption(partial(self._keep, posterior, source))
        self.is_private_, self.privacy_spent_ = not self.simulate, budget.spent(releases)
        return parts

    def _keep(self, posterior, source):
        """Draw given what the last step released: this is post-processing."""
        rng = np.random.default_rng((source.random(8) * 2.0**52).astype(np.uint64))
        self.theta_draws_ = posterior.draws(rng, self.preconditioner.n_draws)[None]
        self.mode_, self.n_effective_ = posterior.mode, posterior.n_effective
        self.correction_power_ = posterior.power

    def _warn(self, parts):
        self._warn_of_simulation()
        if self._was_interrupted_:
            warn_user(
                f"interrupted: kept {self.n_iter_} of {len(parts)} Newton steps; the draws are given the last of them, "
                "and the whole budget counts as spent",
                RuntimeWarning,
            )
        sizes = np.diag(self.released_.curvature)[: self.model.n_features] / self.released_.curvature_noise
        if sizes.max() > PLAIN and sizes.min() < HIDDEN:
            warn_user(
                f"noise swamps columns {np.flatnonzero(sizes < HIDDEN).tolist()} of X and no others: they are small "
                "compared with data_norm, or hardly ever differ from 0, so their intervals merely reflect the prior; "
                "divide columns by public numbers first, so that they are about equally large",
                UserWarning,
            )

    def settled_draws(self) -> Floats:
        """All draws: (1, n_draws, n_params)."""
        return self.theta_draws_
