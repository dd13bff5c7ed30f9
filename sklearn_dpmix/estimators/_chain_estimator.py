"""What estimators that run chains share: seeds, warm start, interruption, convergence, summaries."""

import os
import sys
import warnings
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import hash as joblib_hash
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._base.acceptance import ACCEPTED, LOG_MIN_ACCEPT, PROPOSED
from .._base.generators import as_seed_sequence
from .._base.parameters import MOST, check_table
from .._base.restore import check_layout_of_draws
from .._base.typing import Floats, Seed
from .._chains.auto_draws import AutoDraws, draws_rule
from .._chains.chain import start_chains
from .._chains.checkpoint import SoFar, differences, open_checkpoint, package_version
from .._chains.datatree import Contents, build_tree
from .._chains.draws import central_interval, convergence, summarise
from .._chains.long_run import LongRun
from .._chains.mixed import ESS_LIMIT, have_mixed, least, numbers
from .._chains.progress import CallbackSupportMixin

#: What ``n_jobs`` may be.  0 jobs would fail when chains start, which is too late if a budget was spent before.
N_JOBS = [Interval(Integral, 1, MOST, closed="both"), Interval(Integral, -MOST, -1, closed="both"), None]

#: What a signature calls the version of the code that chains are for.
VERSION = "the version of sklearn_dpmix"

#: What is left of a fit that spent a budget and then failed, and words about it.
UNUSED = "unused_release", "_of_unused"


class Run(NamedTuple):
    """What a warm start needs from the last fit."""

    signature: dict[str, Any]
    chains: list
    n_done: int  # sweeps of each chain
    aim: int | None = None  # as in SoFar


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
        return f"the chains have not mixed: {numbers(*found, *least(*found), limit)}"

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


