"""Samplers of naive Bayes given noisy class-by-feature tables (Ju et al. 2022, §4).

With θ integrated out, records with counts n_c of the classes and N_jcv of class c with value v of feature j have
probability ∝ Π_c Γ(α + n_c) Π_jc [Π_v Γ(α + N_jcv)] / Γ(αV_j + n_c), V_j values of feature j.  As many as
n! Π_c n_c!⁻¹ Π_jc [n_c! / Π_v N_jcv!] data sets have the same counts: given the classes, each feature is laid out
without regard to the others.  So, with r_a(k) = Γ(a + k) / (Γ(a) k!) and the noise's density q at the release S,

    p(counts | S)  ∝  Π_c r_α(n_c)  Π_jc { Π_v r_α(N_jcv) q(S_jcv - N_jcv) } / r_αV_j(n_c).                       (1)

:class:`IndependentTables` draws the counts from (1), exactly and independently.  Where the sums for that would cost too
much, :class:`CollapsedGibbs` draws one record at a time given the others.
"""

from math import exp, inf, log
from typing import NamedTuple

import numpy as np

from ..._base.acceptance import N_COUNTERS, require_acceptance
from ..._base.compiled import Component, compiled, entry, helper, lower
from ..._base.numeric import draw_weighted
from ..._base.restore import require, require_finite, require_range, require_sweeps, require_total, same_layout
from .._driver import n_kept, run_chain
from .._parameter_draws import ThetaDraws
from .._release_density import log_entry

# rows of ``work``: by cell, by row (j, c) of the tables, by class
WEIGHT, ROW_SUM, LOG_UNIT, CLASS_COUNT, LOG_CLASS, SHARE, N_ROWS = 0, 1, 2, 3, 4, 5, 6


class TablesState(NamedTuple):
    """All of a chain except its random generator: arrays that a sweep changes in place."""

    theta: np.ndarray  # (n_params,)
    counts: np.ndarray  # (n_cells,): the tables
    records: np.ndarray  # (n + 1, n_features + 1): imputed records, the class last; the last row is scratch
    work: np.ndarray  # (N_ROWS, n_cells)
    n_sweeps: np.ndarray  # (1,)
    floats: np.ndarray


def restored_tables(model, state, fresh, n_sweeps):
    """Return a state read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`).

    Imputed records go with their counts.  Without any the counts are data, or the next sweep's own: they are the fresh
    state's.
    """
    state = same_layout(fresh, state)
    require_sweeps(state.n_sweeps[0], n_sweeps, "n_sweeps")
    require_finite(theta=state.theta)
    require_acceptance(state.floats)
    records, sizes = state.records[:-1], np.array([*model.n_values, model.n_classes])
    if len(records) == 0:
        return state._replace(counts=np.array(fresh.counts))
    require_range(0, sizes - 1, records=records)
    require(records == np.floor(records), "records", "has values that are not integers")
    counts, first, c = np.zeros(len(state.counts)), 0, records[:, -1].astype(np.int64)
    for j, size in enumerate(model.n_values):
        np.add.at(counts, first + c * size + records[:, j].astype(np.int64), 1.0)
        first += model.n_classes * size
    require(state.counts == counts, "counts", "are not those of the records")
    return state


def check_tables(model, draws):
    """Raise ValueError if draws of a checkpoint are not the probabilities of classes, and of values in each."""
    sizes = [model.n_classes, *(size for size in model.n_values for _ in range(model.n_classes))]
    require_total(draws.theta, np.cumsum(sizes) - sizes)


def start_tables(model, counts, rng=None, n_records=0):
    """Start a chain that needs no records: on counts, (n_cells,), that are known or will be drawn."""
    return TablesState(
        theta=np.zeros(model.n_classes + len(counts)),
        counts=np.array(counts, dtype=np.float64),
        records=np.zeros((n_records + 1, len(model.n_values) + 1)),
        work=np.zeros((N_ROWS, len(counts))),
        n_sweeps=np.zeros(1, dtype=np.int64),
        floats=np.zeros(N_COUNTERS),
    )


def start_records(model, value, n_records, S, rng):
    """Start a chain that imputes records: θ near what the release says, records drawn from the model."""
    state = start_tables(model, np.zeros(S.shape[1]), n_records=n_records)
    state.theta[:] = model.start(np.clip(S.mean(axis=0), 0.0, n_records), rng)
    draw_records(value, state, rng)
    return state


@entry
def draw_records(model, state, rng):
    for i in range(state.records.shape[0] - 1):
        model.draw_record(rng, state.theta, state.records, i)
        model.count(state.records, i, state.counts, 1.0)


class KnownTables(Component):
    """θ given the counts, if these are not confidential."""

    @compiled
    def sweep(self, model, channel, S, state, rng, warming_up):
        if not warming_up:
            model.draw_parameters(rng, state.theta, state.counts)


# --- one record at a time ---------------------------------------------------------------------------------------------


@helper
def log_gain(channel, S, cell, count):
    """Change of the release's log density when a cell's count goes up by one: no other cell of it changes."""
    return log_entry(channel, S, cell, count + 1.0) - log_entry(channel, S, cell, count)


