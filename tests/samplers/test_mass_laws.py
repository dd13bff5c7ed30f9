"""What the masses of a walk over mixing measures have at random besides those above the cut, and how many there are."""

from math import exp, expm1, lgamma, log

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import exp1
from statistical import Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix._base.compiled import Component, compiled, entry, lower
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers.mixture.measure._dirichlet_masses import DirichletMasses
from sklearn_dpmix.samplers.mixture.measure._finite_masses import FiniteMasses
from sklearn_dpmix.samplers.mixture.measure._masses import bear_or_kill, change_mass, move_mass
from sklearn_dpmix.samplers.mixture.measure._pitman_yor_masses import PitmanYorMasses
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import CUT, DUST_RANGE, N_ATOMS, PER_FEATURE, TILT
from sklearn_dpmix.samplers.mixture.measure._walk_likelihood import refresh
from sklearn_dpmix.samplers.mixture.measure._walk_state import Walk, new_state


class NoPlaces(Component):
    """A chart whose atoms have no place, and of which the records say nothing."""

    @compiled
    def draw_base(self, rng, walk, k):
        pass

    @compiled
    def fill(self, channel, walk, k):
        pass


@entry
def walk_over_masses(chart, walk, rng, kept):
    """Draws from the prior of what is random besides the masses."""
    for t in range(len(kept)):
        refresh(walk)
        for _ in range(4):
            change_mass(rng, walk)
            move_mass(rng, walk)
            bear_or_kill(rng, chart, chart, walk)
            walk.masses.renew(rng, chart, chart, walk)
        kept[t] = walk.masses.kept(walk)


def walk_of(masses, cut):
    """A walk over masses alone."""
    state, law, (n, value) = new_state(1, 256), np.zeros(PER_FEATURE), masses.start(3)
    state.mass[:n], state.ints[N_ATOMS], state.floats[0] = 1.0 / n, n, value
    law[CUT] = cut
    walk = Walk.of(state, np.zeros((2, 1)), np.zeros((1, 1)), law, masses.value())
    walk.tables[:] = 1.0
    return walk


def draws_from_the_prior(masses, cut, n_draws):
    """(One chain, draws)."""
    kept = np.zeros(n_draws)
    walk_over_masses(lower(NoPlaces, {}), walk_of(masses, cut), np.random.default_rng(0), kept)
    return kept[None]


class FromNone(FiniteMasses):
    """Twin: no component is hidden where none has to be, also if the prior excludes so few."""

    def fields(self):
        return super().fields() | {"least": 0.0}


def test_numbers_of_components_that_the_prior_excludes_do_not_occur():
    mixing, prior = MixtureOfFiniteMixtures(0.1, [0.0, 0.5, 0.5])._lower(), [0.0, 0.0, 0.5, 0.5]

    def check(masses):
        found = draws_from_the_prior(masses, masses.cut(100), 10_000).astype(np.int64)
        assert_pmf_close(found, prior, what="number of components")

    check(FiniteMasses(mixing))
    with pytest.raises(Disagreement):
        check(FromNone(mixing))


@pytest.mark.parametrize("prior", [[0.5] + 9 * [0.5 / 9], 0.1])
def test_few_components_have_their_probability_when_weights_are_very_unequal(prior):
    """Gamma variables of shape γM underflow here, which an end at 1e-300 would count as that (off by 11 %)."""
    gamma, n_clusters, n = 1e-3, 1, 20
    value, rng = MixtureOfFiniteMixtures(gamma, prior)._lower(), np.random.default_rng(0)
    m = np.arange(1, 1000)[: np.size(prior) if np.ndim(prior) else None]
    weights = np.exp([lgamma(gamma * k) - lgamma(gamma * k + n) + log(k) + lgamma(n) for k in m])
    weights *= prior if np.ndim(prior) else (1.0 - prior) ** m
    draws, found = np.zeros((1, 12_000), np.int64), value.draw_start(rng)
    for t in range(draws.size):
        found = value.update_concentration(rng, found, n_clusters, n)
        draws[0, t] = found
    pmf = np.append(0.0, weights / weights.sum())
    assert_pmf_close(draws, pmf, what="number of components")


