"""Chains on their way: what happens between blocks of sweeps until there are enough draws."""

import time
from functools import partial

import numpy as np

from .._chains import run_chains
from .._checkpoint import SoFar
from .._draws import join
from ._mixed import least
from ._progress import Progress

SECONDS = 2.0  # between two estimates of R-hat for the progress bar
SHARE = 20  # ... and at least so many times as long as the last one took


class LongRun:
    """Advance chains until the rule has enough; show progress, save checkpoints, keep what Ctrl-C leaves.

    Parameters
    ----------
    estimator : ChainEstimator
    step : as in ``run_chains``
    rule : AutoDraws or FixedDraws
    judge : callable (SoFar) -> (r_hat, ess)
    checkpoint : Checkpoint or NoCheckpoint
    """

    def __init__(self, estimator, step, rule, judge, checkpoint):
        self.estimator, self.step, self.rule, self.judge, self.checkpoint = estimator, step, rule, judge, checkpoint
        self.started, self.deadline = time.monotonic(), rule.deadline()
        self.look_at = self.started + SECONDS

    def run(self, start):
        """Return (the run at its end, whether Ctrl-C ended it)."""
        estimator, rule = self.estimator, self.rule
        so_far = start._replace(aim=rule.first(estimator._n_drawn(start.n_done), start.aim))
        self.n_first = start.n_done
        self.checkpoint.save(so_far)
        total = self._sweeps(so_far) if so_far.aim in (None, rule.most) else None
        with Progress(estimator, start.n_done, total) as self.progress:
            so_far, was_interrupted = self._until_enough(so_far)
        try:
            self.checkpoint.save(so_far)
        except KeyboardInterrupt:  # the file is as the last save left it
            was_interrupted = True
        if estimator._n_drawn(so_far.n_done) == 0:
            if was_interrupted:
                raise KeyboardInterrupt("interrupted during the warm-up: there are no draws to keep")
            raise TimeoutError(f"n_draws={estimator.n_draws!r}: the time ran out during the warm-up; raise max_seconds")
        return so_far, was_interrupted

    def _sweeps(self, so_far):
        """Sweeps of each chain when the run looks next, or ends."""
        n_draws = self.rule.most if so_far.aim is None else so_far.aim
        return self.estimator.n_warmup + n_draws * self.estimator.thin

    def _until_enough(self, so_far):
        """Return (the run with as many draws as the rule wants, or fewer, whether by Ctrl-C)."""
        while True:
            target = self._sweeps(so_far)
            so_far, was_interrupted = self._advance(so_far, target - so_far.n_done)
            if so_far.n_done < target:
                return so_far, was_interrupted
            try:
                following = self.rule.next(self.estimator._n_drawn(so_far.n_done), partial(self.judge, so_far))
            except KeyboardInterrupt:
                return so_far, True
            if following is None:
                return so_far, False
            so_far = so_far._replace(aim=following)

    def _advance(self, so_far, n_sweeps):
        """Return (the run ``n_sweeps`` further, or less far, whether by Ctrl-C)."""
        watch = partial(self._watch, so_far)
        chains, blocks, n_new = run_chains(
            so_far.chains, self.step, n_sweeps, n_jobs=self.estimator.n_jobs, watch=watch
        )
        return self._joined(so_far, chains, blocks, n_new), n_new < n_sweeps and time.monotonic() < self.deadline

    def _joined(self, so_far, chains, blocks, n_new):
        parts = [[*so_far.draws[c : c + 1], *blocks[c]] for c in range(len(chains))]
        draws = [join(own) for own in parts] if parts[0] else []
        return SoFar(chains, draws, so_far.n_done + n_new, so_far.aim)

    def _watch(self, so_far, chains, blocks, n_new):
        """After a block: show, save; whether the time is over."""
        n_done, now = so_far.n_done + n_new, time.monotonic()
        self.progress(n_done - self.n_first)
        if self.estimator.verbose and now > self.look_at:
            by_chain = list(zip(*blocks, strict=True))
            self.progress(n_done - self.n_first, self._words(self._joined(so_far, chains, by_chain, n_new)))
            ended = time.monotonic()
            self.look_at = ended + max(SECONDS, SHARE * (ended - now))
        if now > self.checkpoint.due:
            self.checkpoint.save(SoFar(chains, so_far.draws, n_done, so_far.aim), blocks)
        return now > self.deadline

    def _words(self, so_far):
        """Draws a second, and R-hat and the effective sample size so far."""
        n_drawn, seconds = self.estimator._n_drawn(so_far.n_done), time.monotonic() - self.started
        if n_drawn < 8:
            return "warm-up"
        new = n_drawn - self.estimator._n_drawn(self.n_first)
        r_hat, ess = self.judge(so_far)
        worst, fewest = least(r_hat, ess)
        rate = f"{len(so_far.chains) * new / seconds:.3g} draws/s"
        if worst is None:
            return rate
        for_all = seconds * n_drawn / max(new, 1)  # as if this call had drawn what it found, too
        return f"{rate}, R-hat {r_hat[worst]:.3f}, {self.rule.words(np.floor(ess[fewest]), for_all)}"
