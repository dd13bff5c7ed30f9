"""What the trees of mixtures hold: releases record by record, their log likelihood, and replicates of them."""

import warnings

import numpy as np

from ..._chains.datatree import Contents
from ..._posterior.pointwise import mixture_log_likelihood, mixture_replicates


class MixtureContents(Contents):
    """Contents for :class:`PrivateDPMixture`: points are records, with the mixture as their parameter."""

    dims = {"mean": ("feature",), "log_variance": ("feature",)}

    def coords(self):
        return {"feature": self._features(self.fitted._n_features_)}

    def observed(self):
        if hasattr(self.fitted, "summary_"):
            return None
        Z, mechanism = self.fitted._release_, self.fitted.mechanism_
        if mechanism is not None and not mechanism.is_local:
            return Z[:, 0], ("entry",)
        return Z, ("record", "feature" if Z.shape[1] == self.fitted._n_features_ else "entry")

    def log_likelihood(self, chosen):
        fitted = self.fitted
        self._refuse_summary("log_likelihood")
        if fitted.mechanism_ is not None and not fitted.mechanism_.is_local:
            why = "one statistic of all records was released, which is a single point: there is nothing to leave out"
            self._refuse("log_likelihood", why)
        if not fitted._has_marginal():
            why = (
                f"g(z | draw) has no closed form for kernel={fitted.kernel_!r} under mechanism={fitted.mechanism_!r}; "
                "score_release(Z) averages over predictive records, for cross-validation"
            )
            self._refuse("log_likelihood", why)
        table = np.empty((len(chosen), len(fitted._Z_)))
        for rows, releases in fitted._of_each_scale(fitted._fitted_releases()):
            table[:, rows] = mixture_log_likelihood(fitted._draws_, releases, chosen)
        return table

    def _refuse_summary(self, what):
        if hasattr(self.fitted, "summary_"):
            self._refuse(what, "a summary was fitted, which keeps no records: fit an array of some of them")

    def predictive(self, chosen, rng):
        fitted, mechanism = self.fitted, self.fitted.mechanism_
        self._refuse_summary("posterior_predictive")
        if mechanism is not None and mechanism.released_above is not None:
            self._refuse("posterior_predictive", "how many records there are is not known, only how many appeared")
        if mechanism is not None and mechanism.noncompliance is not None:
            self._refuse("posterior_predictive", "privatize() makes only the answers of people who follow the design")
        n = len(fitted._release_) if mechanism is None or mechanism.is_local else mechanism.n_records

        def release(records):
            if mechanism is None:
                return records
            if mechanism.of_integers:
                records = np.floor(records + 0.5)
            if mechanism.n_categories is not None:  # beyond them, the nearest one
                records = np.clip(records, 0, mechanism.n_categories - 1)
            return mechanism.privatize(records, random_state=rng)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a calibration that was accepted when the release was made
            return mixture_replicates(fitted._draws_, fitted._kernel(), release, chosen, n, fitted._n_features_, rng)


class RegressorContents(Contents):
    """Contents for :class:`PrivateDPMixtureRegressor`: records of (x, y)."""

    dims = {"coef": ("feature",), "mean": ("column",), "log_variance": ("column",), "curve": ("place",)}

    def coords(self):
        names = self._features(self.fitted.n_features_in_)
        places = ["mean - sd", "mean", "mean + sd"]  # of all predictors (``JointMixture``)
        return {"feature": names, "column": [*map(str, names), "y"], "place": places}

    def observed(self):
        return self.fitted._joint_._release_, ("record", "column")

    def log_likelihood(self, chosen):
        self._refuse("log_likelihood", "the density of a release has no closed form here under all noises")

    def predictive(self, chosen, rng):
        return MixtureContents(self.fitted._joint_).predictive(chosen, rng)
