"""What the trees of a curator's estimators hold: noisy statistics, their log likelihood, and replicates of them."""

import numpy as np

from ..._base.chunks import chunks
from ..._chains.datatree import Contents
from ...models._regression_prior import centre_and_half
from ...samplers.augmentation._user_model import UserModel
from ._exp_family_inputs import check_bounds


class StatisticContents(Contents):
    """Contents for estimators of noisy statistics: a point is one of several releases of the same statistic.

    Such points are independent given the confidential *statistic*, not given θ.  LOO leaves out a release, not a
    record: the score is log p(release | the other releases).
    """

    dims = {"theta": ("parameter",), "statistic": ("entry",)}

    def _S(self):
        """The releases, one per row, or None if nothing was released."""
        return None if self.fitted.mechanism is None else getattr(self.fitted, "release_", None)

    def coords(self):
        S = self._S()
        return super().coords() if S is None else {**super().coords(), "entry": self._entries(S.shape[1])}

    def _entries(self, size):
        query = getattr(self.fitted.mechanism, "query", None)
        names = query.statistic_names() if getattr(query, "n_statistics", None) == size else np.arange(size)
        given = getattr(self.fitted, "feature_names_in_", names)
        return given if len(given) == size else names

    def observed(self):
        return None if self._S() is None else (self._S(), ("repeat", "entry"))

    def log_likelihood(self, chosen):
        S = self._S()
        if S is None:
            self._refuse("log_likelihood", "nothing was released (mechanism=None)")
        if not hasattr(self.fitted, "statistic_draws_"):
            why = "draws of the confidential statistic are not kept, and given θ alone a release has no closed form"
            self._refuse("log_likelihood", why)
        if len(S) < 2:
            why = (
                "one release is one point: without it the prior is left; PrivateABC has log_evidence_ of a release, "
                "which compares models"
            )
            self._refuse("log_likelihood", why)
        return self.fitted.mechanism.log_densities_given(S, self._flat("statistic")[chosen])

    def predictive(self, chosen, rng):
        S = self._S()
        if S is None:
            self._refuse("posterior_predictive", "nothing was released (mechanism=None)")
        return self.fitted.mechanism.releases_given(self._new_statistics(chosen, rng), len(S), rng)

    def _new_statistics(self, chosen, rng):
        """Statistics, before noise, of new records under each draw's parameters: (len(chosen), n_statistics)."""
        raise NotImplementedError

    def _numbers(self, chosen):
        """Number of records in each draw."""
        if hasattr(self.fitted, "n_records_draws_"):
            return self._flat("n_records")[chosen]
        return np.full(len(chosen), self.fitted._n_records_)

    @staticmethod
    def _parts(numbers):
        """The records of each draw in parts that fit into memory: (draw, rows)."""
        return ((t, rows) for t, n in enumerate(numbers) for rows in chunks(n))


class ExpFamilyContents(StatisticContents):
    """Contents for :class:`PrivateExpFamilyGibbs`."""

    is_duplicate = True

    def coords(self):
        return {**super().coords(), **self._parameters(self.fitted.family_.param_names)}

    def _entries(self, size):
        scaling = self._scaling()
        labels = self.fitted.family_.labels if scaling is None else scaling.labels
        names = [f"sum({label})" for label in labels]
        given = getattr(self.fitted, "feature_names_in_", names)
        return given if len(given) == size else names

    def _scaling(self):
        query = getattr(self.fitted.mechanism, "query", None)
        return None if query is None else query._scaling(self.fitted.family_)

    def _new_statistics(self, chosen, rng):
        fitted, theta, n = self.fitted, self._flat("theta")[chosen], self._numbers(chosen)
        family, scaling = fitted.family_, self._scaling()
        bounds, outside = check_bounds(fitted.truncation, family, getattr(fitted.mechanism, "query", None))
        if bounds is None or family.is_bounded:
            return family.draw_sums(rng, theta, n)
        statistics = np.zeros((len(theta), family.n_statistics))
        for t, rows in self._parts(n):
            x = family.draw(rng, np.broadcast_to(theta[t], (rows.stop - rows.start, theta.shape[1])))
            inside = np.clip(x, *bounds)
            added = family.statistics(inside) if scaling is None else scaling.statistics(family, inside)
            if outside == "drop":
                added = added[(x >= bounds[0]) & (x <= bounds[1])]
            statistics[t] += added.sum(axis=0)
        return statistics


class NaiveContents(Contents):
    """Contents for :class:`NaivePosterior`, whose release stands for the statistic."""

    dims = StatisticContents.dims
    is_duplicate = True

    def coords(self):
        return self._parameters(self.fitted.family_.param_names)

    def log_likelihood(self, chosen):
        self._refuse("log_likelihood", "the release is taken for the statistic, which then has no distribution")

    def predictive(self, chosen, rng):
        self._refuse("posterior_predictive", "the release is taken for the statistic, which then has no distribution")


