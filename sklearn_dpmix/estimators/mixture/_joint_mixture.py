"""The mixture of predictors and response on which a regression on privatised records is built."""

import numpy as np

from ..._posterior.response_law import AtPlace, ConditionalLaw
from ...mechanisms import NoNoise
from ._dp_mixture import PrivateDPMixture


class JointMixture(PrivateDPMixture):
    """The mixture of (x, y), whose chains are judged by the curve of y on x; its records get no labels."""

    _public_name = "PrivateDPMixtureRegressor"

    def fit_as_part_of(self, regressor, release):
        """Fit, and report progress and callbacks as the regressor's own."""
        self._part_of = regressor
        try:
            return self.fit(release)
        finally:
            del self._part_of

    def _note_clusters(self, values, summary):
        pass

    def _warn_about_chains(self):
        """Not yet: see :meth:`warn`."""

    def warn(self):
        """Warn about the draws, which the regression has kept by now: a warning may be an error."""
        super()._warn_about_chains()

    def _monitors(self, centre):
        """Also the curve at the mean of x, and one standard deviation to either side of it in all predictors."""
        mean, variance = (moment.mean(axis=(0, 1))[:-1] for moment in self.moment_draws())
        places = mean + np.array([[-1.0], [0.0], [1.0]]) * np.sqrt(variance)
        law = AtPlace.value(self._draws_, self._n_features_)
        curves, _ = ConditionalLaw(self._draws_, law, NoNoise()._lower(), self._kernel()).curves(places)
        return super()._monitors(centre) | {"curve": self._draws_.by_chain(curves)}
