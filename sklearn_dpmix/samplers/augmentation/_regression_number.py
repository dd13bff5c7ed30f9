"""An unknown number of records of a linear regression given the design.

It is a whole number.  A path that changed it would break off at each step, or its own steps would be so short that it
led nowhere, so paths hold it, and it is the last coordinate of a point and of the metric.
"""

from math import exp, sqrt

from ..._base.compiled import helper


@helper
def hold_number(model, metric, vector):
    """Take out of a vector in the metric's coordinates what would change the number of records, if it is unknown."""
    if model.known > 0.0:
        return
    row, along, square = metric[metric.shape[0] - 1], 0.0, 0.0
    for b in range(row.size):
        along += row[b] * vector[b]
        square += row[b] * row[b]
    for b in range(row.size):
        vector[b] -= along / square * row[b]


@helper
def walk_number(rng, n_walks, model, counter, C, state):
    """Step 4: a random walk of n with all released moments held, by steps of many sizes; γ must be drawn next.

    τ² goes with the residuals' mean square, which knows n where the noise is small.
    """
    point, moments, last = state.point, state.moments, state.point.shape[1] - 1
    row, variance = state.metric[last], 0.0
    for b in range(row.size):
        variance += row[b] * row[b]
    for j in range(moments.shape[1]):
        moments[1, j] = moments[0, j]
    current = log_number(model, counter, C, state, 0)
    for _ in range(n_walks):
        value = point[0, last] + exp(1.0 - 3.0 * rng.random()) * sqrt(variance) * rng.standard_normal()
        if not model.set_number(point[0], value, point[1], moments[0], moments[1], state.work):
            continue
        proposed = log_number(model, counter, C, state, 1)
        if rng.standard_exponential() > -(proposed - current):
            for a in range(last + 1):
                point[0, a] = point[1, a]
            current = proposed


@helper
def log_number(model, counter, C, state, which):
    """Log density of a number of records given the released moments, γ integrated out."""
    value, n = model.log_given_sums(state.point[which], state.moments[1], state.work), model.number(state.point[which])
    for r in range(C.shape[0]):
        value += counter.log_release(C, r, 0, n)
    return value
