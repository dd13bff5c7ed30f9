"""Releases of worst-case neighbours: what the law says of them, what draws show, and twins with too little noise."""

import dataclasses
import zlib

import numpy as np
import pytest
from sklearn.base import clone

import sklearn_dpmix
from sklearn_dpmix import mechanisms, queries
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism

from .case_list import BASES, QUICK, all_cases, opendp_cases
from .cases import TOO_SMALL, Additive, with_scale

NIGHTLY = pytest.mark.nightly
CASES = list(all_cases())
MARKED = [pytest.param(name, marks=() if name in QUICK else NIGHTLY) for name in CASES]


def generator(name, what=0):
    """A generator of the case's own: seeded by its name."""
    return np.random.default_rng([zlib.crc32(name.encode()), what])


def test_everything_that_releases_has_a_case():
    """Catches a mechanism or query that is added without one, and a name that is no more."""
    covered = set().union(*(case.covers for case in all_cases().values())) | {"from_opendp"}
    public = {*mechanisms.__all__, *queries.__all__}
    assert public - covered == BASES & public == BASES
    assert "OnePosteriorSampling" in covered and hasattr(sklearn_dpmix, "OnePosteriorSampling")


@pytest.mark.parametrize("name", MARKED)
def test_a_release_keeps_what_is_stated(name):
    """Catches a log ratio or δ above what ``guarantee()`` says, by the law or the draws, and draws of another law."""
    finding = all_cases()[name].audit(generator(name))
    assert finding.is_kept, finding


@NIGHTLY
@pytest.mark.parametrize("index", range(3))
def test_a_release_by_opendp_keeps_what_is_stated(index):
    """The same of OpenDP's measurements and of ``secure=True``; OpenDP takes no seed."""
    pytest.importorskip("opendp")
    case = list(opendp_cases())[index]
    finding = case.audit(None)
    assert finding.is_kept, finding


@pytest.mark.parametrize("name", MARKED)
def test_a_twin_with_noise_a_tenth_too_small_is_found(name):
    """The same statement, another release."""
    case = all_cases()[name]
    finding = case.audit(generator(name, 1), case.weaker())
    assert not finding.is_kept, finding


# --- other broken twins ----------------------------------------------------------------------------------------------

TWO = ("Laplace, two features", "Gaussian, two features", "bounded records, replace",
       "regression moments, p=2, joint, replace")  # fmt: skip


@NIGHTLY
@pytest.mark.parametrize("name", TWO)
def test_a_twin_that_forgets_a_coordinate_in_its_sensitivity_is_found(name):
    """Noise for what all but one of the coordinates can move."""
    case = all_cases()[name]
    moved = np.abs(case.centre(case.first) - case.centre(case.second))
    norm = case.mechanism.norm
    share = np.linalg.norm(np.delete(moved, np.argmin(moved)), norm) / np.linalg.norm(moved, norm)
    finding = case.audit(generator(name, 2), with_scale(case.mechanism, share * case.scale()))
    assert share < 0.96 and not finding.is_kept, finding


@NIGHTLY
@pytest.mark.parametrize("name", TWO[:2])
def test_a_twin_that_clamps_after_the_noise_is_found(name):
    """Records outside the bounds then show through; so does the law."""
    case = all_cases()[name]

    def sample(mechanism, X, n, rng):
        bounds = mechanism.bounds_for(X.shape[1])
        noise = mechanism.draw_noise(rng, case.scale(), (n, X.shape[1]))
        return np.clip(X + noise, bounds[:, 0], bounds[:, 1])

    finding = case.audit(generator(name, 3), sample=sample)
    assert finding.draws > 2.0 * (finding.delta or finding.epsilon), finding


def unseeded(name):
    """Releases of the same data without a seed."""
    case = all_cases()[name]
    return case.sample(case.mechanism, case.first, 50, None)


def is_fresh(one, other):
    """Whether two releases of continuous noise share no number, and of integers not all of them."""
    return np.mean(one == other) < 0.9


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else NIGHTLY) for n in CASES])
def test_no_seed_is_kept(name):
    """Noise is new in each call, and NumPy's global state plays no part in it."""
    np.random.seed(0)  # noqa: NPY002
    one = unseeded(name)
    np.random.seed(0)  # noqa: NPY002
    other, again = unseeded(name), unseeded(name)
    assert is_fresh(one, other) and is_fresh(other, again)


def test_a_twin_that_keeps_a_seed_is_found():
    """One that draws all its noise from a seed of its own."""

    class Seeded(LaplaceMechanism):
        def privatize(self, X, *, random_state=None, secure=False):
            return super().privatize(X, random_state=0 if random_state is None else random_state)

    X = np.full((50, 1), 0.5)
    twin = Seeded(1.0, bounds=(0, 1))
    assert not is_fresh(twin.privatize(X), twin.privatize(X))


# --- what a statement leaves open ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LaplaceMechanism, GaussianMechanism])
def test_one_pair_of_bounds_states_nothing_for_a_number_of_features_that_it_does_not_know(kind):
    """``guarantee()`` refuses, or holds for all that ``privatize`` takes: three columns lose three times as much."""
    mechanism = kind(scale=1.0, bounds=(0, 1))
    three = Additive("", clone(mechanism), np.zeros((1, 3)), np.ones((1, 3)))
    known = mechanism.guarantee(3)
    try:
        stated = mechanism.guarantee()
    except ValueError as error:
        assert "n_features" in str(error)
    else:
        assert three.mechanism.privatize(three.first).shape == (1, 3)
        assert stated.rho >= known.rho
        if known.epsilon is not None:
            assert stated.epsilon >= three.from_law(known.epsilon, 0.0)
    if known.epsilon is not None:
        assert three.from_law(known.epsilon, 0.0) == pytest.approx(known.epsilon)


def test_the_figures_are_fields_of_a_finding():
    """A finding above what is stated is no finding of a kept promise, whichever number says so."""
    finding = all_cases()["randomised response"].audit(generator("", 4))
    assert finding.is_kept and finding.ratio == pytest.approx(1.0)
    for changed in ({"law": 1.01}, {"draws": 1.01}, {"fit": 1e-7}):
        assert not finding._replace(**changed).is_kept
    assert TOO_SMALL < 1.0 and not dataclasses.is_dataclass(finding)
