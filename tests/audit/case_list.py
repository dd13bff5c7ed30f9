"""Every mechanism and query, and the estimator whose draws are its release, with neighbours worth testing."""

from functools import cache
from itertools import product

import numpy as np
from scipy import stats

from sklearn_dpmix import OnePosteriorSampling
from sklearn_dpmix import mechanisms as m
from sklearn_dpmix import queries as q
from sklearn_dpmix.queries._query import RELATIONS

from .cases import Additive, Integers, neighbours
from .other_cases import (
    Answers,
    Bits,
    Bounds,
    Coins,
    DrawnFromHistogram,
    Elliptical,
    Finite,
    FromOpenDP,
    NoisyHistogram,
    OnePosterior,
    PublishedScale,
    Quantile,
    Secure,
    Smooth,
    Wavelets,
    Windows,
)

#: What releases nothing by itself: bases of mechanisms and queries, the channel of records without noise, a decorator.
BASES = {"AdditiveMechanism", "BinnedChannel", "NoNoise", "Query", "RecordChannel", "SmoothQuery", "compiled"}

FAR = 1e6  # records outside the bounds count as at the bound


def local_cases():
    """A record is released."""
    wide = {"first": [[-FAR, 5.0]], "second": [[FAR, -5.0]]}
    box = [(0.0, 1.0), (-2.0, 1.0)]
    yield Additive("Laplace, one feature", m.LaplaceMechanism(1.0, bounds=(0, 1)), [[-FAR]], [[FAR]])
    yield Additive("Laplace, two features", m.LaplaceMechanism(1.0, bounds=box), **wide)
    yield Additive("Laplace, rho", m.LaplaceMechanism(rho=0.5, bounds=box), **wide)
    given = m.LaplaceMechanism(scale=3.0, bounds=(0, 1))
    yield Additive("Laplace, scale, three features", given, [[9] * 3], [[-9] * 3])
    gauss = m.GaussianMechanism
    yield Additive("Gaussian, one feature", gauss(1.0, 0.01, bounds=(0, 1)), [[-FAR]], [[FAR]], noise="gaussian")
    yield Additive("Gaussian, two features", gauss(1.0, 0.01, bounds=box), **wide, noise="gaussian")
    classical = gauss(0.9, 0.01, bounds=(0, 1), calibration="classical")
    yield Additive("Gaussian, classical", classical, [[0]], [[1]], noise="gaussian")
    yield Additive("Gaussian, rho", gauss(rho=0.2, bounds=box), **wide, noise="gaussian")
    discrete = m.DiscreteLaplaceMechanism(1.0, bounds=[(0, 2), (-1, 2)])
    yield Integers("discrete Laplace, two features", discrete, [[-9, 9]], [[9, -9]])
    one, two = (m.DiscreteGaussianMechanism(1.0, 0.01, bounds=b) for b in ((0, 3), [(0, 2), (0, 1)]))
    yield Integers("discrete Gaussian, one feature", one, [[-9]], [[9]], noise="gaussian")
    yield Integers("discrete Gaussian, two features", two, [[0, 0]], [[2, 1]], noise="gaussian")
    yield Integers("discrete Gaussian, rho", m.DiscreteGaussianMechanism(rho=0.2, bounds=(0, 1)), [[0]], [[1]],
                   noise="gaussian")  # fmt: skip
    yield Finite("randomised response", m.RandomizedResponseMechanism(1.0, 4), [[0]], [[3]], 4)
    yield Finite("randomised response, two features", m.RandomizedResponseMechanism(2.0, 3), [[0, 1]], [[2, 2]], 3)
    yield Finite("binomial", m.BinomialMechanism(1.0, 3), [[-FAR]], [[FAR]], 4)
    yield Finite("binomial, two features", m.BinomialMechanism(1.0, 2), [[0, 0]], [[1, 1]], 3)
    kuk = m.FiniteChannelMechanism.kuk(0.7, 0.3, n_draws=2)
    yield Answers("finite channel, Kuk's cards", kuk, [[0]], [[1]], 3)
    designs = [m.FiniteChannelMechanism.warner(0.7).matrix, m.FiniteChannelMechanism.forced_response(0.2, 0.4).matrix]
    yield Answers("finite channel, two questions", m.FiniteChannelMechanism(designs), [[0, 0]], [[1, 1]], 2)
    for kind in ("optimised", "symmetric"):
        yield Bits(f"unary encoding, {kind}", m.UnaryEncodingMechanism(1.0, 3, kind), [[0]], [[2]])
    yield Windows("square wave", m.SquareWaveMechanism(1.0), [[-FAR]], [[FAR]])
    yield Windows("square wave, two features", m.SquareWaveMechanism(2.0, box), **wide)
    yield Windows("piecewise", m.PiecewiseMechanism(1.0), [[-FAR]], [[FAR]])
    yield Windows("piecewise, two features", m.PiecewiseMechanism(2.0, box), **wide)
    yield Coins("hybrid", m.HybridMechanism(1.0), [[-FAR]], [[FAR]])
    yield Coins("hybrid, two features", m.HybridMechanism(4.0, box), **wide)
    yield Wavelets("Haar", m.HaarWaveletMechanism(1.0, 1), [[0.1]], [[0.9]])
    yield Wavelets("Haar, butucea", m.HaarWaveletMechanism(8.0, 1, calibration="butucea"), [[0.1]], [[0.9]])


