"""The loop over a chain's sweeps: which of them warm it up, and which leave a draw.

Sweeps count from the chain's start.  The first ``n_warmup`` warm it up; after these, every ``thin``-th leaves a draw.
Mixtures, which may stop if there is no room, and chains in plain Python have their own loops with the same rule.
"""

from .._base.compiled import Component, compiled, entry, helper, lower
from ._parameter_draws import new_statistic_draws

MOST_SWEEPS, MOST_NUMBERS = 8, 24_000  # that count as one at most; fewer if they move more numbers than these


def most_times(n_numbers=1):
    """Sweeps that may count as one where draws are worth little, if each of them moves so many numbers."""
    return min(MOST_SWEEPS, max(MOST_NUMBERS // max(n_numbers, 1), 1))


@helper
def is_kept(sweep, n_warmup, thin):
    """Whether the chain's sweep of that number, the first being 1, leaves a draw."""
    return sweep > n_warmup and (sweep - n_warmup) % thin == 0


def n_kept(done, n_sweeps, n_warmup, thin):
    """How many draws ``n_sweeps`` sweeps leave, after ``done`` of them."""
    return max(done + n_sweeps - n_warmup, 0) // thin - max(done - n_warmup, 0) // thin


@entry
def run_chain(sampler, state, rng, done, n_sweeps, n_warmup, thin, draws):
    """Advance a chain in place by ``n_sweeps``, and write its draws, one a row.

    ``sampler`` has all that it needs of the release, ``sweep(state, rng, warming_up)``, and ``keep(state, rng, draws,
    row)``, which writes a draw; ``done`` is the part of the state that begins with the number of sweeps so far.
    """
    until, row = done[0] + n_sweeps, 0
    while done[0] < until:
        sampler.sweep(state, rng, done[0] < n_warmup)
        done[0] += 1
        if is_kept(done[0], n_warmup, thin):
            sampler.keep(state, rng, draws, row)
            row += 1


class SamplerSweeps(Component):
    """A sampler with all that it needs: the fields ``sampler``, ``model``, ``channel``, ``counter``, ``S``, ``C``."""

    @compiled
    def sweep(self, state, rng, warming_up):
        self.sampler.sweep(self.model, self.channel, self.counter, self.S, self.C, state, rng, warming_up)

    @compiled
    def keep(self, state, rng, draws, row):
        self.sampler.keep(self.model, state, rng, draws, row)


def advance_sampler(values, S, C, n_params, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain over the statistic behind a release in place by ``n_sweeps``; return (state, draws).

    Parameters
    ----------
    values : tuple (sampler, model, channel, counter) of component values
    S : ndarray of shape (n_releases, n_statistics)
    C : ndarray of shape (n_counts, 1)
    n_params : int
        Numbers in a draw of θ.
    state : NamedTuple
        Its ``ints`` begin with the number of sweeps so far.
    """
    names, done = ("sampler", "model", "channel", "counter", "S", "C"), state.ints
    sweeps = lower(SamplerSweeps, dict(zip(names, (*values, S, C), strict=True)))
    draws = new_statistic_draws(n_kept(done[0], n_sweeps, n_warmup, thin), n_params, S.shape[1])
    run_chain(sweeps, state, rng, done, n_sweeps, n_warmup, thin, draws)
    return state, draws
