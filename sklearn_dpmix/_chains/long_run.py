"""Chains on their way: what happens between blocks of sweeps until there are enough draws."""

import time
from functools import partial

import numpy as np

from .chain import run_chains
from .draws import join
from .mixed import worst_monitors
from .progress import Progress

SECONDS = 2.0  # between two estimates of R-hat for the progress bar
SHARE = 20  # ... and at least so many times as long as the last one took


class LongRun:
    """Advance chains until the rule has enough; show progress, save checkpoints, keep what Ctrl-C leaves.

    Parameters
    ----------
    estimator : ChainEstimator
    problem : Problem
    rule : AutoDraws or FixedDraws
    judge : callable (SoFar) -> (r_hat, ess)
    checkpoint : Checkpoint or NoCheckpoint
    """

    def __init__(self, estimator, problem, rule, judge, checkpoint):
        self.estimator, self.problem, self.rule, self.judge = estimator, problem, rule, judge
        self.checkpoint = checkpoint
        self.started, self.deadline = time.monotonic(), rule.deadline()
        self.look_at = self.started + SECONDS

    def run(self, start):
        """Return (the run at its end, whether Ctrl-C ended it)."""
        estimator, rule = self.estimator, self.rule
        self.so_far = start._replace(aim=rule.first(start.n_drawn(), start.aim))
        self.n_first = start.n_done
        del start  # as in run_chains
        self.checkpoint.save(self.so_far)
        total = self._sweeps() if self.so_far.aim in (None, rule.most) else None
        with Progress(estimator, self.n_first, total) as self.progress:
            was_interrupted = self._until_enough()
        try:
            self.checkpoint.save(self.so_far)
        except KeyboardInterrupt:  # the file is as the last save left it
            was_interrupted = True
        if self.so_far.n_drawn() == 0:
            if was_interrupted:
                raise KeyboardInterrupt("interrupted during the warm-up: there are no draws to keep")
            raise TimeoutError(f"n_draws={estimator.n_draws!r}: the time ran out during the warm-up; raise max_seconds")
        return self.so_far, was_interrupted

    def _sweeps(self):
        """Sweeps of each chain when the run looks next, or ends."""
        n_draws = self.rule.most if self.so_far.aim is None else self.so_far.aim
        return self.so_far.pace.n_sweeps(n_draws)

    def _until_enough(self):
        """Go on until there are as many draws as the rule wants; return whether Ctrl-C left fewer."""
        while True:
            target = self._sweeps()
            was_interrupted = self._advance(target - self.so_far.n_done)
            if self.so_far.n_done < target:
                return was_interrupted
            try:
                following = self._following(self.so_far.n_drawn(), partial(self.judge, self.so_far))
            except KeyboardInterrupt:
                return True
            if following is None:
                return False
            self.so_far = following
            self.progress.goes_on_to(self._sweeps())

    def _following(self, n_drawn, judge):
        """The run as it is to go on; None: it has enough."""
        may_slow = 2 * self.so_far.pace.times <= self.problem.most_times
        if may_slow and self.rule.wants_more_work(n_drawn, self.estimator.n_chains, judge):
            return self._slowed()
        aim = self.rule.next(n_drawn, judge)
        return None if aim is None else self.so_far._replace(aim=aim)

    def _slowed(self):
        """The run with every second of its draws, whose chains go on with twice the work behind each."""
        draws = [self.problem.every_second(own) for own in self.so_far.draws]
        return self.so_far._replace(draws=draws, pace=self.so_far.pace.slower(self.so_far.n_done))

    def _advance(self, n_sweeps):
        """Go on by ``n_sweeps``, or less; return whether Ctrl-C ended it."""
        before = self.so_far._replace(chains=[])
        try:
            step = self.problem.step(before.pace)  # which may try some moves
        except KeyboardInterrupt:
            return True
        chains, blocks, n_new = run_chains(
            self._give_chains(),
            step,
            n_sweeps,
            n_jobs=self.estimator.n_jobs,
            watch=partial(self._watch, before),
        )
        self.so_far = self._joined(before, chains, blocks, n_new)
        return n_new < n_sweeps and time.monotonic() < self.deadline

    def _give_chains(self):
        """The chains; no reference to them stays here, so that old states can be freed."""
        chains, self.so_far = self.so_far.chains, None
        return chains

    def _joined(self, so_far, chains, blocks, n_new):
        parts = [[*so_far.draws[c : c + 1], *blocks[c]] for c in range(len(chains))]
        draws = [join(own) for own in parts] if parts[0] else []
        return so_far._replace(chains=chains, draws=draws, n_done=so_far.n_done + n_new)

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
            self.checkpoint.save(so_far._replace(chains=chains, n_done=n_done), blocks)
        return now > self.deadline

    def _words(self, so_far):
        """Draws a second, and R-hat and the effective sample size so far."""
        n_drawn, seconds = so_far.n_drawn(), time.monotonic() - self.started
        if n_drawn < 8:
            return "warm-up"
        new = n_drawn - so_far.pace.n_drawn(self.n_first)
        r_hat, ess = self.judge(so_far)
        worst, fewest = worst_monitors(r_hat, ess)
        rate = f"{len(so_far.chains) * new / seconds:.3g} draws/s"
        if worst is None:
            return rate
        for_all = seconds * n_drawn / max(new, 1)  # as if this call had drawn what it found, too
        return f"{rate}, R-hat {r_hat[worst]:.3f}, {self.rule.words(np.floor(ess[fewest]), for_all)}"
