"""The state of a chain that imputes confidential records, and how it starts."""

from typing import NamedTuple

import numpy as np

from ..._base.acceptance import N_COUNTERS, require_acceptance
from ..._base.compiled import entry
from ..._base.restore import (
    require,
    require_finite,
    require_range,
    require_same,
    require_sweeps,
    same_layout,
)
from ._regression_paths import ACCEPTED, LOG_STEP, N_PATH_INTS, PROPOSED
from ._regression_paths import N_FLOATS as N_FLOATS_OF_PATHS

# ints
N_RECORDS, N_SWEEPS, N_ADAPTED, N_INTS = 0, 1, 2, 3
# floats; TUNED is the sampler's own
MOVES_ACCEPTED, MOVES_PROPOSED, TUNED = range(N_COUNTERS, N_COUNTERS + 3)
N_FLOATS = N_COUNTERS + 3


class AugmentedState(NamedTuple):
    """All of a chain except its random generator: arrays that a sweep changes in place."""

    theta: np.ndarray  # (n_params,)
    records: np.ndarray  # (most + 1, d): ints[N_RECORDS] imputed confidential records; the last row is scratch
    contributions: np.ndarray  # (most + 1, k): t(record) of each; the last row is scratch
    total: np.ndarray  # (k,): their sum
    steps: np.ndarray  # (n_blocks, m, m): lower factors of the non-centred proposals
    reference: np.ndarray  # (n_params,): parameters met in the warm-up
    point: np.ndarray  # of Hamiltonian paths, as are the next (``Paths``); without these they are empty
    path_moments: np.ndarray
    vectors: np.ndarray
    metric: np.ndarray
    path_products: np.ndarray
    path_ints: np.ndarray
    path_floats: np.ndarray
    work: np.ndarray  # (rows, columns): the model's scratch
    ints: np.ndarray
    floats: np.ndarray


def restored_augmentation(model, state, fresh, n_sweeps):
    """Return a state read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`).

    ``model`` is the component's value.  The total is added up again in each sweep.
    """
    state = same_layout(fresh, state)
    n, most = state.ints[N_RECORDS], state.records.shape[0] - 1
    require_sweeps(state.ints[N_SWEEPS], n_sweeps)
    # their number may change only where there is room for more than a chain starts with
    require_range(0 if fresh.ints[N_RECORDS] < most else most, most, ints=n)
    require_range(0, 2**62, ints=state.ints)
    if state.total.size == 0:  # nothing was released
        require_same(fresh, state, "records")
    require_finite(records=state.records[:n], contributions=state.contributions[:n], total=state.total)
    require_finite(theta=state.theta, steps=state.steps, reference=state.reference)
    require(np.diagonal(state.steps, axis1=1, axis2=2) > 0, "steps", "has factors that are not positive")
    require_paths(state)
    require_acceptance(state.floats)
    require_range(0.0, 1.0, floats=state.floats[TUNED])
    contributions = np.zeros_like(state.contributions)
    contribute_all(model, state.records, n, contributions)
    is_same = np.isclose(state.contributions[:n], contributions[:n], rtol=1e-9, atol=1e-9)
    require(is_same, "contributions", "are not those of the records")
    return state


def require_paths(state):
    """Raise where what was read from a file is no metric, no mean of points or no step."""
    require_finite(point=state.point, path_moments=state.path_moments, vectors=state.vectors)
    require_finite(metric=state.metric, path_products=state.path_products)
    require(np.diagonal(state.metric) > 0, "metric", "is a factor that is not positive")
    require_range(0, 2**62, path_ints=state.path_ints)
    require_range(0.0, state.path_ints[PROPOSED], path_floats=state.path_floats[ACCEPTED])
    require_range(-50.0, 50.0, path_floats=state.path_floats[LOG_STEP])


@entry
def contribute_all(model, records, n, contributions):
    """t(record) of each."""
    for i in range(n):
        model.contribute(records, i, contributions, i)


def start_augmentation(model, value, n_records, most, S, moments, rng):
    """Start a chain: θ near what the release says, records drawn from the model; there is room for ``most``."""
    state = new_state(model, n_records, most, S.shape[1], model.start(moments, rng))
    fill(value, state, rng)
    return state


def new_state(model, n_records, most, n_statistics, theta):
    """Return a state with nothing but θ in it."""
    ints = np.zeros(N_INTS, dtype=np.int64)
    ints[N_RECORDS] = n_records
    metric = model.first_metric()
    path_floats = np.zeros(N_FLOATS_OF_PATHS)
    path_floats[LOG_STEP] = -1.0
    return AugmentedState(
        theta=theta,
        records=np.zeros((most + 1, model.n_columns)),
        contributions=np.zeros((most + 1, n_statistics)),
        total=np.zeros(n_statistics),
        steps=model.first_steps(),
        reference=theta.copy(),
        point=np.zeros((2, len(metric))),
        path_moments=np.zeros((2, n_statistics)),
        vectors=np.zeros((5, max(len(metric), n_statistics))),
        metric=metric,
        path_products=np.zeros_like(metric),
        path_ints=np.zeros(N_PATH_INTS, dtype=np.int64),
        path_floats=path_floats,
        work=np.zeros(model.work_shape(n_statistics)),
        ints=ints,
        floats=np.zeros(N_FLOATS),
    )


@entry
def fill(model, state, rng):
    """Draw all records given θ."""
    for i in range(state.ints[N_RECORDS]):
        model.draw_record(rng, state.theta, state.records, i)
        model.contribute(state.records, i, state.contributions, i)
