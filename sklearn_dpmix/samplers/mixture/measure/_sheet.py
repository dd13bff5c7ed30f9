"""The sheet that a glide goes along: points at which the density of releases is kept, and what is computed there."""

from math import exp
from typing import Any

import numpy as np
from scipy.linalg import qr

from ...._base.compiled import Component, apart, lower
from ._walk_atoms import CENTRE, PER_FEATURE, REACH
from ._walk_likelihood import LEAST_DENSITY
from ._walk_state import lay_out

MOST_ATOMS = 8
UNIT = 0.2  # of the reach of the records: a step of μ as long as one of log J or log σ²
SHARE = 0.1  # of all records: what moves between atoms by which points are judged
LEAST = 3.0  # standard errors by which such a move may change the density elsewhere, atoms and nodes together
MOST_POINTS = 16  # else the records leave little open
N_EM = 30


class Sheet(Component):
    """T of some atoms and its derivatives, with room for them, as bare pointers.

    T is their mass, and what they add to the density of releases at some points, in standard errors.
    """

    @classmethod
    def of(cls, points, lookup, scales, law):
        """Return the sheet of points (1, n), what the mechanism looks up there, scales (n + 1,) and a walk's law."""
        p, q = 3 * MOST_ATOMS, len(scales)
        room = {name: np.empty(p) for name in ("start", "end", "shift")}
        room |= {name: np.empty(q) for name in ("aim", "value", "right")}
        room |= {name: np.empty(p * q) for name in ("normal", "slopes")}
        fields = {
            "points": lay_out(np.vstack([points, np.zeros(points.shape)]), lookup),
            "scales": scales.copy(),
            "tables": np.empty(3 * q),
            "metric": np.empty((q, q)),
            "chosen": np.empty(MOST_ATOMS),
            "n_points": np.int64(q - 1),
            "centre": float(law[PER_FEATURE + CENTRE]),
            "unit": float(UNIT * law[PER_FEATURE + REACH]),
        }
        return lower(cls, fields | room, frozen=False)


def choose_points(densities: Any, weights: Any) -> Any:
    """(Nodes at which to keep the density of releases, scales of T): few that say it all; none if it takes many.

    ``densities`` (atoms, nodes) are those of some components, as likely ones as there are.  EM finds shares of theirs
    that fit the records; then moves of mass from all to one are what points are to see (QR with pivots).
    """
    n, shares = weights.sum(), np.full(len(densities), 1.0 / len(densities))
    for _ in range(N_EM):
        shares *= densities @ (weights / np.maximum(shares @ densities, LEAST_DENSITY)) / n
    mixture = np.maximum(shares @ densities, LEAST_DENSITY)
    scores = SHARE * np.sqrt(weights) * (densities / mixture - 1.0)
    _, triangle, order = qr(scores, mode="economic", pivoting=True)
    left = [np.linalg.norm(triangle[i:, i:]) / np.sqrt(len(scores)) for i in range(min(len(triangle), MOST_POINTS))]
    n_points = next((i for i, rest in enumerate(left) if rest < LEAST), 0)
    chosen = order[:n_points]
    return chosen, np.append(SHARE * np.sqrt(n / max(n_points, 1)) / mixture[chosen], np.sqrt(n))


# --- compiled --------------------------------------------------------------------------------------------------------


@apart
def fill_sheet(densities, sheet, r, place, value, slopes):
    """T of r atoms with coordinates (log J, (μ - c)/unit, log σ²) from ``place`` on, and DT by row."""
    n, p, tables, scales, unit = sheet.n_points, 3 * r, sheet.tables, sheet.scales, sheet.unit
    for i in range(n + 1):
        value[i] = 0.0
    for a in range(0, p, 3):
        mass = exp(place[a])
        densities.fill_normal(0, sheet.points, n, sheet.centre + unit * place[a + 1], place[a + 2], tables, 0, n)
        for m in range(n):
            scaled, to = mass * scales[m], m * p + a
            value[m] += scaled * tables[m]
            slopes[to] = scaled * tables[m]
            slopes[to + 1] = scaled * tables[n + m] * unit
            slopes[to + 2] = scaled * tables[2 * n + m]
        value[n] += mass * scales[n]
        slopes[n * p + a] = mass * scales[n]
        slopes[n * p + a + 1] = slopes[n * p + a + 2] = 0.0


@apart
def fill_gram(sheet, p, first, second):
    """DT DTᵀ of two places, into ``metric``."""
    q = sheet.n_points + 1
    for i in range(q):
        for j in range(q):
            value = 0.0
            for e in range(p):
                value += first[i * p + e] * second[j * p + e]
            sheet.metric[i, j] = value


@apart
def add_normal(sheet, p, normal, place):
    """Add DTᵀ times ``right`` to a place."""
    for i in range(sheet.n_points + 1):
        for e in range(p):
            place[e] += normal[i * p + e] * sheet.right[i]
