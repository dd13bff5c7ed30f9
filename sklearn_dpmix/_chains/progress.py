"""Progress of a fit: scikit-learn's callbacks where there are some (1.9 and later), tqdm with ``verbose``."""

import sys

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """No callbacks: use ``verbose=1``."""

    def with_callbacks(method):
        return method


__all__ = ["CallbackSupportMixin", "Progress", "with_callbacks"]

N_TICKS = 100


class Progress:
    """Context manager around a fit; called with the number of sweeps (or draws) done, and what else to show.

    ``total=None``: nobody knows yet when it ends.
    """

    def __init__(self, estimator, done, total, unit="sweep"):
        self.estimator = getattr(estimator, "_part_of", estimator)  # the one that users see
        self.done, self.total, self.unit = done, total, unit
        self.ticks, self.bar, self.context = 0, None, None

    def __enter__(self):
        if hasattr(self.estimator, "_skl_callbacks") or hasattr(self.estimator, "_parent_callback_ctx"):
            self.n_ticks = None if self.total is None else max(min(N_TICKS, self.total - self.done), 1)
            self.context = self.estimator._init_callback_context(max_subtasks=self.n_ticks)
            self.context.call_on_fit_task_begin(estimator=self.estimator)
        if self.estimator.verbose:
            from tqdm import tqdm

            name = getattr(self.estimator, "_public_name", type(self.estimator).__name__)
            self.bar = tqdm(total=self.total, initial=self.done, unit=self.unit, desc=name, file=sys.stderr)
        return self

    def goes_on_to(self, total):
        """Raise the total; one that was never known stays unknown."""
        if self.total is not None:
            self.total = total
            if self.bar is not None:
                self.bar.total = total

    def __call__(self, n_done, words=None):
        if self.bar is not None:
            self.bar.update(self.done + n_done - self.bar.n)
            if words is not None:
                self.bar.set_postfix_str(words)
        if self.context is not None:
            if self.total is None:
                reached = self.ticks + 1
            else:
                reached = n_done * self.n_ticks // max(self.total - self.done, 1)
            while self.ticks < reached:
                self.ticks += 1
                step = self.context.subcontext(task_name=f"{self.unit}s")
                step = step.call_on_fit_task_begin(estimator=self.estimator)
                step.call_on_fit_task_end(estimator=self.estimator)

    def __exit__(self, *exception):
        if self.bar is not None:
            self.bar.close()
        if self.context is not None and exception[0] is None:
            self.context.call_on_fit_task_end(estimator=self.estimator)
