"""What moves of atoms are accepted by, against the prior by SciPy and proposals written anew, with numeric Jacobians.

In plain Python, as the moves' tests of the prior (``test_measure_moves``): these see what a move breaks by much, here a
factor of 1.02 is seen.
"""

from math import exp, inf, log, pi
from types import SimpleNamespace

import numpy as np
import pytest
from judged_moves import (
    PRIORS,
    SEEN,
    atoms_of,
    log_base,
    log_jacobian,
    log_prior,
    moments,
    parts_of,
    place_of,
    proposals,
    split_of_correlated,
    split_of_normals,
)
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import beta, gamma, invgamma, laplace, multivariate_normal, norm
from walks_of_the_prior import (
    CATEGORIES,
    CORRELATED,
    FINITE,
    FIXED,
    POWER_LAW,
    Channel,
    add_up,
    plain,
    start,
)

from sklearn_dpmix._base.linear import try_factor
from sklearn_dpmix.kernels import BetaKernel, ConvolvedNormalKernel
from sklearn_dpmix.samplers.mixture.measure import (
    _categorical_atoms,
    _correlated_atoms,
    _hidden_variances,
    _masses,
    _outside,
    _parts,
    _slides,
    _splits,
    _steps,
    _trades,
)
from sklearn_dpmix.samplers.mixture.measure._beta_atoms import BetaChart
from sklearn_dpmix.samplers.mixture.measure._convolved_atoms import ConvolvedNormalChart
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import (
    CONCENTRATION,
    CUT,
    LARGEST,
    N_ATOMS,
    N_DUST,
    OUTSIDE,
    OUTSIDE_A,
    OUTSIDE_B,
    TILT,
    TOTAL,
)

__all__ = ["plain"]


@pytest.mark.parametrize("features", [1, 2, CATEGORIES, *CORRELATED])
def test_base_measures_have_their_density(features):
    value, law = parts_of(features, FIXED)
    for i in range(8):
        walk = start(features, FIXED, 0, i).copy(law)
        for k, atom in enumerate(atoms_of(walk)[:3]):
            assert value.log_base(walk, k) == pytest.approx(log_base(features, *atom[1:]), abs=SEEN)


def test_base_measure_of_beta_atoms_has_its_density():
    """Shapes are cut off where nothing is seen of it."""
    kernel = BetaKernel(shape=1.7, rate=0.6)._lower(n_features=1)
    walk = SimpleNamespace(atoms=[0.5, log(0.8), log(2.5)], width=3)
    expected = sum(gamma.logpdf(one, 1.7, scale=1.0 / 0.6) + log(one) for one in (0.8, 2.5))
    assert BetaChart.log_base(SimpleNamespace(kernel=kernel), walk, 0) == pytest.approx(expected, abs=SEEN)


@pytest.mark.parametrize("log_variance", [0.1, 0.3, 1.1])
def test_base_measure_of_convolved_atoms_has_its_density(log_variance):
    """The total variance is above the noise's, which the constant knows."""
    kernel = ConvolvedNormalKernel(0.3, 0.6, 2.5, 1.9)._lower(n_features=1, noise_scale=1.1)
    chart = ConvolvedNormalChart(kernel, 1)
    fields = SimpleNamespace(**chart.fields())
    variance = exp(log_variance)
    total = invgamma(2.5, scale=1.9)
    expected = norm.logpdf(0.8, 0.3, (variance / 0.6) ** 0.5) + total.logpdf(variance) + log_variance
    expected = expected - total.logsf(1.21) if variance > 1.21 else -inf
    walk = SimpleNamespace(atoms=[0.5, 0.8, log_variance], width=3)
    assert ConvolvedNormalChart.log_base(fields, walk, 0) == pytest.approx(expected, abs=SEEN)


# --- masses, births, parts and splits --------------------------------------------------------------------------------


MIXINGS = [FIXED, *FINITE, POWER_LAW]


