"""What estimators share once there are draws: convergence, summaries, and what a fit that fails leaves behind."""

from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from .._base.typing import Floats, Seed
from .._chains.datatree import Contents, build_tree
from .._chains.draws import central_interval, convergence, summarise
from .._chains.mixed import ESS_LIMIT, have_mixed, in_words, worst_monitors

#: What is left of a fit that spent a budget and then failed, and words about it.
UNUSED = "unused_release", "_of_unused"


class MonitoredDraws:
    """What estimators with Markov chains share once there are draws: convergence, summaries, one fit at a time."""

    #: what is in the tree of :meth:`to_datatree`
    _contents: ClassVar[type[Contents]] = Contents
    #: parameters that methods of a fit need as they were in it, whatever ``set_params`` says since
    _KEPT: ClassVar[tuple[str, ...]] = ()

    @property
    def _public_name(self):
        """The name of the class that users call, for errors and progress; a class behind it has the name of that."""
        return type(self).__name__

    def _take_fit(self):
        names = [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]
        return {name: self.__dict__.pop(name) for name in names}

    @contextmanager
    def _refit(self):
        """Remove the attributes of an earlier fit and yield them; put them back if the new fit fails.

        What the new fit spent a budget on then stays beside them, as ``unused_release``.
        """
        earlier = self._take_fit()
        try:
            yield earlier
        except BaseException as error:
            self._take_fit()
            vars(self).update(earlier)
            if hasattr(self, "unused_release") and self._of_unused not in getattr(error, "__notes__", ()):
                error.add_note(self._of_unused)
            raise
        for name in UNUSED:
            vars(self).pop(name, None)
        self._parts_ = {name: copied(getattr(self, name)) for name in self._KEPT}

    def _keep_unused(self, release, words):
        """Keep what a budget was spent on until the fit has draws; ``words`` say what it is good for without them."""
        self.unused_release, self._of_unused = release, words

    def _monitor(self, monitors):
        """Set ``r_hat_`` and ``ess_`` of the monitored quantities, and keep them for the summaries."""
        self._monitors_ = monitors
        self.r_hat_, self.ess_ = convergence(monitors)

    def _not_mixed(self):
        """A sentence, with the numbers, saying that the chains have not mixed; None if they have."""
        found, limit = (self.r_hat_, self.ess_), self._least_ess()
        if have_mixed(*found, limit):
            return None
        return f"the chains have not mixed: {in_words(*found, *worst_monitors(*found), limit)}"

    def _least_ess(self):
        return ESS_LIMIT

    def summary(self) -> Any:
        """Mean, sd, 95 % interval, R-hat and effective sample size of the monitored quantities.

        Draws count by their weights, if they have any.

        Returns
        -------
        table : pandas.DataFrame
            A row for each quantity, with columns "mean", "sd", "2.5%", "97.5%", "r_hat" and "ess"; the last two are NaN
            if the draws are not from chains.  Without pandas it is a dict of rows that prints as the same table.
        """
        check_is_fitted(self)
        r_hat, ess = getattr(self, "r_hat_", {}), getattr(self, "ess_", {})
        return summarise(self._monitors_, r_hat, ess, getattr(self, "weights_", None))

    def to_datatree(
        self,
        *,
        log_likelihood: bool = False,
        posterior_predictive: bool = False,
        thin: int = 1,
        random_state: Seed = None,
    ) -> Any:
        """The draws, the release, and what follows from both, for ArviZ.

        Parameters
        ----------
        log_likelihood : bool, default=False
            Add the log likelihood of each released record (or of each of several releases) under each draw, which
            ``arviz_stats.loo`` and ``compare`` take.  It takes 8 bytes per record and draw; see Notes.
        posterior_predictive : bool, default=False
            Add replicates: new confidential records from each draw, as many as there are, and a release of them by the
            mechanism.  They are on the scale of the release, noise included, and take 8 bytes per released number and
            draw.
        thin : int, default=1
            Keep every ``thin``-th draw of each chain, in all groups.
        random_state : int, Generator, RandomState or None
            For the replicates, whose noise is simulated and protects nothing.

        Returns
        -------
        tree : xarray.DataTree
            Groups: "posterior" with dimensions (chain, draw), which has the monitored quantities and all ``*_draws_``
            except those whose shape depends on the data; "sample_stats", if there was an accept step or draws have
            weights; "observed_data" with what was released, as ``release``; "log_likelihood" and "posterior_predictive"
            on request, also as ``release``.  Dimensions have labels: features, parameters, classes, entries of a
            release.

        Raises
        ------
        ImportError
            Without the optional extra ``[arviz]``.
        ValueError
            For a bad parameter; for ``log_likelihood`` or ``posterior_predictive`` if there is none, with the reason.

        Notes
        -----
        *Records released one by one* (:class:`PrivateDPMixture`): the term of record i is log g(z_i | P), where P is
        the mixture of the draw, clusters without records included, and the confidential record is integrated out in
        closed form.  Releases are independent given P, so LOO estimates the density of a new release.  If g has no
        closed form, a ValueError is raised.

        *Several noisy releases of one statistic* (:class:`PrivateExpFamilyGibbs`, :class:`PrivateABC`): the term of
        release r is log p(release r | statistic), given the confidential *statistic* of the draw.  Releases are
        independent given that, and not given θ.  LOO then leaves out a release, not a record: it says how well the
        other releases and the prior predict it, and can hardly tell models of the records apart.  A single release is
        one point, so nothing can be left out and a ValueError is raised; so it is if draws of the statistic are not
        kept.
        """
        check_is_fitted(self)
        return build_tree(
            self,
            self._contents(self),
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            thin=thin,
            random_state=random_state,
        )


class CoefficientsMixin:
    """What follows from ``coef_draws_``, (n_chains, n_draws, n_features), alone."""

    coef_draws_: Any

    def coef_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Equal-tailed posterior interval of each coefficient.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        lower, upper : ndarrays of shape (n_features,)

        Raises
        ------
        AttributeError
            If a :class:`PrivateDPMixtureRegressor` was fitted without ``linear=True``.
        """
        check_is_fitted(self)
        if not hasattr(self, "coef_draws_"):
            raise AttributeError("coefficients exist only for one linear relation: fit with linear=True")
        return central_interval(self.coef_draws_, level)


def copied(value):
    """A copy of a component whose parameters ``set_params`` may change; anything else is returned as it is."""
    try:
        return deepcopy(value) if hasattr(value, "get_params") else value
    except TypeError:  # it has a generator, say
        return value


def despite_interruption(finish):
    """Call ``finish()``, once more if Ctrl-C came; return whether it did.

    The draws are there, so what makes them a fit starts again; a second Ctrl-C gives up.
    """
    try:
        finish()
    except KeyboardInterrupt:
        finish()
        return True
    return False
