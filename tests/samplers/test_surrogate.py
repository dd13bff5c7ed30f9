"""Moves on a grid of releases: enumeration where clusters of one record take part, agreement, twins, refusals."""

import numpy as np
import pytest
from exact_twins import (
    CorrectedTheWrongWayRound,
    DoubledConcentrationOnTheGrid,
    ImputedFromTheKernel,
    LaplaceWithoutFlatPieces,
    SurrogateOfFew,
    SurrogateOnAFineGrid,
    Uncorrected,
)
from statistical import Disagreement, assert_means_agree
from test_exact import CASES, check

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import PitmanYor
from sklearn_dpmix.samplers import Auto, Interweaved, JainNeal, MixingMeasure, Neal8, Surrogate

FEW = {"n_split_merge": 1, "n_moves": 20}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clamped", pytest.param("unclamped", marks=pytest.mark.nightly)])
def test_posterior_is_exact(name):
    """Catches a wrong target of the walk, of the step that corrects it, or of the records drawn after it."""
    check("auto", "laplace", 1, name, sampler=SurrogateOfFew(**FEW))


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", [SurrogateOfFew, SurrogateOnAFineGrid])
@pytest.mark.parametrize("channel", ["laplace", "gaussian", "pitman-yor", "finite"])
def test_posteriors_are_exact(channel, sampler):
    """The same for all noise and priors, where the grid gets much wrong and where it hardly does."""
    for seed, (name, case) in enumerate(CASES[channel, 1].items()):
        if np.ndim(case.scale) == 0:
            check("auto", channel, 1, name, seed=seed, sampler=sampler(**FEW))


@pytest.mark.slow
@pytest.mark.parametrize(
    "twin",
    [
        {"sampler": Uncorrected(**FEW)},
        pytest.param({"sampler": CorrectedTheWrongWayRound(**FEW)}, marks=pytest.mark.nightly),
        pytest.param({"sampler": DoubledConcentrationOnTheGrid(**FEW)}, marks=pytest.mark.nightly),
        pytest.param({"laplace": ImputedFromTheKernel}, marks=pytest.mark.nightly),
        pytest.param({"laplace": LaplaceWithoutFlatPieces}, marks=pytest.mark.nightly),
    ],
    ids=lambda twin: str(*twin.values()),
)
def test_broken_twins_are_rejected(twin):
    """Catches a comparison that would not see a mistake of these moves, which the rest of the sweep would hide."""
    with pytest.raises(Disagreement):
        check("auto", "laplace", 1, "clamped", **{"sampler": SurrogateOnAFineGrid(**FEW)} | twin)


BOUNDS = (-6.0, 7.0)


class SurrogateOfHundreds(Surrogate):
    """With moves at every other sweep."""

    share = 0.5


def summaries(sampler, thin, scale=3.0):
    """Draws of (number of clusters, its square, log densities) given 400 records, two groups of them overlapping."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(-2.5, 0.7, 180), rng.normal(0.0, 1.2, 120), rng.normal(5.0, 1.0, 100)])[:, None]
    mechanism = LaplaceMechanism(20.0, bounds=BOUNDS)
    model = PrivateDPMixture(
        mechanism,
        kernel=NormalKernel(0.3, 0.2, 3.0, scale),
        sampler=sampler,
        n_warmup=1000,
        n_draws=4000,
        thin=thin,
        n_jobs=2,
        random_state=0,
    ).fit(mechanism.privatize(X, random_state=1))
    k = model.n_clusters_draws_[..., None]
    return np.concatenate([k, k**2, np.log(model.density_draws([[-4.0], [-1.2], [1.0], [5.0]]))], axis=-1)


@pytest.mark.nightly
def test_samplers_agree():
    """Catches a wrong share of the clusters that are too small to take part, which four records do not show."""
    ours, theirs = summaries(SurrogateOfHundreds(n_moves=50), 3), summaries(Neal8(), 5)
    assert_means_agree(ours, theirs, what="surrogate and neal8")
    with pytest.raises(Disagreement):
        assert_means_agree(summaries(SurrogateOfHundreds(n_moves=50), 3, scale=4.0), theirs)


def test_what_it_does_not_take():
    """Catches parts that it would be wrong for, which nothing else would show."""
    each = LaplaceMechanism(np.array([1.0, 2.0]), bounds=BOUNDS)
    for mechanism in (None, each, DiscreteLaplaceMechanism(1.0, bounds=(0, 5))):
        with pytest.raises(ValueError, match="additive noise of one scale for all records"):
            PrivateDPMixture(mechanism, sampler="surrogate").fit([[1.0], [2.0]])
    for wrong in ({"n_moves": 0}, {"min_records": 1.5}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a positive integer"):
            PrivateDPMixture(LaplaceMechanism(1.0, bounds=BOUNDS), sampler=Surrogate(**wrong)).fit([[1.0], [2.0]])


def test_auto_takes_it_for_many_records_of_one_feature():
    """Catches a choice that compiles longer where it gains nothing, or that is not made where it gains."""
    common, each = (LaplaceMechanism(scale, bounds=BOUNDS) for scale in (1.0, np.array([1.0, 2.0])))
    kernel, mixing = NormalKernel(0.0, scale=1.0), PitmanYor()  # a Dirichlet process is for ``MixingMeasure``
    chosen = Auto().resolve(common, kernel, mixing)
    sizes = ((2999, 1), (3000, 2), (3000, 1))
    assert [type(chosen.sized(*size)) for size in sizes] == [Interweaved, Interweaved, Surrogate]
    assert [type(JainNeal(chosen).sized(*size).sampler) for size in sizes] == [Interweaved, Interweaved, Surrogate]
    assert type(Auto().resolve(each, kernel, mixing)) is Interweaved
    assert type(Auto().resolve(each, kernel).sized(3000, 1)) is MixingMeasure
    chosen = Auto().resolve(common, kernel)
    found = [type(chosen.sized(*size)) for size in ((3000, 1), (50_000, 2), (50_001, 2), (5000, 3), (5001, 3), (9, 4))]
    assert found == [MixingMeasure, MixingMeasure, Interweaved, MixingMeasure, Interweaved, Interweaved]