@pytest.mark.parametrize("mixing", MIXINGS, ids=str)
def test_births_and_deaths(mixing, monkeypatch):
    """A birth has density G0/T in (log J, θ), T the range of log J; of the atoms any may die."""
    ways = set()
    for seen in proposals(monkeypatch, _masses, _masses.bear_or_kill, mixing=mixing):
        (new,) = seen.more
        of_birth = log_base(1, *new[1:]) - log(log(LARGEST / seen.walk.law[CUT]))
        assert seen.beyond == pytest.approx(-log(len(seen.kept) + 1.0) - of_birth, abs=SEEN)
        ways.add(seen.is_up)
    assert ways == {False, True}


@pytest.mark.parametrize("mixing", MIXINGS, ids=str)
@pytest.mark.parametrize("name", ["move_mass", "change_mass"])
def test_moves_of_masses(name, mixing, monkeypatch):
    """They are as likely backwards, in log J and in log(J_j/J_k)."""
    move, found = getattr(_masses, name), []
    for seen in proposals(monkeypatch, _masses, lambda rng, channel, chart, walk: move(rng, walk), mixing=mixing):
        found.append(abs(seen.beyond))
    assert len(found) > 20 and max(found) < SEEN


@pytest.mark.parametrize(("features", "mixing"), [(2, FIXED), *((1, mixing) for mixing in MIXINGS)], ids=str)
def test_parts_and_joins(features, mixing, monkeypatch):
    """A part is log-uniform and goes to G0, or near, by a width or a quarter of it."""
    ways = set()
    for seen in proposals(monkeypatch, _parts, _parts.part_or_join, features, mixing):
        (whole,), (rest, part), cut, n = seen.fewer, seen.more, seen.walk.law[CUT], len(seen.kept) + 1
        apart = np.subtract(part[1:], whole[1:])
        near = np.array([seen.chart.near(seen.walk, e) for e in range(1, seen.walk.width)])
        density = 0.5 * exp(log_base(features, *part[1:]))
        density += 0.25 * np.prod(norm.pdf(apart, 0.0, near)) + 0.25 * np.prod(norm.pdf(apart, 0.0, 0.25 * near))
        forth = log(density) - log(log((whole[0] - cut) / cut)) - log(n)

        def masses(x):
            return np.array([log(exp(x[0]) - exp(x[1])), x[1]])

        jacobian = log_jacobian(masses, np.log([whole[0], part[0]]), min(1.0, rest[0] / whole[0], rest[0] / part[0]))
        assert seen.beyond == pytest.approx(jacobian - log((n + 1.0) * n) - forth, abs=SEEN)
        ways.add(seen.is_up)
    assert ways == {False, True}


@pytest.mark.parametrize(
    ("features", "mixing"), [*((one, FIXED) for one in (2, *CORRELATED)), *((1, mixing) for mixing in MIXINGS)], ids=str
)
def test_splits_and_merges(features, mixing, monkeypatch):
    ways, split = set(), split_of_correlated if features in CORRELATED else split_of_normals
    for seen in proposals(monkeypatch, _splits, _splits.split_or_merge, features, mixing, n=40):
        (whole,), (one, other), least = seen.fewer, sorted(seen.more, key=lambda atom: atom[1]), seen.least
        after, share = [*seen.kept, one, other], one[0] / whole[0]
        walk, n = seen.walk.copy(seen.walk.masses), len(after)
        walk.atoms[: n * walk.width] = np.ravel(after).tolist()
        affinity = [[seen.chart.affinity(walk, i, j) if i != j else 0.0 for j in range(n)] for i in (n - 2, n - 1)]
        back = affinity[0][-1] / n * (1.0 / sum(affinity[0]) + 1.0 / sum(affinity[1]))
        jacobian, forth = split(whole, one, other)
        forth += log(0.5 + 0.5 / (pi * np.sqrt(share * (1.0 - share))))
        forth -= log(sum(atom[0] > least for atom in [*seen.kept, whole]))
        assert seen.beyond == pytest.approx(jacobian + log(back) - forth, abs=SEEN)
        ways.add(seen.is_up)
    assert ways == {False, True}