def curator_cases():
    """A statistic of all records is released."""
    laplace, gauss, integers = m.LaplaceMechanism, m.GaussianMechanism, m.DiscreteLaplaceMechanism
    box = [(0.0, 1.0), (-3.0, 1.0)]
    for relation in RELATIONS:
        words = relation.replace("_", "/")
        bounded = q.BoundedRecords(box, 2, neighbours=relation)
        grid = np.array(list(product([-9.0, 0.3, 9.0], repeat=2)))
        yield Additive(f"bounded records, {words}", laplace(1.0, query=bounded), *neighbours(bounded, grid, 1))
        counts = q.ClassFeatureCounts(2, [2, 3], neighbours=relation)
        cells = np.array(list(product(range(2), range(3), range(2))), dtype=float)
        yield Integers(f"class-feature counts, {words}", integers(1.0, query=counts), *neighbours(counts, cells, 1))
        for p, rule in ((1, "joint"), (2, "joint"), (1, "sum")):
            if rule == "sum" and relation == "add_remove":
                continue
            moments = q.RegressionMoments((-1, 1), (-1, 1), p, rule, neighbours=relation)
            ends = [-9.0, *(-1.0 / (p + 2) * np.ones(1)), 0.0, 9.0]  # (1, ..., 1) and -(1, ..., 1)/(p + 2) attain it
            grid = np.array(list(product(ends, repeat=p + 1)))
            name = f"regression moments, p={p}, {rule}, {words}"
            yield Additive(name, laplace(1.0, query=moments), *neighbours(moments, grid, 1))
            yield Additive(f"{name}, Gaussian", gauss(1.0, 0.01, query=moments), *neighbours(moments, grid, 2),
                           noise="gaussian")  # fmt: skip
        for family, bounds in FAMILIES.items():
            for outside in ("clamp", "drop") if bounds else ("clamp",):
                statistics = q.SufficientStatistics(family_of(family), bounds, outside=outside, neighbours=relation)
                pair = neighbours(statistics, records_of(family, bounds), 1)
                yield Additive(f"{family}, {outside}, {words}", laplace(1.0, query=statistics), *pair)
    for neighbour in (0, 1):
        count = m.DiscreteLaplaceMechanism(1.0, query=CountRecords())
        if neighbour:
            yield Integers("noisy count", count, np.zeros((4, 1)), np.zeros((3, 1)), covers=("NoisyCount",))


class CountRecords(q.Query):
    """The number of records: what a ``NoisyCount`` is a release of."""

    neighbours = "add_remove"
    n_statistics = 1

    def contributions(self, records):
        return np.ones((len(records), 1))

    def sensitivity(self, norm=1, neighbours=None):
        return 1.0


FAMILIES = {"bernoulli": None, "multinomial": None, "poisson": (0, 4), "exponential": (0, 3), "gamma": (0.5, 3),
            "normal": (-1, 2), "beta": (0.1, 0.8)}  # fmt: skip


def family_of(name):
    from sklearn_dpmix.models import Gamma, Multinomial

    return {"multinomial": Multinomial(n_categories=3), "gamma": Gamma(shape=2.0)}.get(name, name)