class CollapsedGibbs(Component):
    """Each record given the others, with θ integrated out; θ is then drawn given the counts.

    With the record removed from the counts, and d_jcv the gain of the release's log density when N_jcv goes up by one,

        p(y = c, x = v | the others, S)  ∝  (α + n_c) Π_j (α + N_jcv_j) exp(d_jcv_j) / (αV_j + n_c):

    a record is in one cell of each table and noise is independent by cell, so features factorise given the class.  The
    class is drawn with their sums, then each feature by itself.  This is O(n_classes + Σ V_j) per record.
    """

    @compiled
    def sweep(self, model, channel, S, state, rng, warming_up):
        redraw_records(rng, model, channel, S, state)
        model.draw_parameters(rng, state.theta, state.counts)


@helper
def redraw_records(rng, model, channel, S, state):
    records, counts, work, n_classes = state.records, state.counts, state.work, model.n_classes
    weight, row_sum, log_class, share = work[WEIGHT], work[ROW_SUM], work[LOG_CLASS], work[SHARE]
    start_weights(model, channel, S, counts, work)
    for i in range(records.shape[0] - 1):
        shift_record(model, channel, S, counts, work, records, i, -1.0)
        top, mass = -inf, 0.0
        for c in range(n_classes):
            top = max(top, log_class[c])
        for c in range(n_classes):
            share[c] = exp(log_class[c] - top)
            mass += share[c]
        c = draw_weighted(rng, share, 0, n_classes, mass)
        for j in range(model.n_features):
            size = int(model.sizes[j])
            records[i, j] = draw_weighted(rng, weight, model.cell(j, c, 0), size, row_sum[j * n_classes + c])
        records[i, model.n_features] = c
        shift_record(model, channel, S, counts, work, records, i, 1.0)


@helper
def start_weights(model, channel, S, counts, work):
    """Fill ``work`` from the counts."""
    for c in range(model.n_classes):
        work[CLASS_COUNT, c] = 0.0
        for v in range(int(model.sizes[0])):
            work[CLASS_COUNT, c] += counts[model.cell(0, c, v)]
        for j in range(model.n_features):
            start_row(model, channel, S, counts, work, j, c)
        set_log_class(model, work, c)


@helper
def start_row(model, channel, S, counts, work, j, c):
    """Weights (α + N) exp(d) of a row, in units of the largest exp(d), and their sum."""
    unit, mass, first, row = -inf, 0.0, model.cell(j, c, 0), j * model.n_classes + c
    for cell in range(first, first + int(model.sizes[j])):
        unit = max(unit, log_gain(channel, S, cell, counts[cell]))
    for cell in range(first, first + int(model.sizes[j])):
        work[WEIGHT, cell] = (model.alpha + counts[cell]) * exp(log_gain(channel, S, cell, counts[cell]) - unit)
        mass += work[WEIGHT, cell]
    work[ROW_SUM, row], work[LOG_UNIT, row] = mass, unit


@helper
def shift_record(model, channel, S, counts, work, records, i, sign):
    """Put record i on the counts, or take it off, and renew what depends on its class."""
    c = int(records[i, model.n_features])
    work[CLASS_COUNT, c] += sign
    for j in range(model.n_features):
        cell, first, row, mass = model.cell_of(records, i, j), model.cell(j, c, 0), j * model.n_classes + c, 0.0
        counts[cell] += sign
        gain = log_gain(channel, S, cell, counts[cell]) - work[LOG_UNIT, row]
        work[WEIGHT, cell] = (model.alpha + counts[cell]) * exp(min(gain, 600.0))
        for other in range(first, first + int(model.sizes[j])):
            mass += work[WEIGHT, other]
        work[ROW_SUM, row] = mass
        if not 1e-100 < mass < 1e100:  # the unit has become a bad one
            start_row(model, channel, S, counts, work, j, c)
    set_log_class(model, work, c)


@helper
def set_log_class(model, work, c):
    count, value = work[CLASS_COUNT, c], 0.0
    product = model.alpha + count
    for j in range(model.n_features):
        row = j * model.n_classes + c
        value += work[LOG_UNIT, row]
        product *= work[ROW_SUM, row] / (model.alpha * model.sizes[j] + count)
        if not 1e-100 < product < 1e100:
            value, product = value + log(product), 1.0
    work[LOG_CLASS, c] = value + log(product)


# --- the chain --------------------------------------------------------------------------------------------------------


class TablesSweeps(Component):
    """A sampler with all that it needs: the fields ``sampler``, ``model``, ``channel``, ``S``."""

    @compiled
    def sweep(self, state, rng, warming_up):
        self.sampler.sweep(self.model, self.channel, self.S, state, rng, warming_up)

    @compiled
    def keep(self, state, rng, draws, row):
        for p in range(state.theta.size):
            draws.theta[row, p] = state.theta[p]


def advance_tables(values, S, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws).

    Parameters
    ----------
    values : tuple (sampler, model, channel) of component values
    S : ndarray of shape (n_releases, n_cells)
    """
    sweeps = lower(TablesSweeps, dict(zip(("sampler", "model", "channel", "S"), (*values, S), strict=True)))
    done = state.n_sweeps
    draws = ThetaDraws(np.zeros((n_kept(done[0], n_sweeps, n_warmup, thin), len(state.theta))))
    run_chain(sweeps, state, rng, done, n_sweeps, n_warmup, thin, draws)
    return state, draws