@pytest.mark.parametrize("mixing", [FIXED, FINITE[0]], ids=str)
def test_parts_and_joins_of_categories(mixing, monkeypatch):
    """A part goes anywhere, and the shares of the rest make up for it; the sum of the γ stays."""

    def rest_of(x):
        both, mass, places = exp(x[0]), exp(x[1]), np.exp(x[2:]).reshape(2, 2, 3)
        shares = places / places.sum(axis=2, keepdims=True)
        rest = (both * shares[0] - mass * shares[1]) / (both - mass) * places[0].sum(axis=1, keepdims=True)
        return np.hstack([log(both - mass), x[1], np.log(rest).ravel(), x[8:]])

    def part(rng, channel, chart, walk):
        chart.split(rng, channel, walk)

    ways = set()
    for seen in proposals(monkeypatch, _categorical_atoms, part, CATEGORIES, mixing, n=200):
        (whole,), (rest, part), cut, n = seen.fewer, seen.more, seen.walk.law[CUT], len(seen.kept) + 1
        x = np.hstack([np.log([whole[0], part[0]]), whole[1:], part[1:]])
        reached = rest_of(x)
        assert np.allclose(reached[2:8], rest[1:])
        forth = log_base(CATEGORIES, *part[1:]) - log(log((whole[0] - cut) / cut)) - log(n)
        room = min(1.0, np.exp(reached[2:8] - x[2:8]).min(), rest[0] / whole[0])
        jacobian = log_jacobian(rest_of, x, room)
        assert seen.beyond == pytest.approx(jacobian - log((n + 1.0) * n) - forth, abs=SEEN)
        ways.add(seen.is_up)
    assert ways == {False, True}


# --- steps -----------------------------------------------------------------------------------------------------------


def log_langevin(move, gradient, metric, length):
    """Log density of a Langevin step."""
    covariance = np.linalg.inv(metric)
    return multivariate_normal.logpdf(move, 0.5 * length**2 * covariance @ gradient, length**2 * covariance)


def whole_metric(walk, n):
    lower = np.array([[walk.metric[i][j] if j <= i else 0.0 for j in range(n)] for i in range(n)])
    return lower + np.tril(lower, -1).T


@pytest.mark.parametrize(("features", "mixing"), [(2, FIXED), *((1, mixing) for mixing in MIXINGS)], ids=str)
def test_steps(features, mixing, monkeypatch):
    """Gradient and metric may be anything that depends on where the walk is alone."""
    geometry, lengths, ratios, moves, rng = [], [], [], [], np.random.default_rng(5)

    def try_factor_of(metric, n, old=_steps.try_factor):
        lower = np.tril(np.array([[metric[i][j] for j in range(n)] for i in range(n)]))
        geometry.append((list(walk.gradient[:n]), lower + np.tril(lower, -1).T))
        return old(metric, n)

    def draw_move(rng, walk, n, length, old=_steps.draw_move):
        found = old(rng, walk, n, length)
        lengths.append(length)
        moves.append(list(walk.move[:n]))
        return found

    def accepts(rng, ratio):
        ratios.append(ratio)
        return False

    for name, function in {"try_factor": try_factor_of, "draw_move": draw_move, "accepts": accepts}.items():
        monkeypatch.setattr(_steps, name, function)
    (chart, law), n_seen = parts_of(features, mixing), 0
    for i in range(60):
        walk = start(features, mixing, 0, i).copy(law)
        add_up(walk)
        for found in (geometry, lengths, ratios, moves):
            found.clear()
        before, n = atoms_of(walk), int(walk.law[N_ATOMS])
        k, other = int(rng.random() * n), int(rng.random() * n)
        walk.fence[_steps.LEAST], walk.fence[_steps.AXIS], walk.fence[_steps.LIMIT] = 0.0, 1.0, 1e300
        chart.choose_moving(rng, walk)
        _steps.step(rng, Channel(), chart, walk, k, other)
        if not ratios:
            continue
        after, trial = list(before), 2 * walk.capacity
        after[k] = walk.atoms[trial * walk.width : (trial + 1) * walk.width]
        if other != k:
            after[other] = walk.atoms[(trial + 1) * walk.width : (trial + 2) * walk.width]
        move = np.array(moves[0])
        expected = log_prior(features, mixing, walk, after) - log_prior(features, mixing, walk, before)
        expected += log_langevin(-move, *geometry[1], lengths[0]) - log_langevin(move, *geometry[0], lengths[0])
        assert ratios[0] == pytest.approx(expected, abs=SEEN)
        n_seen += 1
    assert n_seen > 20


