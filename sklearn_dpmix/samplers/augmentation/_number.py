"""How many records there are: known, or released with noise."""

from math import exp

from ..._base.compiled import Component, compiled, helper, lower
from .._release_density import log_release
from ._augmented_state import N_RECORDS


class KnownNumber(Component):
    """The number of records is known."""

    def _lower(self, **context):
        return lower(type(self), {"n_tries": 0.0})

    @compiled
    def gain(self, count, n, new):
        return 0.0

    @compiled
    def leap(self, rng, model, channel, count, S, state, current):
        """Births and deaths of many at once, where a subclass has them; returns the log density of the release."""
        return current


class NoisyNumber(KnownNumber):
    """The number of records was released with noise of ``mechanism``, of this scale."""

    def __init__(self, mechanism, scale):
        self.mechanism = mechanism
        self.scale = scale

    def _lower(self, **context):
        channel = self.mechanism._lower(n_records=1, n_features=1)
        n_tries = float(int(min(20 + 2 * self.scale, 1000)))  # births or deaths in a sweep
        return lower(type(self), {"n_tries": n_tries, "scale": float(self.scale), "mechanism": channel})

    @compiled
    def gain(self, count, n, new):
        """Log ratio of the densities of the noisy number at ``new`` and ``n``."""
        return self.mechanism.log_release(count, 0, 0, new) - self.mechanism.log_release(count, 0, 0, n)


@helper
def change_number(rng, model, channel, counting, count, S, state, current):
    """Births and deaths of records, if their number was released with noise and has a flat prior on 0..most.

    Each try puts a record from the model in a random place, or takes a random one out: the places' probabilities 1/n
    cancel, as do the model and the prior, and the noise on both releases decides.  What stood in that place becomes the
    last one.  Were the new record the last one, the order would say how well records fit, and a sweep in order would
    not keep the posterior.
    """
    records, contributions, total = state.records, state.contributions, state.total
    spare = records.shape[0] - 1
    for _ in range(int(counting.n_tries)):
        n = state.ints[N_RECORDS]
        born = rng.random() < 0.5
        if n == (spare if born else 0):
            continue
        place = spare
        if born:
            model.draw_record(rng, state.theta, records, spare)
            model.contribute(records, spare, contributions, spare)
        else:
            place = min(int(rng.random() * n), n - 1)
        sign = 1.0 if born else -1.0
        for j in range(total.size):
            total[j] += sign * contributions[place, j]
        proposed = log_release(channel, S, total)
        gain = proposed - current + counting.gain(count, n, n + sign)
        if gain >= 0.0 or rng.random() < exp(gain):
            current = proposed
            if born:
                place = min(int(rng.random() * (n + 1)), n)
                move_record(records, contributions, place, n)
            move_record(records, contributions, spare if born else n - 1, place)
            state.ints[N_RECORDS] = n + 1 if born else n - 1
        else:
            for j in range(total.size):
                total[j] -= sign * contributions[place, j]
    return current


@helper
def move_record(records, contributions, source, to):
    for j in range(contributions.shape[1]):
        contributions[to, j] = contributions[source, j]
    for j in range(records.shape[1]):
        records[to, j] = records[source, j]
