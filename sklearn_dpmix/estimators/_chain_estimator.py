"""What estimators that run chains share: seeds, warm start, progress, summaries."""

import sys
import warnings
from numbers import Integral

import numpy as np
from joblib import hash as joblib_hash
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """No callbacks before scikit-learn 1.9: use ``verbose=1``."""

    def with_callbacks(method):
        return method


from .._chains import run_chains, start_chains
from .._draws import convergence
from .._random import as_seed_sequence

N_TICKS = 100
R_HAT_LIMIT, ESS_LIMIT = 1.05, 100


class ChainEstimator(CallbackSupportMixin, BaseEstimator):
    """Base class of estimators that run Markov chains."""

    _parameter_constraints = {
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
    _FREE = frozenset({"n_draws", "n_jobs", "verbose", "warm_start", "random_state"})

    def _run(self, data, init, step):
        """Run (or, warm, go on with) the chains; return (chains, blocks of draws by chain, sweeps done by each)."""
        signature = self._signature(data)
        total = self.n_warmup + self.n_draws * self.thin
        chains, done, earlier = None, 0, None
        if self.warm_start and hasattr(self, "_chains"):
            self._check_same(signature, total)
            chains, done, earlier = self._chains, self._n_done, self._blocks
        if chains is None:
            chains = start_chains(as_seed_sequence(self.random_state), self.n_chains, init)
        with Progress(self, done, total) as progress:
            chains, blocks, n_new = run_chains(chains, step, total - done, n_jobs=self.n_jobs, progress=progress)
        if earlier is not None:
            blocks = [before + after for before, after in zip(earlier, blocks, strict=True)]
        if done + n_new < self.n_warmup + self.thin:
            raise KeyboardInterrupt("interrupted during the warm-up: there are no draws to keep")
        return signature, chains, blocks, done + n_new

    def _signature(self, data):
        """What must stay the same for a warm start."""
        params = {name: joblib_hash(value) for name, value in self.get_params().items() if name not in self._FREE}
        return {**params, "the data": joblib_hash(data)}

    def _check_same(self, signature, total):
        changed = [name for name in signature if signature[name] != self._signature_.get(name)]
        changed += [name for name in self._signature_ if name not in signature]
        if changed:
            raise ValueError(
                f"warm_start=True goes on with the chains of the last fit, but {', '.join(sorted(set(changed)))} changed: "
                "set it back, or fit with warm_start=False"
            )
        if total < self._n_done:
            raise ValueError(
                f"warm_start=True cannot take draws back: n_draws={self.n_draws}, but the last fit already has "
                f"{(self._n_done - self.n_warmup) // self.thin}; fit with warm_start=False"
            )

    def _summarise(self, monitors):
        """Set ``r_hat_`` and ``ess_``; warn once where the chains have not mixed."""
        self.r_hat_, self.ess_ = convergence(monitors)
        r_hat = {name: value for name, value in self.r_hat_.items() if np.isfinite(value)}
        ess = {name: value for name, value in self.ess_.items() if np.isfinite(value)}
        if not r_hat:
            return
        worst, fewest = max(r_hat, key=r_hat.get), min(ess, key=ess.get)
        if r_hat[worst] > R_HAT_LIMIT or ess[fewest] < ESS_LIMIT:
            warnings.warn(
                f"the chains have not mixed: worst R-hat {r_hat[worst]:.3f} ({worst}, should be below {R_HAT_LIMIT}), smallest "
                f"effective sample size {ess[fewest]:.0f} ({fewest}, should be above {ESS_LIMIT}); increase n_draws "
                f"(now {self.n_draws}; warm_start=True goes on) and n_warmup (now {self.n_warmup})",
                RuntimeWarning,
                stacklevel=3,
            )


class Progress:
    """Progress of a fit: scikit-learn's callbacks where there are some, tqdm with ``verbose``."""

    def __init__(self, estimator, done, total):
        self.estimator, self.done, self.total = estimator, done, total
        self.ticks, self.bar, self.context = 0, None, None

    def __enter__(self):
        if hasattr(self.estimator, "_skl_callbacks") or hasattr(self.estimator, "_parent_callback_ctx"):
            self.n_ticks = max(min(N_TICKS, self.total - self.done), 1)
            self.context = self.estimator._init_callback_context(max_subtasks=self.n_ticks)
            self.context.call_on_fit_task_begin(estimator=self.estimator)
        if self.estimator.verbose:
            from tqdm import tqdm

            self.bar = tqdm(
                total=self.total, initial=self.done, unit="sweep", desc=type(self.estimator).__name__, file=sys.stderr
            )
        return self

    def __call__(self, n_done):
        if self.bar is not None:
            self.bar.update(self.done + n_done - self.bar.n)
        if self.context is not None:
            reached = n_done * self.n_ticks // max(self.total - self.done, 1)
            for _ in range(self.ticks, reached):
                step = self.context.subcontext(task_name="sweeps").call_on_fit_task_begin(estimator=self.estimator)
                step.call_on_fit_task_end(estimator=self.estimator)
            self.ticks = reached

    def __exit__(self, *exception):
        if self.bar is not None:
            self.bar.close()
        if self.context is not None and exception[0] is None:
            self.context.call_on_fit_task_end(estimator=self.estimator)
