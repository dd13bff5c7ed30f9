"""Glides keep the prior and the density at their points, and are accepted as a slow twin says.

In plain Python, as the other moves (``test_measure_moves``).
"""

from math import exp, pi, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from walks_of_the_prior import FINITE, FIXED, Channel, breaks, chart_of, draw_walk, law_of_walks, p_value, plain

from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.samplers.mixture.measure import _glides, _sheet
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import NormalChart
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_ATOMS
from sklearn_dpmix.samplers.mixture.measure._walk_likelihood import refresh

POINTS, SCALES = np.array([-1.5, 0.5, 2.0]), np.array([40.0, 30.0, 50.0, 40.0])
__all__ = ["plain"]


@pytest.fixture(scope="module", autouse=True)
def plain_sheets(plain):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sheet, "lower", lambda owner, fields, frozen: SimpleNamespace(**fields))
        yield


class Noised(Channel):
    """Normal densities with noise of variance 1/4 at the points, and any at the one node."""

    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        if n == 1:
            return super().fill_normal(j, nodes, n, mean, log_variance, out, first, second)
        variance, inner = 0.25 + exp(log_variance), exp(log_variance)
        for m in range(n):
            d = nodes[m] - mean
            out[first + m] = density = exp(-0.5 * d * d / variance) / sqrt(2.0 * pi * variance)
            out[second + m] = density * d / variance
            out[second + n + m] = density * 0.5 * inner / variance * (d * d / variance - 1.0)


def sheet_of(walk):
    return _sheet.Sheet.of(POINTS[None], np.zeros((2, len(POINTS))), SCALES, walk.law)


def glide(rng, channel, chart, walk):
    _glides.glide(rng, Noised(), chart, walk, sheet_of(walk))


@pytest.mark.slow
@pytest.mark.parametrize("mixing", [FIXED, FINITE[0]], ids=str)
def test_glides_keep_the_prior(mixing):
    assert p_value(glide, mixing=mixing) > 1e-6


@pytest.mark.slow
def test_glides_without_the_prior_do_not(monkeypatch):
    monkeypatch.setattr(NormalChart, "log_base", compiled(lambda chart, walk, k: 0.0))
    assert breaks(glide, n_moves=18)


def some_walks(n):
    rng, chart = np.random.default_rng(3), chart_of(1)
    laws = law_of_walks(chart, FIXED)
    for _ in range(n):
        walk = draw_walk(rng, chart, FIXED, *laws)
        walk.tables[:] = 1.0
        refresh(walk)
        yield rng, chart.value(), walk


def test_glides_keep_densities_at_their_points():
    n_moved = 0
    for rng, value, walk in some_walks(40):
        atoms = walk.atoms.reshape(-1, 3)[: int(walk.law[N_ATOMS])]
        before = atoms.copy()
        glide(rng, None, value, walk)
        for x in POINTS:
            densities = [a[:, 0] @ norm.pdf(x, a[:, 1], np.sqrt(0.25 + np.exp(a[:, 2]))) for a in (before, atoms)]
            assert densities[0] == pytest.approx(densities[1], abs=1e-6)
        assert before[:, 0].sum() == pytest.approx(atoms[:, 0].sum(), abs=1e-6)
        n_moved += np.any(before != atoms)
    assert n_moved > 5


# --- a slow twin of the probability of acceptance ---------------------------------------------------------------------


def slow_sheet(x, sheet):
    """T and DT at coordinates (log J, (μ - c)/unit, log σ²) of some atoms."""
    mass, mean, inner = np.exp(x[::3]), sheet.centre + sheet.unit * x[1::3], np.exp(x[2::3])
    variance, d = 0.25 + inner, POINTS[:, None] - mean
    density = mass * np.exp(-0.5 * d * d / variance) / np.sqrt(2.0 * np.pi * variance)
    parts = density, density * d / variance * sheet.unit, density * 0.5 * inner / variance * (d * d / variance - 1.0)
    slopes = np.zeros((len(SCALES), len(x)))
    for e, part in enumerate(parts):
        slopes[:-1, e::3] = part
    slopes[-1, ::3] = mass
    return SCALES * np.append(density.sum(axis=1), mass.sum()), SCALES[:, None] * slopes


