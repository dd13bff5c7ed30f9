"""What estimators that run chains share: seeds, warm start, interruption, convergence, summaries."""

import sys
import warnings
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import hash as joblib_hash
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._chains import run_chains, start_chains
from .._draws import convergence, join, summarise, to_datatree
from .._random import as_seed_sequence
from ._progress import CallbackSupportMixin, Progress

R_HAT_LIMIT, ESS_LIMIT = 1.05, 100


class Run(NamedTuple):
    """What a warm start needs of the last fit."""

    signature: dict[str, Any]
    chains: list
    n_done: int  # sweeps of each chain


class MonitoredDraws:
    """What estimators with Markov chains share once there are draws: convergence, summaries, one fit at a time."""

    def _take_fit(self):
        names = [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]
        return {name: self.__dict__.pop(name) for name in names}

    def _monitor(self, monitors):
        """Set ``r_hat_`` and ``ess_`` of the monitored quantities, and keep them for the summaries."""
        self._monitors_ = monitors
        self.r_hat_, self.ess_ = convergence(monitors)

    def _not_mixed(self):
        """What says that the chains have not mixed, with the numbers; None where nothing does."""
        r_hat = {name: value for name, value in self.r_hat_.items() if not np.isnan(value)}
        if not r_hat:
            return None
        worst, fewest = max(r_hat, key=r_hat.get), min(r_hat, key=self.ess_.get)
        if r_hat[worst] <= R_HAT_LIMIT and self.ess_[fewest] >= ESS_LIMIT:
            return None
        return (
            f"the chains have not mixed: worst R-hat {r_hat[worst]:.3f} ({worst}, should be below {R_HAT_LIMIT}), "
            f"smallest effective sample size {self.ess_[fewest]:.0f} ({fewest}, should be above {ESS_LIMIT})"
        )

    def summary(self):
        """Mean, sd, 95 % interval, R-hat and effective sample size of the monitored quantities.

        Returns
        -------
        table : pandas.DataFrame
            A row for each quantity of ``r_hat_``, columns "mean", "sd", "2.5%", "97.5%", "r_hat", "ess".  Without
            pandas: a dict of rows that prints as the same table.
        """
        check_is_fitted(self)
        return summarise(self._monitors_, self.r_hat_, self.ess_)

    def to_datatree(self):
        """The draws of the monitored quantities for ArviZ.

        Returns
        -------
        tree : xarray.DataTree
            With the group "posterior", dimensions (chain, draw).

        Raises
        ------
        ImportError
            Without the optional extra ``[arviz]``.
        """
        check_is_fitted(self)
        return to_datatree(self._monitors_)


