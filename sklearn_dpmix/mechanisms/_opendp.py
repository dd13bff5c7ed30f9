"""Which mechanism made a release that OpenDP made: the noise of its measurement, read from how it was built.

OpenDP has no way to ask a measurement for its noise.  It does have the constructor that built it, with its arguments
(what ``opendp.prelude.serialize`` writes), and the privacy map.  The constructor tells the distribution: a privacy map
alone does not, since noise that was censored or post-processed has the same map.  The map tells whether the constructor
was understood: d/b for Laplace noise, (d/σ)²/2 for Gaussian noise, whatever the distance d.
"""

from math import inf
from typing import Any

from numpy.typing import ArrayLike

from .._base.parameters import positive_number
from ._additive import AdditiveMechanism
from ._channel import RecordChannel
from ._discrete_gaussian import DiscreteGaussianMechanism
from ._discrete_laplace import DiscreteLaplaceMechanism
from ._gaussian import GaussianMechanism
from ._laplace import LaplaceMechanism
from ._opendp_responses import RESPONSES, response_of

#: Constructors of noise, and whether it is Laplace noise; None if the measure says.
NOISE = {"make_laplace": True, "make_geometric": True, "make_gaussian": False, "make_noise": None}
#: Combinators that state the same privacy loss in another measure; what is released does not change.
SAME_RELEASE = {
    "make_approximate", "make_fix_delta", "make_fixed_approxDP_to_approxDP", "make_pureDP_to_zCDP",
    "make_zCDP_to_approxDP",
}  # fmt: skip
MEASURES = {"MaxDivergence": True, "ZeroConcentratedDivergence": False}
#: Floats are released as multiples of 2^k; a grid finer than this share of the scale is as good as none.
FINEST = 2.0**-20
#: Noise scales between 0 and the lower end of a type of integers: more noise is beyond it with probability e^-20.
MOST_SCALES = 20.0
#: Distances at which the privacy map is evaluated, in units of the scale.
DISTANCES = (0.5, 1.0, 3.0, 20.0)
#: Relative tolerance: maps round upwards, and add what the grid of floats may add.
TOLERANCE = 1e-5


def from_opendp(
    measurement: Any,
    *,
    bounds: ArrayLike | None = None,
    query: Any = None,
    clamp: bool = True,
    n_categories: int | None = None,
) -> RecordChannel:
    """Return the mechanism whose noise an OpenDP measurement adds, or whose randomised response it is.

    Only what the analyst needs to model the noise is read: its distribution and scale.  You have to say what it was
    added to: the records' bounds or a query of this package.

    Parameters
    ----------
    measurement : opendp.mod.Measurement
        Laplace or Gaussian noise (``make_laplace``, ``make_gaussian``, ``make_noise``, or ``make_geometric`` without
        bounds) on floats or integers, by itself or chained after transformations, as ``context.query()...resolve()``
        gives it.  Or randomised response of a boolean, a category or a vector of bits of weight 1
        (``make_randomized_response_bool``, ``make_randomized_response``, ``make_randomized_response_bitvec``).
    bounds, query, clamp :
        As in :class:`LaplaceMechanism`: what the noise was added to.
    n_categories : int, optional
        How many bits there are; only for a vector of bits.

    Returns
    -------
    mechanism : LaplaceMechanism, GaussianMechanism, DiscreteLaplaceMechanism or DiscreteGaussianMechanism
        With ``scale``; the discrete ones are for integers.  For randomised response it is a
        ``RandomizedResponseMechanism``, whose categories 0..K-1 are OpenDP's in their order (no is 0, yes 1); for bits
        a ``UnaryEncodingMechanism``.

    Raises
    ------
    ImportError
        Without the optional extra ``[secure]``.
    TypeError
        For an object that is not a measurement.
    ValueError
        For any other measurement: another distribution, noise that is censored at bounds, or at the ends of a type of
        integers (at 0, if it is unsigned), a composition of several releases, post-processing, amplification by
        sampling, or a grid of floats that is not fine; if the privacy map is not that of the noise.

    Notes
    -----
    The measurement must be the one that made the release: ``binary_search_chain`` and the Context API find the scale,
    and it is read from their result.  A transformation that rescales (``make_lipschitz_float_mul``) or a mean is part
    of the statistic, before the noise: the scale is in units of the release.

    OpenDP's neighbours add or remove a record (``symmetric_distance``, d = 1; d = 2 replaces one).  Its guarantee is
    its own, and ``mechanism.guarantee()`` is that of ``bounds`` or ``query``.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from sklearn_dpmix.mechanisms import from_opendp
    >>> dp.enable_features("contrib")
    >>> records = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=100)
    >>> total = dp.t.make_sum(records, dp.symmetric_distance()) >> dp.m.then_laplace(scale=5.0)
    >>> from_opendp(total)
    LaplaceMechanism(scale=5.0)
    """
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ImportError('from_opendp needs OpenDP: pip install "sklearn-dpmix[secure]"') from None
    if not isinstance(measurement, dp.Measurement):
        raise TypeError(
            f"measurement must be an OpenDP Measurement, got {type(measurement).__name__}: query.resolve() of the "
            "Context API gives one"
        )
    noise = find_noise(measurement)
    name, given = constructor_of(noise)
    if name in RESPONSES:
        response = response_of(name, given, n_categories)
        check_response(noise, response, bounds, query)
        return response
    if n_categories is not None:
        raise ValueError(f"n_categories={n_categories!r} is for randomised response, but this is noise: leave it out")
    kind = str(noise.input_carrier_type).removeprefix("Vec<").removesuffix(">")  # "f64", "i32", "u32"
    is_integer = kind[0] in "iu"
    is_laplace, scale = read_noise(noise, is_integer)
    if is_integer:
        check_type(kind, scale)
    check_map(noise, is_laplace, scale)
    return MECHANISMS[is_laplace, is_integer](scale=scale, bounds=bounds, query=query, clamp=clamp)