def test_a_step_is_drawn_with_the_density_that_is_used():
    """One that normal numbers of zero give is its mean, and all of them have its covariance."""
    rng = np.random.default_rng(0)
    root, gradient = rng.standard_normal((3, 3)), rng.standard_normal(3)
    metric = root @ root.T + np.eye(3)

    def drawn(numbers):
        walk = SimpleNamespace(metric=metric.copy(), gradient=gradient.copy(), move=np.zeros(3))
        try_factor(walk.metric, 3)
        left = iter(numbers)
        _steps.draw_move(SimpleNamespace(standard_normal=lambda: next(left)), walk, 3, 0.9)
        return walk.move

    mean = drawn(np.zeros(3))
    spread = np.array([drawn(one) - mean for one in np.eye(3)])
    assert mean == pytest.approx(0.5 * 0.9**2 * np.linalg.solve(metric, gradient))
    assert spread.T @ spread == pytest.approx(0.9**2 * np.linalg.inv(metric))


# --- moves of all atoms, or of one by much ---------------------------------------------------------------------------


@pytest.mark.parametrize("features", [1, 2])
def test_slides(features, monkeypatch):
    proposed, ratios, rng, (chart, law) = [], [], np.random.default_rng(5), parts_of(features, FIXED)

    def log_proposal(walk, length, shift, spread, old=_slides.log_proposal):
        proposed.append(([shift, spread], list(walk.gradient[:2]), whole_metric(walk, 2), length))
        return old(walk, length, shift, spread)

    def accepts(rng, ratio):
        ratios.append(ratio)
        return False

    monkeypatch.setattr(_slides, "log_proposal", log_proposal)
    monkeypatch.setattr(_slides, "accepts", accepts)
    n_seen = 0
    for i in range(60):
        walk = start(features, FIXED, 0, i).copy(law)
        add_up(walk)
        proposed.clear(), ratios.clear()
        before = np.array(atoms_of(walk))
        _slides.slide(rng, Channel(), chart, walk)
        if not ratios:
            continue
        after, (forth, back) = np.array(atoms_of(walk, 2 * walk.capacity)), proposed[1:]
        moved = np.flatnonzero((before != after).any(axis=1))
        e = int(np.flatnonzero((before != after).any(axis=0))[0])
        centre = walk.law[_slides.PER_FEATURE + 3 * (e // 2) + _slides.CENTRE]

        def slid(x, centre=centre):
            shift, spread = x[:2]
            return np.hstack([-shift * exp(-spread), -spread, centre + shift + exp(spread) * (x[2:] - centre)])

        x = np.append(forth[0], before[moved, e])
        assert slid(x) == pytest.approx(np.append(back[0], after[moved, e]))
        expected = log_prior(features, FIXED, walk, after.tolist()) - log_prior(features, FIXED, walk, before.tolist())
        expected += log_langevin(*back) - log_langevin(*forth) + log_jacobian(slid, x)
        assert ratios[0] == pytest.approx(expected, abs=SEEN)
        n_seen += 1
    assert n_seen > 20


@pytest.mark.parametrize("features", [1, 2])
def test_rescaling(features, monkeypatch):
    """Of an atom's μ - m and σ by one factor, whose log is as likely negative."""
    n_seen = 0
    for seen in proposals(monkeypatch, _slides, _slides.rescale, features):
        (old,), (new,) = seen.fewer, seen.more
        e = int(np.flatnonzero(np.not_equal(old, new))[0])
        size, mean = 0.5 * (new[e + 1] - old[e + 1]), PRIORS[0, e // 2]

        def rescaled(x, mean=mean):
            return np.array([mean + exp(x[2]) * (x[0] - mean), x[1] + 2.0 * x[2], -x[2]])

        x = np.array([old[e], old[e + 1], size])
        assert rescaled(x)[:2] == pytest.approx(new[e : e + 2])
        assert seen.beyond == pytest.approx(log_jacobian(rescaled, x), abs=SEEN)
        n_seen += 1
    assert n_seen > 20


# --- masses outside, and lines in the masses of categories -----------------------------------------------------------


def test_mass_outside():
    """Its share γ = J₀/(J₀ + S) is of a beta law, whatever the total S is, and J₀ is moved in its log."""
    law = parts_of(1, FIXED)[1]
    walk = start(1, FIXED, 0, 0).copy(law)
    add_up(walk)
    walk.law[OUTSIDE], walk.law[OUTSIDE_A], walk.law[OUTSIDE_B] = 0.3, 1.7, 2.4

    def density(total, outside):
        share = outside / (outside + total)
        value = beta.logpdf(share, 1.7, 2.4) + log(share * (1.0 - share))
        return value + TILT * log(total) - (TILT + 1.0) * total

    for new, total in ((0.5, 1.1), (0.1, walk.law[TOTAL]), (4.0, 0.7)):
        expected = density(total, new) - density(walk.law[TOTAL], 0.3)
        assert _outside.log_outside(walk, new, total) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("mixing", [FIXED, FINITE[0]], ids=str)
def test_trades(mixing, monkeypatch):
    """Along lines in M_c = J π_c of a question, with the sums of the γ."""
    seen, rng, (chart, law) = [], np.random.default_rng(5), parts_of(CATEGORIES, mixing)

    def step_along(rng, chart, walk, n, least, step, more, old=_trades.step_along):
        found = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_trades, "take_outside", lambda rng, walk, new, total, ratio: bool(found.append(ratio)))
            walk.law[OUTSIDE] = 1.0  # nothing of it moves
            old(rng, chart, walk, n, least, step, more)
        if found:
            masses = np.array([[walk.metric[i][c] for c in range(3)] for i in range(n)])
            change = step * np.outer(walk.move[:n], walk.gradient[:3])
            seen.append((found[0], masses, masses - change))
        return False

    def density(masses):
        """Log density of an atom of these masses of categories; that of the sum of the γ stays the same."""
        x = np.append(masses, 1.3)

        def atom(x):
            return np.append(log(x[:3].sum()), np.log(x[3] * x[:3] / x[:3].sum()))

        eta = atom(x)[1:]
        shape = mixing.concentration if mixing in FINITE else 0.0
        value = np.sum(gamma.logpdf(np.exp(eta), 0.8) + eta) + shape * log(masses.sum())
        return value + log_jacobian(atom, x, np.append(masses, 1.0))

    monkeypatch.setattr(_trades, "step_along", step_along)
    monkeypatch.setattr(_trades, "AMONG", 1.0)
    for i in range(60):
        walk = start(CATEGORIES, mixing, 0, i).copy(law)
        add_up(walk)
        walk.roots = [1.0]
        _trades.trade(rng, Channel(), chart, walk)
    assert len(seen) > 20 and any(abs(ratio) > 0.1 for ratio, *_ in seen)
    for ratio, before, after in seen:
        assert ratio == pytest.approx(sum(map(density, after)) - sum(map(density, before)), abs=SEEN)


@pytest.mark.parametrize("features", CORRELATED)
def test_shifts_and_spreads_of_correlated_atoms(features, monkeypatch):
    """A feature is rescaled about the prior's mean, in all atoms that move; the step is as likely backwards."""
    ratios, rng, d, (chart, law) = [], np.random.default_rng(5), CORRELATED[features], parts_of(features, FIXED)
    monkeypatch.setattr(_correlated_atoms, "accepts", lambda rng, ratio: bool(ratios.append(ratio)))
    n_seen = 0
    for i in range(12):
        walk = start(features, FIXED, 0, i).copy(law)
        add_up(walk)
        ratios.clear()
        before = np.array(atoms_of(walk))
        _correlated_atoms.shift_or_spread(rng, Channel(), chart, walk)
        after = np.array(atoms_of(walk, 2 * walk.capacity))
        moved = np.flatnonzero((before != after).any(axis=1))
        if not ratios or not len(moved):
            continue
        expected = log_prior(features, FIXED, walk, after.tolist()) - log_prior(features, FIXED, walk, before.tolist())
        for k in moved:
            grown = after[k, 2 : 1 + 2 * d : 2] - before[k, 2 : 1 + 2 * d : 2]

            def spread(x, grown=grown):
                mean, covariance = moments(x, d)
                return place_of(np.exp(grown) * mean, covariance * np.exp(grown[:, None] + grown))

            expected += log_jacobian(spread, before[k, 1:])
        assert ratios[0] == pytest.approx(expected, abs=SEEN)
        n_seen += 1
    assert n_seen > 5


# --- what is drawn given all else ------------------------------------------------------------------------------------


def test_time_of_a_power_law_given_all_masses():
    """A gamma law: its shape counts the masses, its rate is 1 and what is expected of them for a time of 1."""
    law, discount = parts_of(1, POWER_LAW)[1], POWER_LAW.discount
    walk = start(1, POWER_LAW, 0, 0).copy(law)
    low = log(walk.law[CUT]) - law.dust_range
    expected = quad(lambda t: exp(-discount * t - exp(t)), low, 5.0, epsabs=1e-10, limit=200)[0]
    rate = 1.0 + discount / exp(gammaln(1.0 - discount)) * expected
    law.draw_time(SimpleNamespace(standard_gamma=lambda shape: shape), walk)
    shape = POWER_LAW.concentration / discount + walk.law[N_ATOMS] + walk.law[N_DUST]
    assert walk.law[CONCENTRATION] == pytest.approx(shape / rate, rel=1e-4)


@pytest.mark.parametrize("x", [0.4, -0.7, 1.9])
@pytest.mark.parametrize("z", [0.3, 1.6])
def test_kept_variances(x, z):
    """z and a variance in units of the noise's scale are kept with the share of κ q(z | x) in q(z | c)."""
    low, high, scale = 0.0, 1.0, 0.5
    found = []
    channel = SimpleNamespace(
        low=[low],
        high=[high],
        log_noise=lambda e, scale: laplace.logpdf(e, scale=scale),
        draw_variance=lambda rng, e: found.append(e) or 3.0,
    )
    nodes = [z, 1.0 / scale]
    share = exp(laplace.logpdf(z, x, scale) - laplace.logpdf(z, np.clip(x, low, high), scale))
    share *= exp(laplace.logpdf(z - np.clip(z, low, high), scale=scale) - laplace.logpdf(0.0, scale=scale))
    for u, is_kept in ((0.99 * share, True), (1.01 * share, False)):
        walk = SimpleNamespace(n_nodes=1, nodes=nodes, records=[0.0, 0.0], n_features=1)
        _hidden_variances.keep(SimpleNamespace(random=lambda u=u: 1.0 - u), channel, walk, 0, 0, x)
        assert walk.records == pytest.approx([z, 3.0 * scale**2] if is_kept or share >= 1.0 else [x, 0.0])
    assert found[0] == pytest.approx((z - x) / scale)