class ChainEstimator(CallbackSupportMixin, MonitoredDraws, BaseEstimator):
    """Base class of estimators that run Markov chains."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "n_warmup": [Interval(Integral, 0, None, closed="left")],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }
    #: parameters that may change between calls with ``warm_start=True``
    _FREE = frozenset({"n_draws", "n_jobs", "verbose", "warm_start"})

    @contextmanager
    def _refit(self):
        """Take the attributes of an earlier fit off and yield them; put them back where the new fit fails."""
        earlier = self._take_fit()
        try:
            yield earlier
        except BaseException:
            self._take_fit()
            vars(self).update(earlier)
            raise

    def _check_input(self, X, name, *, reset=False):
        """Return records as a read-only (n, n_features) array of floats; the caller's own array stays as it is."""
        array = check_array(X, dtype=np.float64, order="C", input_name=name, estimator=self)
        validate_data(self, X, reset=reset, skip_check_array=True)
        array = array.view()
        array.flags.writeable = False
        return array

    def _run(self, data, init, step, earlier=None, earlier_draws=None):
        """Run the chains, or go on with those of the ``earlier`` fit; set ``n_iter_``.

        Parameters
        ----------
        data : what must not have changed for a warm start
        init, step : as in ``start_chains``, ``run_chains``
        earlier : Run, optional
        earlier_draws : list of draws, one a chain, optional

        Returns
        -------
        run : Run
        draws : list of draws, one a chain
        """
        signature = self._signature(data)
        total = self.n_warmup + self.n_draws * self.thin
        if self.warm_start and earlier is not None:
            self._check_same(signature, total, earlier)
            chains, done, blocks = earlier.chains, earlier.n_done, [[draws] for draws in earlier_draws]
        else:
            chains = start_chains(as_seed_sequence(self.random_state), self.n_chains, init)
            done, blocks = 0, [[] for _ in chains]
        with Progress(self, done, total) as progress:
            chains, new_blocks, n_new = run_chains(chains, step, total - done, n_jobs=self.n_jobs, progress=progress)
        self.n_iter_ = done + n_new
        if self.n_iter_ < self.n_warmup + self.thin:
            raise KeyboardInterrupt("interrupted during the warm-up: there are no draws to keep")
        draws = [join(before + after) for before, after in zip(blocks, new_blocks, strict=True)]
        return Run(signature, chains, self.n_iter_), draws

    def _advance_chains(self, data, init, advance, earlier):
        """Run the chains; keep them and their draws in ``_run_`` and ``_draws_``.

        ``advance(state, rng, n_sweeps, n_warmup, thin)`` returns (state, draws); ``earlier`` is what :meth:`_refit`
        yields.
        """
        step = partial(advance, n_warmup=self.n_warmup, thin=self.thin)
        self._run_, self._draws_ = self._run(data, init, step, earlier.get("_run_"), earlier.get("_draws_"))

    def _all_draws(self, name):
        """The field ``name`` of all chains' draws, (n_chains, n_draws, ...)."""
        return np.array([getattr(draws, name) for draws in self._draws_])

    def _state_floats(self):
        """(n_chains, ...)"""
        return np.array([chain.state.floats for chain in self._run_.chains])

    def _set_acceptance(self, accepted, proposed, log_lowest):
        """Set the acceptance rate, nan where nothing was proposed, from counts, and the smallest probability met."""
        floats = self._state_floats()
        n_proposed = floats[:, proposed].sum()
        self.acceptance_rate_ = float(floats[:, accepted].sum() / n_proposed) if n_proposed else np.nan
        self.min_acceptance_ = float(np.exp(floats[:, log_lowest].min()))

    def _signature(self, data):
        """What must stay the same for a warm start, by name."""
        params = {name: value for name, value in self.get_params().items() if name not in self._FREE}
        return {"the data": fingerprint(data), **{name: fingerprint(value) for name, value in params.items()}}

    def _check_same(self, signature, total, earlier):
        names = sorted(signature.keys() | earlier.signature.keys())
        changed = [name for name in names if signature.get(name) != earlier.signature.get(name)]
        changed = [name for name in changed if name.rpartition("__")[0] not in changed]
        if changed:
            raise ValueError(
                f"warm_start=True goes on with the chains of the last fit, but {', '.join(changed)} changed: "
                "set it back, or fit with warm_start=False"
            )
        if total < earlier.n_done:
            raise ValueError(
                f"warm_start=True cannot take draws back: n_draws={self.n_draws}, but the last fit already has "
                f"{(earlier.n_done - self.n_warmup) // self.thin}; fit with warm_start=False"
            )

    def _warn_about_chains(self):
        """Warn where the chains were interrupted, and once where they have not mixed."""
        if self.n_iter_ < self.n_warmup + self.n_draws * self.thin:
            n_kept = (self.n_iter_ - self.n_warmup) // self.thin
            warn_user(
                f"interrupted: kept {n_kept} of n_draws={self.n_draws} draws of each chain; warm_start=True goes on",
                RuntimeWarning,
            )
        complaint = self._not_mixed()
        if complaint:
            warn_user(
                f"{complaint}; increase n_draws (now {self.n_draws}; warm_start=True goes on) and n_warmup (now "
                f"{self.n_warmup})",
                RuntimeWarning,
            )


def fingerprint(value):
    """What tells one value of a parameter from another.

    Of a component only the class: its parameters come under names of their own.  Of a generator, which moves on with
    every fit, the class too.
    """
    if hasattr(value, "get_params") or isinstance(value, (np.random.Generator, np.random.RandomState)):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        return joblib_hash(value)
    except Exception:  # it cannot be pickled: the same object is the same
        return id(value)


def warn_user(message, category):
    """Warn at the line, outside this package and scikit-learn, that called us."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:  # code that was run by exec() may have no __name__
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("sklearn_dpmix", "sklearn"):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