MECHANISMS: dict[tuple[bool, bool], type[AdditiveMechanism]] = {
    (True, False): LaplaceMechanism,
    (True, True): DiscreteLaplaceMechanism,
    (False, False): GaussianMechanism,
    (False, True): DiscreteGaussianMechanism,
}


def constructor_of(measurement):
    """(name of the function that built it, its arguments)"""
    built = getattr(measurement, "__opendp_dict__", None)
    if not built or "__function__" not in built:
        raise refusal("it does not say how it was built")
    return built["__function__"], built["__kwargs__"]


def find_noise(measurement):
    """Walk from a measurement to the noise at its end, a measurement itself."""
    name, given = constructor_of(measurement)
    if name in NOISE or name in RESPONSES:
        return measurement
    if name == "make_chain_mt":  # noise after a transformation
        return find_noise(given["measurement1"])
    if name in SAME_RELEASE:
        return find_noise(given["measurement"])
    raise refusal(f"{name} is not noise on a transformation")


def read_noise(noise, is_integer):
    """(whether Laplace, scale)"""
    name, given = constructor_of(noise)
    if given.get("bounds") is not None:
        raise refusal(f"{name} with bounds={given['bounds']} censors the release there")
    is_laplace, measure = NOISE[name], str(noise.output_measure).partition("(")[0]
    if measure not in MEASURES or is_laplace not in (None, MEASURES[measure]):
        raise refusal(f"{name} with measure {measure} has a distribution that is not known here")
    scale, k = positive_number("scale", given["scale"]), given.get("k")
    if not is_integer and k is not None and not 2.0 ** min(k, 1000) <= FINEST * scale:
        raise refusal(f"{name} with k={k} releases multiples of 2^{k}, and the noise has scale {scale:g}")
    return MEASURES[measure], scale


def check_type(kind, scale):
    """Raise ValueError if noise often goes beyond the lower end of a type of integers, where it is censored."""
    lowest = 0.0 if kind[0] == "u" else -(2.0 ** (int(kind[1:]) - 1))
    if -lowest < MOST_SCALES * scale:
        raise refusal(
            f"it releases {lowest:.10g}, the lowest number of type {kind}, for all that are below: noise of scale "
            f"{scale:g} needs a wider type, with a sign"
        )


def check_map(noise, is_laplace, scale):
    """Raise ValueError if the privacy map is not d/b or (d/σ)²/2."""
    whole = str(noise.input_distance_type)[0] in "iu"
    for share in DISTANCES:
        d = max(1, round(share * scale)) if whole else share * scale
        found = float(noise.map(d))
        expected = d / scale if is_laplace else 0.5 * (d / scale) ** 2
        if not abs(found - expected) <= TOLERANCE * expected:
            raise refusal(f"the privacy map gives {found:.6g} at distance {d}, noise of scale {scale:g} {expected:.6g}")


def check_response(noise, response, bounds, query):
    """Raise ValueError if the privacy map is not that of the response, or if ``bounds`` or ``query`` are given."""
    if bounds is not None or query is not None:
        raise ValueError(
            f"bounds and query are for additive noise, got bounds={bounds!r}, query={query!r}: leave them out"
        )
    if not 0.0 < response.epsilon < inf:
        raise refusal(f"randomised response with epsilon={response.epsilon:g} reveals everything or nothing")
    weight = getattr(constructor_of(noise)[1].get("input_domain"), "max_weight", 1)
    found = float(noise.map(1))
    if weight not in (None, 1) or not abs(found - response.epsilon) <= TOLERANCE * response.epsilon:
        raise refusal(f"the privacy map gives {found:.6g}, bits or categories of this response {response.epsilon:.6g}")


def refusal(why):
    return ValueError(
        "from_opendp reads plain Laplace and Gaussian noise and randomised response only, and not this measurement: "
        f"{why}; if you know the distribution, give it by hand, as in LaplaceMechanism(scale=...), or write a "
        "mechanism of your own"
    )
