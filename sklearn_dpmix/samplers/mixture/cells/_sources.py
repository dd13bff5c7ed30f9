"""Draws from a smoothed histogram: given the records that they came from, no other record matters.

A released draw came from no record (the smoothing), or from any record of its bin with equal probability; this is the
mixture in eq. (12) of Beraha et al.  Given these sources, a record that no draw came from is a new draw from the
population.  So a sweep draws the sources, forgets all other records, updates clusters and parameters given the few that
are left, each in a known bin, and draws the others again, from the urn and the kernels.
"""

from math import inf, log

from ...._base.compiled import compiled, helper
from ...._base.numeric import draw_weighted
from .._places import CONCENTRATION, CURSOR, MASS, N_CLUSTERS, N_FREE, N_SLOTS, N_SOURCES, OTHERS, PROBABILITY, STAGE
from .._state import State, compact, fill_cache, occupy, take_slot
from ._bins import Bins
from ._integrated_records import CellSampler, sweep_cells


class Sources(CellSampler):
    """Gibbs over the records that released draws came from; all others are integrated out, and then drawn again.

    It is for ``SmoothedHistogramMechanism``; ``Cells`` resolves to it if no more draws were released than there are
    records.  It is exact.  The fewer draws, the better it mixes, since a record that is the source of many draws rarely
    stops being one.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Sources
    >>> Sources()
    Sources()
    """

    needs_sources = True
    float_ranges = {**CellSampler.float_ranges, N_SOURCES: (0.0, 0.0)}

    @compiled
    def weigh_clusters(self, channel, kernel, Z, i, records, theta, work, n_slots):
        at = channel.first_mass(theta) + channel.bin(records[i, 0, 0])
        for k in range(n_slots):
            work[PROBABILITY, k] = work[MASS, k] * theta[k, at]

    @compiled
    def shift(self, rng, channel, kernel, Z, state, first, last, k, to):
        theta, gain, ratio = state.theta, 0.0, 1.0
        at = channel.first_mass(theta)
        for r in range(first, last):
            b = at + channel.bin(state.records[state.order[r], 0, 0])
            if theta[to, b] <= 0.0:
                return -inf
            step = theta[to, b] / theta[k, b]
            if 1e-50 < step < 1e50 and 1e-200 < ratio < 1e200:  # one logarithm for many records
                ratio *= step
            else:
                gain += log(step)
        return gain + log(ratio)

    move_given_records = Bins.move_given_records

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        ints, floats = state.ints, state.floats
        if floats[N_SOURCES] == 0.0:
            floats[N_SOURCES] = 1.0 + draw_sources(rng, channel, Z, state)
        n_sources = int(floats[N_SOURCES]) - 1
        if ints[STAGE] != OTHERS:
            sources = State(
                alloc=state.alloc[:n_sources],
                records=state.records,
                levels=state.levels,
                counts=state.counts,
                stats=state.stats,
                theta=state.theta,
                work=state.work,
                order=state.order[:n_sources],
                table=state.table,
                free=state.free,
                ints=ints,
                floats=floats,
            )
            compact(sources)
            if n_sources > 0 and not sweep_cells(self, rng, channel, kernel, mixing, Z, sources, warming_up):
                return False
            ints[STAGE], ints[CURSOR] = OTHERS, n_sources
        if not draw_others(rng, channel, kernel, mixing, Z, state):
            return False
        for b in range(channel.last_cell + 1):
            channel.count(Z, b, 0.0)
        floats[N_SOURCES] = 0.0
        ints[STAGE] = 0
        return True


@helper
def draw_sources(rng, channel, table, state):
    """Where the released draws came from: put those records first, forget the others; return how many they are."""
    alloc, records, counts, n_sources = state.alloc, state.records, state.counts, 0
    for b in range(channel.last_cell + 1):
        table[0, b] = channel.draw_n_sources(rng, table, b)
    counts[:] = 0.0
    for i in range(alloc.size):
        b = channel.bin(records[i, 0, 0])
        if rng.random() * table[1, b] < table[0, b]:  # sources to be found in bin b, of the records not yet seen
            table[0, b] -= 1.0
            alloc[i], alloc[n_sources] = alloc[n_sources], alloc[i]
            records[i, 0, 0], records[n_sources, 0, 0] = records[n_sources, 0, 0], records[i, 0, 0]
            counts[alloc[n_sources]] += 1.0
            n_sources += 1
        table[1, b] -= 1.0
    for i in range(n_sources):
        table[1, channel.bin(records[i, 0, 0])] += 1.0
    state.ints[N_CLUSTERS] = 0
    for k in range(state.ints[N_SLOTS]):
        state.ints[N_CLUSTERS] += counts[k] > 0.0
    return n_sources


@helper
def draw_others(rng, channel, kernel, mixing, table, state):
    """The records from the cursor on, each given those before it.  False when out of slots (resumes at the cursor)."""
    alloc, counts, theta, ints = state.alloc, state.counts, state.theta, state.ints
    concentration, first = state.floats[CONCENTRATION], channel.first_mass(theta)
    stop = alloc.size
    for i in range(ints[CURSOR], alloc.size):
        if ints[N_SLOTS] - ints[N_FREE] == counts.size:  # before the draw, which it must not depend on
            stop = i
            break
        k = mixing.propose_cluster(rng, concentration, ints[N_CLUSTERS], alloc[: i + 1], counts, i)
        if k < 0:
            k = take_slot(state)
            kernel.draw_prior(rng, theta, k)
            fill_cache(channel, kernel, theta, k)
            occupy(state)
        alloc[i] = k
        counts[k] += 1.0
        b = draw_weighted(rng, theta[k], first, channel.last_cell + 1, 1.0)
        state.records[i, 0, 0] = channel.centre(b)
        table[1, b] += 1.0
    ints[CURSOR] = stop % alloc.size
    return stop == alloc.size