class RegressionContents(StatisticContents):
    """Contents for :class:`PrivateLinearRegressionDA`."""

    dims = {
        **StatisticContents.dims,
        "coef": ("feature",),
        "x_mean": ("feature",),
        "x_covariance": ("feature", "feature_bis"),
        "x_share": ("feature", "cell"),
    }

    def coords(self):
        names = self._features(len(self.fitted.coef_))
        return {**super().coords(), "feature": names, "feature_bis": names}

    def _new_statistics(self, chosen, rng):
        """Those of new responses to the predictors of each draw; under a model of the predictors, of new records."""
        x_model = self.fitted.x_model
        if x_model is None:
            return self._new_responses(chosen, rng)
        query, n = self.fitted.mechanism.query, self._numbers(chosen)
        bounds, laws = query._bounds(), {k: self._flat(k)[chosen] for k in x_model._draw_names}
        intercept, coef = self._flat("intercept")[chosen], self._flat("coef")[chosen]
        sigma, statistics = self._flat("sigma")[chosen], np.zeros((len(chosen), query.n_statistics))
        for t, rows in self._parts(n):
            size = rows.stop - rows.start
            x = x_model._draw(rng, {name: draws[t] for name, draws in laws.items()}, size, bounds)
            y = intercept[t] + x @ coef[t] + sigma[t] * rng.standard_normal(size)
            statistics[t] += query.value(np.column_stack([x, y]))
        return statistics

    def _new_responses(self, chosen, rng):
        """The moments of X stay; X'y ~ N(Gγ, τ²G), and the residual sum of squares is drawn; c = RSS + b'G⁻¹b."""
        statistics, n = self._flat("statistic")[chosen], self._numbers(chosen)
        query = self.fitted.mechanism.query
        d, (centre, half) = query.n_features + 1, centre_and_half(query._bounds())
        coef, sigma = self._flat("coef")[chosen], self._flat("sigma")[chosen] / half[-1]
        slopes = coef * half[:-1] / half[-1]
        intercept = (self._flat("intercept")[chosen] + coef @ centre[:-1] - centre[-1]) / half[-1]
        rows, columns = np.triu_indices(d)
        for t, statistic in enumerate(statistics):
            G = np.empty((d, d))
            G[rows, columns] = G[columns, rows] = np.concatenate([[n[t]], statistic[d + 1 :]])
            root = np.linalg.cholesky(G)
            w = root.T @ np.append(intercept[t], slopes[t]) + sigma[t] * rng.standard_normal(d)
            statistic[:d], statistic[d] = root @ w, w @ w + sigma[t] ** 2 * rng.chisquare(n[t] - d)
        return statistics


class NaiveBayesContents(StatisticContents):
    """Contents for :class:`PrivateNaiveBayesDA`."""

    dims = {
        "class_prob": ("class_label",),
        "information": ("feature",),
        "feature_prob": ("feature", "class_label", "value"),
    }

    def coords(self):
        fitted = self.fitted
        sizes = fitted.n_values_
        own = {"feature": self._features(len(sizes)), "class_label": fitted.classes_, "value": np.arange(max(sizes))}
        return {**super().coords(), **own}

    def _new_statistics(self, chosen, rng):
        of_class, of_value = self._flat("class_prob")[chosen], self._flat("feature_prob")[chosen]
        of_class = of_class / of_class.sum(axis=1, keepdims=True)
        counts = rng.multinomial(self._numbers(chosen), of_class)  # (draws, classes)
        tables = []
        for j, size in enumerate(self.fitted.n_values_):
            given = of_value[:, j, :, :size]
            table = rng.multinomial(counts, given / given.sum(axis=-1, keepdims=True))
            tables.append(table.reshape(len(chosen), -1))
        return np.hstack(tables).astype(np.float64)


class PosteriorDAContents(StatisticContents):
    """Contents for :class:`PrivatePosteriorDA`: sums of a query, or records that were privatised one by one."""

    def _is_local(self):
        return getattr(self.fitted.mechanism, "query", None) is None

    def observed(self):
        found = super().observed()
        return found if found is None or not self._is_local() else (found[0], ("record", "entry"))

    def log_likelihood(self, chosen):
        if self._S() is not None and self._is_local():
            why = "confidential records are imputed and not kept, and given θ alone a release has no closed form"
            self._refuse("log_likelihood", why)
        return super().log_likelihood(chosen)

    def predictive(self, chosen, rng):
        if self._S() is None or not self._is_local():
            return super().predictive(chosen, rng)
        mechanism = self.fitted.mechanism
        records = [np.reshape(x, (len(x), -1)) for x in self._new_records(chosen, rng)]
        return np.array([mechanism.privatize(x, random_state=rng) for x in records])

    def _new_records(self, chosen, rng):
        model = UserModel(self.fitted.model)
        for theta, n in zip(self._flat("theta")[chosen], self._numbers(chosen), strict=True):
            yield model.first_records(rng, theta, n)

    def _new_statistics(self, chosen, rng):
        query = self.fitted.mechanism.query
        return np.array([np.sum(query.contributions(x), axis=0) for x in self._new_records(chosen, rng)])
