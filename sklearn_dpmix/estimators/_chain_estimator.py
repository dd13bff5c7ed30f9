"""What estimators that run chains share: seeds, warm start, checkpoints, interruption, warnings."""

import os
import sys
import warnings
from copy import copy
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import hash as joblib_hash
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from .._base.acceptance import ACCEPTED, LOG_MIN_ACCEPT, PROPOSED
from .._base.generators import as_seed_sequence
from .._base.parameters import MOST, check_table
from .._base.restore import check_layout_of_draws
from .._chains.auto_draws import AutoDraws, draws_rule
from .._chains.chain import start_chains
from .._chains.checkpoint import SoFar, differences, open_checkpoint, package_version
from .._chains.long_run import LongRun
from .._chains.pace import Pace
from .._chains.progress import CallbackSupportMixin
from ._monitored_draws import MonitoredDraws, despite_interruption

#: What ``n_jobs`` may be.  0 jobs would fail when chains start, which is too late if a budget was spent before.
N_JOBS = [Interval(Integral, 1, MOST, closed="both"), Interval(Integral, -MOST, -1, closed="both"), None]

#: What a signature calls the version of the code that chains are for.
VERSION = "the version of sklearn_dpmix"


class Run(NamedTuple):
    """What a warm start needs from the last fit."""

    signature: dict[str, Any]
    chains: list
    n_done: int  # sweeps of each chain; this and the next two as in SoFar
    pace: Pace
    aim: int | None = None


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

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn: ``mixing__concentration`` is that of the object passed as ``mixing``."""
        for name in params:
            part, _, of_part = name.partition("__")
            value = params.get(part, getattr(self, part, self))
            if of_part and part in self._get_param_names() and not hasattr(value, "set_params"):
                raise ValueError(
                    f"{name} cannot be set, as {part}={value!r} has no parameters: pass an object as {part} first"
                )
        return super().set_params(**params)

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

            run = LongRun(self, problem, rule, judge, checkpoint)
            reader = partial(self._reader, problem)
            so_far, was_interrupted = run.run(self._start(signature, problem.start, rule, earlier, checkpoint, reader))
        self._take_run(signature, so_far)
        n_drawn = so_far.n_drawn()
        self._interrupted_at_ = n_drawn if was_interrupted else None
        self._finish(partial(keep, self))
        was_interrupted = self._interrupted_at_ is not None
        self._shortfall_ = None if was_interrupted else rule.complaint(so_far.aim, n_drawn, self.r_hat_, self.ess_)

    def _finish(self, finish):
        """Do what comes after the chains, and remember whether Ctrl-C came in between."""
        if despite_interruption(finish):
            self._interrupted_at_, self._shortfall_ = self._run_.pace.n_drawn(self.n_iter_), None

    def _reader(self, problem):
        """A function that compares a checkpoint's run with a fresh state and refuses draws that no sweep makes."""
        rng = np.random.default_rng(0)  # whatever it starts from
        fresh = problem.start(rng)
        pace = Pace(self.n_warmup, self.thin)
        _, no_draws = problem.step(pace)(type(fresh)(*(np.array(part) for part in fresh)), rng, 0)

        def read(run):
            run.pace.check(pace, problem.most_times)
            n_draws = run.n_drawn()
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
                found = SoFar(last.chains, self._chains_of(earlier["_draws_"]), last.n_done, last.pace, last.aim)
                source = "warm_start=True"
        if found is None:
            chains = start_chains(as_seed_sequence(self.random_state), self.n_chains, init)
            return SoFar(chains, [], 0, Pace(self.n_warmup, self.thin))
        n_drawn = found.n_drawn()
        if n_drawn > rule.most:
            raise ValueError(
                f"{source} cannot discard draws: n_draws={self.n_draws}, but there are {n_drawn} already; for fewer, "
                "fit with warm_start=False and no checkpoint, or a new one"
            )
        return found

    def _least_ess(self):
        return draws_rule(self.n_draws).least_ess

    def _take_run(self, signature, so_far):
        """Make these chains and draws this estimator's own."""
        self._run_ = Run(signature, so_far.chains, so_far.n_done, so_far.pace, so_far.aim)
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
                f"{complaint}; increase n_draws (now {self.n_draws}; warm_start=True continues), or fit anew with a "
                f"larger n_warmup (now {self.n_warmup})",
                RuntimeWarning,
            )


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