def records_of(family, bounds):
    """Records with the ends of the bounds, what is inside and, where it may be, outside."""
    if bounds is None:
        return np.arange(3.0 if family == "multinomial" else 2.0)[:, None]
    lo, hi = bounds
    if family == "poisson":
        return np.array([0, 1, 2, 4, 9.0])[:, None]
    outside = {"normal": [-50.0, 50.0], "beta": [0.01, 0.99]}.get(family, [1e-3, 50.0])
    return np.concatenate([np.linspace(lo, hi, 31), outside])[:, None]


def other_cases():
    """Histograms, data-dependent noise, joint noise, quantiles, a posterior draw, OpenDP."""
    bins = {"n_records": 5}
    first, second = [[0.1]] * 5, [[0.1]] * 4 + [[0.9]]
    yield DrawnFromHistogram("smoothed histogram", m.SmoothedHistogramMechanism(1.0, 3, 1, **bins), second, first)
    for noise in ("laplace", "discrete_laplace"):
        mechanism = m.PerturbedHistogramMechanism(1.0, 3, **bins, noise=noise)
        yield NoisyHistogram(f"perturbed histogram, {noise}", mechanism, first, second)
    median, trimmed = q.SmoothMedian((0.0, 1.0)), q.SmoothTrimmedMean((0.0, 2.0), 0.2)
    yield Smooth("smooth Laplace, median", m.SmoothLaplaceMechanism(1.0, 0.01, query=median), stats.laplace.cdf)
    yield Smooth("smooth Gaussian, median", m.SmoothGaussianMechanism(1.0, 0.01, query=median), stats.norm.cdf)
    yield Smooth("smooth Cauchy, median", m.SmoothCauchyMechanism(1.0, query=median), stats.cauchy.cdf)
    yield Smooth("smooth t, trimmed mean", m.SmoothStudentTMechanism(1.0, query=trimmed), stats.t(3).cdf)
    published = m.PublishedScaleMechanism(1.0, 0.01, query=median)
    yield PublishedScale("published scale, median", published, stats.laplace.cdf)
    corners = {"first": [[0.0, 0.0]], "second": [[1.0, 1.0]]}
    box = q.BoundedRecords((0, 1), 2)
    C = np.array([[5.0, -4.0], [-4.0, 5.0]])  # least noise along (1, 1)
    yield Elliptical("multivariate Laplace", m.MultivariateLaplaceMechanism(2.0 * C, query=box), **corners,
                     radius=stats.gamma(2).cdf)  # fmt: skip
    yield Elliptical("multivariate normal, rho", m.MultivariateNormalMechanism(4.0 * C, query=box), **corners,
                     radius=stats.chi(2).cdf)  # fmt: skip
    yield Elliptical("multivariate t", m.MultivariateTMechanism(9.0 * C, 3.0, query=box), **corners,
                     radius=lambda r: stats.f(2, 3.0).cdf(0.5 * r * r))  # fmt: skip
    numbers = np.linspace(0.01, 0.99, 50)[None]
    other = np.append(numbers[:, 1:], [[2.0]], axis=1)
    arguments = {"epsilon": 1.0, "bounds": (0.0, 1.0)}
    yield Quantile("private_quantile", arguments | {"q": 0.0}, numbers, other)
    yield Bounds("private_bounds", arguments | {"coverage": 0.8}, numbers, other)
    sampling = OnePosteriorSampling(1.0, n_draws=1)
    for zeros, ones in ((40, 30), (1560, 0), (9800, 200), (20, 30_000)):
        yield OnePosterior(f"one posterior sampling, {zeros} zeros, {ones} ones", sampling, zeros, ones)


def opendp_cases():
    """Releases by OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))

    def make(scale):
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=float(scale))

    described = m.from_opendp(make(1.0), bounds=(0, 1))
    yield FromOpenDP("OpenDP's Laplace, from_opendp", make, described, [[0]], [[1]])
    yield Secure("Laplace, secure", m.LaplaceMechanism(1.0, bounds=(0, 1)), [[0]], [[1]])
    yield Secure("Gaussian, secure", m.GaussianMechanism(1.0, 0.01, bounds=(0, 1)), [[0]], [[1]], noise="gaussian")


@cache
def all_cases():
    """{name: case} of those that need no extra."""
    found = [*local_cases(), *curator_cases(), *other_cases()]
    return {case.name: case for case in found}


#: What `make test` runs of them.
QUICK = ("randomised response", "one posterior sampling, 1560 zeros, 0 ones")