class ChainEstimator(CallbackSupportMixin, MonitoredDraws, BaseEstimator):
    """Base class of estimators that run Markov chains."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "n_warmup": [Interval(Integral, 0, None, closed="left")],
        "n_draws": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), AutoDraws],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": N_JOBS,
        "random_state": ["random_state", np.random.Generator],
        "warm_start": ["boolean"],
        "checkpoint": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }
    #: parameters that may change between calls with ``warm_start=True``
    _FREE = frozenset({"n_draws", "n_jobs", "verbose", "warm_start", "checkpoint"})

    def _check_input(self, X, name, *, reset=False):
        """Return records as a read-only (n, n_features) array of floats; the caller's own array stays as it is."""
        array = check_table(self, X, name, reset=reset, order="C").view()
        array.flags.writeable = False
        return array

    def _advance_chains(self, problem, keep, earlier):
        """Run the chains, or continue those of the ``earlier`` fit or of the checkpoint.

        Sets ``n_iter_``, ``_run_`` and the draws, and what ``keep`` sets.

        Parameters
        ----------
        problem : Problem
        keep : callable (fit)
            Sets a fit's public draws, ``r_hat_`` and ``ess_`` from its ``_run_`` and ``_draws_``; also called on copies
            of the estimator, with the draws so far.
        earlier : dict
            What :meth:`_refit` yields.
        """
        signature, rule = self._signature(problem.data), draws_rule(self.n_draws)
        with open_checkpoint(self.checkpoint, self._public_name, signature) as checkpoint:

            def judge(so_far):
                fit = copy(self)
                fit._take_run(signature, so_far)
                keep(fit)
                return fit.r_hat_, fit.ess_

            step = partial(problem.advance, n_warmup=self.n_warmup, thin=self.thin)
            run = LongRun(self, step, rule, judge, checkpoint, problem.most_times)
            reader = partial(self._reader, problem, step)
            so_far, was_interrupted = run.run(self._start(signature, problem.start, rule, earlier, checkpoint, reader))
        self._take_run(signature, so_far)
        n_drawn = self._n_drawn(so_far.n_done)
        self._interrupted_at_ = n_drawn if was_interrupted else None
        self._finish(partial(keep, self))
        was_interrupted = self._interrupted_at_ is not None
        self._shortfall_ = None if was_interrupted else rule.complaint(so_far.aim, n_drawn, self.r_hat_, self.ess_)

    def _finish(self, finish):
        """Do what comes after the chains, and remember whether Ctrl-C came in between."""
        if despite_interruption(finish):
            self._interrupted_at_, self._shortfall_ = self._n_drawn(self.n_iter_), None

    def _reader(self, problem, step):
        """A function that checks a run of the checkpoint against a fresh state, and for draws that no sweep makes."""
        rng = np.random.default_rng(0)  # whatever it starts from
        fresh = problem.start(rng)
        _, no_draws = step(type(fresh)(*(np.array(part) for part in fresh)), rng, 0)

        def read(run):
            n_draws = self._n_drawn(run.n_done)
            if len(run.chains) != self.n_chains or len(run.draws) != (self.n_chains if run.n_done else 0):
                raise ValueError(f"it has {len(run.chains)} chains, but draws of {len(run.draws)}")
            for draws in run.draws:
                check_layout_of_draws(no_draws, draws, n_draws)
                if problem.check_draws is not None:
                    problem.check_draws(draws)
            chains = [chain._replace(state=problem.restored(chain.state, fresh, run.n_done)) for chain in run.chains]
            return run._replace(chains=chains)

        return read

    def _start(self, signature, init, rule, earlier, checkpoint, reader):
        """The run to continue: that of the last fit or of the checkpoint (whichever is longer), or a new one."""
        found, source = checkpoint.load(reader), f"checkpoint={self.checkpoint!r}"
        if self.warm_start and "_run_" in earlier:
            last = earlier["_run_"]
            changed = differences(signature, last.signature)
            if changed:
                raise ValueError(
                    f"warm_start=True continues the chains of the last fit, but {', '.join(changed)} changed: undo "
                    "that, or fit with warm_start=False"
                )
            if found is None or found.n_done <= last.n_done:
                found = SoFar(last.chains, self._chains_of(earlier["_draws_"]), last.n_done, last.aim)
                source = "warm_start=True"
        if found is None:
            return SoFar(start_chains(as_seed_sequence(self.random_state), self.n_chains, init), [], 0)
        n_drawn = self._n_drawn(found.n_done)
        if n_drawn > rule.most:
            raise ValueError(
                f"{source} cannot discard draws: n_draws={self.n_draws}, but there are {n_drawn} already; for fewer, "
                "fit with warm_start=False and no checkpoint, or a new one"
            )
        return found

    def _least_ess(self):
        return draws_rule(self.n_draws).least_ess

    def _n_drawn(self, n_done):
        return max(n_done - self.n_warmup, 0) // self.thin

    def _take_run(self, signature, so_far):
        """Make these chains and draws this estimator's own."""
        self._run_ = Run(signature, so_far.chains, so_far.n_done, so_far.aim)
        self.n_iter_, self._draws_ = so_far.n_done, so_far.draws

    def _chains_of(self, draws):
        """The draws as they were given to :meth:`_take_run`."""
        return draws

    def _all_draws(self, name):
        """The field ``name`` of all chains' draws, (n_chains, n_draws, ...)."""
        return np.array([getattr(draws, name) for draws in self._draws_])

    def _state_floats(self):
        """(n_chains, ...)"""
        return np.array([chain.state.floats for chain in self._run_.chains])

    def _acceptance_rate(self):
        """The share of proposals that were accepted, nan if nothing was proposed."""
        floats = self._state_floats()
        n_proposed = floats[:, PROPOSED].sum()
        return float(floats[:, ACCEPTED].sum() / n_proposed) if n_proposed else np.nan

    def _set_acceptance(self):
        """Set the acceptance rate and the smallest probability that occurred."""
        self.acceptance_rate_ = self._acceptance_rate()
        self.min_acceptance_ = float(np.exp(self._state_floats()[:, LOG_MIN_ACCEPT].min()))

    def _signature(self, data):
        """What must stay the same for a warm start, by name; of a pickled fit also the code that its chains are for."""
        params = {name: value for name, value in self.get_params().items() if name.partition("__")[0] not in self._FREE}
        same = {"the data": fingerprint(data), VERSION: package_version()}
        return same | {name: fingerprint(value) for name, value in params.items()}

    def _warn_about_chains(self):
        """Warn if the chains were interrupted, and once if they have not mixed."""
        if self._interrupted_at_ is not None:
            warn_user(
                f"interrupted: kept {self._interrupted_at_} of n_draws={self.n_draws} draws of each chain; "
                "warm_start=True continues",
                RuntimeWarning,
            )
        complaint = self._not_mixed()
        if self._shortfall_ is not None:
            warn_user(self._shortfall_, RuntimeWarning)
        elif complaint:
            warn_user(
                f"{complaint}; increase n_draws (now {self.n_draws}; warm_start=True continues) and n_warmup (now "
                f"{self.n_warmup})",
                RuntimeWarning,
            )


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


def fingerprint(value):
    """A value that differs for different values of a parameter.

    For a component it is only the class, since its parameters have their own names.  It is also the class for a
    generator, whose state changes with every fit.  For an array it depends on the contents, not on the memory layout.
    """
    if hasattr(value, "get_params") or isinstance(value, (np.random.Generator, np.random.RandomState)):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        return joblib_hash(_in_order(value), coerce_mmap=True)
    except Exception:  # it cannot be pickled: only the same object counts as the same
        return id(value)


def _in_order(value):
    """The value with arrays as their shapes and their entries in C order, and NumPy's numbers as Python's."""
    if isinstance(value, tuple):
        return tuple(map(_in_order, value))
    if isinstance(value, np.ndarray):
        return value.shape, value.ravel()
    return value.item() if isinstance(value, np.generic) else value


def warn_user(message, category):
    """Warn at the line, outside this package and scikit-learn, that called us."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:  # code that was run by exec() may have no __name__
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("sklearn_dpmix", "sklearn"):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