def slow_tangent(x, sheet):
    """An orthonormal basis of the tangent, which goes smoothly with x."""
    slopes = slow_sheet(x, sheet)[1]
    fixed = np.random.default_rng(0).standard_normal((len(x), len(x) - len(slopes)))
    return np.linalg.qr(fixed - slopes.T @ np.linalg.solve(slopes @ slopes.T, slopes @ fixed))[0]


def slow_glide(start, size, sheet):
    """(x', t') of a glide from x along t, t in coordinates of the tangents' bases."""
    n = len(start) - len(size)
    x, t = start, size
    aim, normal = slow_sheet(x, sheet)
    y = x + slow_tangent(x, sheet) @ t
    for _ in range(40):
        value, slopes = slow_sheet(y, sheet)
        y = y + normal.T @ np.linalg.solve(slopes @ normal.T, aim - value)
    assert n == len(aim)
    return np.append(y, slow_tangent(y, sheet).T @ (x - y))


def seen_glides(monkeypatch, n):
    """(start, end, length, log ratio, sheet) of glides under a flat prior, as they come to be accepted."""
    found, lengths, chosen = [], [], _glides.choose_above

    def log_tangent(shift, p, length, old=_glides.log_tangent):
        lengths.append(length)
        return old(shift, p, length)

    def accepts(rng, ratio):
        found[-1][0] = ratio
        return False

    def choose_above(*args):
        found[-1].append(chosen(*args))
        return found[-1][1]

    monkeypatch.setattr(_glides, "choose_above", choose_above)
    monkeypatch.setattr(_glides, "accepts", accepts)
    monkeypatch.setattr(_glides, "log_tangent", log_tangent)
    monkeypatch.setattr(NormalChart, "log_base", compiled(lambda chart, walk, k: 0.0))
    for rng, value, walk in some_walks(n):
        sheet = sheet_of(walk)
        found.append([None])
        _glides.glide(rng, Noised(), value, walk, sheet)
        if found[-1][0] is not None:
            p = 3 * found[-1][1]
            yield sheet.start[:p].copy(), sheet.end[:p].copy(), lengths[-1], found[-1][0], sheet


def differences(monkeypatch):
    """Of a glide's log ratio from the slow twin's, over some that do not go too far for it."""
    for start, end, length, ratio, sheet in seen_glides(monkeypatch, 60):
        forth = slow_tangent(start, sheet).T @ (end - start)
        state, step = np.append(start, forth), 1e-5
        reached = slow_glide(start, forth, sheet)
        if not np.allclose(reached[: len(end)], end, atol=1e-5):
            continue
        split = len(start)
        columns = [
            (slow_glide(a[:split], a[split:], sheet) - slow_glide(b[:split], b[split:], sheet)) / (2 * step)
            for a, b in ((state + e, state - e) for e in step * np.eye(len(state)))
        ]
        back = reached[split:]
        expected = np.linalg.slogdet(np.array(columns).T)[1] + 0.5 * (forth @ forth - back @ back) / length**2
        yield abs(expected - ratio)


def test_glides_are_accepted_as_their_jacobian_says(monkeypatch):
    found = list(differences(monkeypatch))
    assert len(found) > 15 and max(found) < 1e-3


TWINS = {
    "the volume": ("to_tangent", lambda old: lambda *args: 0.0 * old(*args)),
    "the volume upside down": ("to_tangent", lambda old: lambda *args: -old(*args)),
    "the steps along the tangents": ("log_tangent", lambda old: lambda *args: 0.0 * old(*args)),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_glides_are_not(twin, monkeypatch):
    name, change = TWINS[twin]
    monkeypatch.setattr(_glides, name, change(getattr(_glides, name)))
    assert any(difference > 0.1 for difference in differences(monkeypatch))