@pytest.mark.parametrize("discount", [0.1, 0.3])
def test_time_of_a_power_law_has_its_density_given_masses_above_a_place(discount):
    """Masses below are proposed without their e⁻ᴶ, which is in the law of the total."""
    masses, time = PitmanYorMasses(PitmanYor(1.5, discount)._lower()), np.array([0.5, 4.0, 30.0])
    for n_records in (30, 10**6):
        walk = walk_of(masses, masses.cut(n_records))  # over three thirds
        low = log(walk.law[CUT]) - masses.dust_range
        for top, n_above in ((walk.law[CUT], 3), (0.1, 3), (1.0, 0)):
            rest = quad(lambda t: exp(-discount * t) * expm1(-exp(t)), low, log(top), epsabs=1e-10, limit=200)[0]
            rest += quad(lambda t: exp(-discount * t - exp(t)), log(top), 5.0, epsabs=1e-10)[0]
            expected = (1.5 / discount + n_above) * np.log(time) - time * (1.0 + masses.intensity * rest)
            found = [walk.masses.log_given_above(walk, one, top) for one in time]
            assert np.diff(found) == pytest.approx(np.diff(expected), abs=1e-4)


def test_concentration_has_its_density_given_masses_and_dust():
    """The dust's e⁻ᴶ is in the law of the total, so its number is expected without: E1(v) - log(u/v), and not E1(u)."""
    masses = DirichletMasses(DirichletProcess(None, (1.5, 0.3))._lower())
    for n_records in (1, 30, 10**6):
        walk = walk_of(masses, masses.cut(n_records))
        low, found, expected = walk.law[CUT] * np.exp(-DUST_RANGE), [], []
        for a in (0.1, 1.0, 25.0):
            found.append(walk.masses.log_given_above(walk, a, walk.law[CUT]))
            density = (1.5 + walk.law[N_ATOMS]) * log(a) - 0.3 * a - a * (exp1(low) - DUST_RANGE)
            expected.append(density + lgamma(a) - lgamma(a + TILT) + a * log(1.0 + TILT))
        assert np.diff(found) == pytest.approx(np.diff(expected), abs=1e-7)


class TwiceTheDust(DirichletMasses):
    """Twin: what is expected of the dust is taken off twice, as it was: with a cut of 0.05."""

    def fields(self):
        fields = super().fields()
        return fields | {"prior_rate": fields["prior_rate"] + 0.05 * (1.0 - np.exp(-DUST_RANGE))}


def test_concentration_has_its_prior_where_nothing_is_known():
    """With a cut so high that the dust matters."""
    mixing = DirichletProcess(None, (2.0, 1.0))._lower()
    assert_mean_close(draws_from_the_prior(DirichletMasses(mixing), 0.05, 50_000), 2.0, what="concentration")
    with pytest.raises(Disagreement):
        assert_mean_close(draws_from_the_prior(TwiceTheDust(mixing), 0.05, 50_000), 2.0, what="concentration")


@pytest.mark.parametrize("concentration, discount", [(1.0, 0.25), (1.0, 0.01), (5.0, 0.003), (5.0, 1e-6)])
def test_expected_number_of_masses(concentration, discount):
    """By quadrature; without e⁻ᴶ it would grow like 1/discount, and the walk be refused for some 80 masses."""
    masses = PitmanYorMasses(PitmanYor(concentration, discount)._lower())
    low = masses.cut(10_000) * np.exp(-masses.dust_range)
    number, _ = quad(lambda t: np.exp(-discount * t - np.exp(t)), np.log(low), 5.0, epsabs=0, epsrel=1e-10)
    assert masses.n_expected(10_000) == pytest.approx(concentration / discount * masses.intensity * number, rel=1e-8)
    masses.check("mixing_measure", 10_000)


def test_a_small_discount_goes_on_from_a_checkpoint():
    """The time for which a Pitman–Yor process runs is about concentration/discount, which has no limit."""
    masses, fresh = PitmanYorMasses(PitmanYor(1.0, 1e-6)._lower()), new_state(2)
    fresh.ints[N_ATOMS], fresh.floats[0] = masses.start(1)
    state = fresh.restored(fresh, 0)
    masses.check_random(PitmanYor(1.0, 1e-6), state.floats[0], 1)
    for wrong in (0.0, np.inf):
        with pytest.raises(ValueError, match="not positive and finite"):
            masses.check_random(PitmanYor(1.0, 1e-6), wrong, 1)
    with pytest.raises(ValueError, match="floats has numbers that are not from 0 to 16384"):
        DirichletMasses(DirichletProcess(None, (1.0, 1.0))._lower()).check_random(
            DirichletProcess(None, (1.0, 1.0)), 1e5, 1
        )
