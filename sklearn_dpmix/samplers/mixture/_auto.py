"""``sampler="auto"``: the fastest exact sampler that we know for the given parts (measured in ``benchmarks``)."""

from collections.abc import Callable
from math import inf
from typing import Any

from ._conditional import Conditional
from ._imputed import Imputed
from ._interweaved import Interweaved
from ._neal5 import Neal5
from ._neal8 import Neal8
from ._reuse import ReUse
from ._sampler import MixtureSampler
from .cells._choice import Cells
from .measure._correlated_atoms import is_near_limit
from .measure._walk import MixingMeasure
from .measure._which_chart import correlated_kind, masses_of

MOST_ANSWERS = 30_000  # different ones to all questions together, times questions and categories
MOST_OF_MANY, MANY_EACH = 60_000, 10  # ... where so many people gave each
MOST_TO_ONE = 4_000_000  # ... to a single question
MOST_NUMBERS = {3: 60_000}  # records times features: a walk over so many takes some minutes
MOST_NUMBERS |= dict.fromkeys(range(4, 21), 30_000)
MOST_OF_TABLES = 2000  # different pairs of an integer and a noise scale: each is a node with a table of its own
MOST_OF_SCALES = 50_000  # records of several features with noise scales of their own: each is a node
#: Least and most records for the walk over mixing measures, by the kernel (``noised_as``) and the number of features
RECORDS: dict[str, dict[int, tuple[float, float]]] = {
    "beta": {1: (0, inf)},
    "convolved_normal": {1: (0, inf), 2: (500, inf)},
    "correlated_normal": {2: (0, 10_000), 3: (0, 5000)},
    "correlated_normal, no records kept": {2: (0, inf), 3: (0, inf)},
    "normal": {1: (0.0, inf), 2: (0.0, inf)} | {d: (0.0, n / d) for d, n in MOST_NUMBERS.items()},
    "truncated_normal": {1: (0, inf)},
}
#: The same without noise
EXACT_RECORDS: dict[str, dict[int, tuple[float, float]]] = {"normal": {1: (50, inf), 2: (50, 5000)}}
#: Most masses of a Pitman–Yor process that is walked over, and records for each: of one feature, and of several
MOST_MASSES, RECORDS_EACH = (1000, 250), (1.5, 5.0)


class Auto(MixtureSampler):
    """Resolves to a sampler when the parts are known.

    For privatised records it is ``MixingMeasure``, whose docstring says which kernels, noise and mixings it takes, for

    - one feature, or two with a normal kernel, and any number of records (two features of records with noise scales of
      their own: up to 50,000; integers with such: up to 2000 different pairs of an integer and a scale);
    - three features and up to 20,000 records, or four to twenty and up to 30,000 numbers (records times features);
    - two correlated features and up to 10,000 records, or three and up to 5000, with a ``dof`` of at least n_features -
      1/2; any number of records under Gaussian noise with one scale, if records are not clamped, or if there are two
      features and the noise is not much narrower than the bounds;
    - categories, if different answers times questions times categories are at most 30,000, or 60,000 where ten or more
      people gave each answer; to a single question 4 million;
    - a Pitman–Yor process with the same numbers of records, if at most 1000 masses are expected and n is at least 1.5
      times as large; for several features 250, and 5 times.

    Otherwise it is the first of these that takes the parts: ``Cells``, for a channel that has cells; ``Interweaved``;
    ``Conditional``, if g has a closed form; ``Imputed``, if features are correlated; ``Neal5``. If the Pitman–Yor
    discount is too large for ``Conditional``, it is ``Neal8``, or ``Neal5`` on a histogram.

    For records without noise it is ``MixingMeasure`` for one normal feature with at least 50 records, or two with 50 to
    5000; otherwise ``ReUse``, or ``Neal8`` if the kernel lacks what ``ReUse`` needs. ``ConvolvedNormalKernel`` uses
    ``ReUse``, too, with two features and fewer than 500 records, and with more features.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Auto
    >>> from sklearn_dpmix.kernels import NormalKernel
    >>> chosen = Auto().resolve(None, NormalKernel())
    >>> chosen.sized(n_records=20, n_features=1), chosen.sized(n_records=1000, n_features=1)
    (ReUse(), MixingMeasure())
    """

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> MixtureSampler:
        other = AutoOfRecords().resolve(mechanism, kernel, mixing)
        is_walk = has_noised(mechanism, kernel) and has_masses(mixing)
        return MeasureWhereFast(mechanism, kernel, mixing, other) if is_walk else other


class AutoOfRecords(MixtureSampler):
    """As :class:`Auto`, but only among samplers that keep a record for each release."""

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> MixtureSampler:
        if mechanism is None or kernel.absorbs_noise:
            return ReUse() if kernel.can("relative") else Neal8()
        if has_marginal(mechanism, kernel) and mechanism.keeps_masses and kernel.can("steps"):
            return Cells().resolve(mechanism, kernel)
        if has_marginal(mechanism, kernel) and (mechanism.keeps_masses or not can_interweave(kernel)):
            if getattr(mixing, "discount", 0) <= Conditional.max_discount:
                return Conditional()
            return Neal5() if mechanism.is_histogram else Neal8()
        if can_interweave(kernel):
            chosen = Interweaved()
            chosen.chooses_work = True
            return chosen
        can_impute = has_conditional(mechanism, kernel) and all(kernel.can(need) for need in Imputed.kernel_needs)
        return Imputed() if can_impute else Neal5()


class MeasureWhereFast(MixingMeasure):
    """The walk over mixing measures where it is fastest, by numbers of records, features and answers; else another."""

    def __init__(self, mechanism: Any, kernel: Any, mixing: Any, other: MixtureSampler) -> None:
        super().__init__()
        self.mechanism = mechanism
        self.kernel = kernel
        self.mixing = mixing
        self.other = other
        self.is_exact = mechanism is None or mechanism.releases_records
        self.takes_summaries = not (self.is_exact or is_power_law(mixing))

    @property
    def label(self) -> str:
        return '"auto"'

    def sized(
        self, n_records: int, n_features: int, count_different: Callable[[], int] | None = None
    ) -> MixtureSampler:
        if self.mechanism is None or self.mechanism.n_answers is None:
            kind = self.kernel.noised_as
            if kind == "correlated_normal":
                channel = self.mechanism._lower(n_records=n_records, n_features=n_features)
                kind += "" if correlated_kind(n_features, channel).keeps_records else ", no records kept"
            records = EXACT_RECORDS if self.is_exact else RECORDS
            least, most = records[kind].get(n_features, (0, -1))
            if n_features > 1 and not (self.is_exact or self.mechanism.has_one_law):
                most = min(most, MOST_OF_SCALES)
            is_fast = least <= n_records <= most and self.takes_features(self.mechanism, self.kernel, n_features)
            if is_fast and has_pairs(self.mechanism) and n_records > MOST_OF_TABLES:
                is_fast = count_different is not None and count_different() <= MOST_OF_TABLES
            if kind.startswith("correlated_normal"):
                is_fast = is_fast and not is_near_limit(self.kernel.dof, n_features)
            if is_power_law(self.mixing):
                n_masses, several = masses_of(self.mixing._lower()).n_expected(n_records), n_features > 1
                is_fast = is_fast and n_masses <= min(MOST_MASSES[several], n_records / RECORDS_EACH[several])
        else:
            possible = n_records
            if self.mechanism.has_one_law:
                possible = min(n_records, self.mechanism.n_answers ** min(n_features, 64))
            is_fast = self.mechanism.noncompliance is not None  # which no other takes
            is_fast = is_fast or self.is_small(possible, n_records, n_features)
            if not is_fast and count_different is not None:
                is_fast = self.is_small(count_different(), n_records, n_features)
        return MixingMeasure() if is_fast else self.other.sized(n_records, n_features)

    def is_small(self, n_answers: int, n_records: int, n_features: int) -> bool:
        """Whether so many different answers are few enough."""
        size = n_answers * n_features * self.mechanism.n_categories
        most = MOST_OF_MANY if MANY_EACH * n_answers <= n_records else MOST_ANSWERS
        return size <= (MOST_TO_ONE if n_features == 1 else most)


def has_masses(mixing):
    """Whether the mixing measure's weights are shares of masses with a known distribution, few enough to walk over."""
    return mixing is None or (own(mixing, "masses_as") is not None and mixing.can_walk)


def is_power_law(mixing):
    """Whether there are many small masses: a Pitman–Yor process."""
    return getattr(mixing, "discount", 0.0) > 0.0


def can_interweave(kernel):
    return all(kernel.can(need) for need in Interweaved.kernel_needs)


def has_marginal(mechanism, kernel):
    """Whether g(z | θ) is closed-form: the kernel integrates the channel's pieces, or there is no noise."""
    if mechanism is None or kernel.absorbs_noise:
        return True
    return mechanism.piece_shape in kernel.tilts and kernel.can("marginal")


def has_normal_releases(mechanism, kernel):
    """Whether records are correlated normals, and their releases normal, too."""
    return mechanism is not None and mechanism.is_absorbable and own(kernel, "noised_as") == "correlated_normal"


def has_noised(mechanism, kernel):
    """Whether the mechanism offers the densities of the kernel's records under its noise, at many places at once."""
    if mechanism is None:
        return own(kernel, "noised_as") in EXACT_RECORDS
    kernels = (own(mechanism, "noised_kernels") or frozenset()) | mechanism.tabulated_kernels
    takes_scales = mechanism.n_answers is not None or has_noise_table(mechanism) or has_scaled_form(mechanism)
    is_offered = bool(kernels) and (mechanism.has_one_law or takes_scales)
    return is_offered and own(kernel, "noised_as") in kernels


def has_noised_normal(mechanism, kernel):
    """Whether the mechanism offers these densities in closed form for normal kernels."""
    is_closed = mechanism is None or mechanism.has_one_law or has_scaled_form(mechanism)
    return own(kernel, "noised_as") == "normal" and is_closed and has_noised(mechanism, kernel)


def has_scaled_form(mechanism):
    """Whether the mechanism offers densities of records with noise scales of their own, at many places at once."""
    return own(mechanism, "_of_scales") is not None


def has_noise_table(mechanism):
    """Whether records are integers, with few between the bounds: a table then has each record's noise, of any scale."""
    return bool(mechanism.of_integers and mechanism.tabulated_kernels)


def has_pairs(mechanism):
    """Whether nodes are different pairs of an integer and a noise scale."""
    return mechanism is not None and mechanism.is_grained and not mechanism.has_one_law


def own(component, name):
    """An attribute of the component's own class only: a derived class may have changed what it is true of."""
    return vars(type(component)).get(name)


def has_conditional(mechanism, kernel):
    """Whether a feature is drawn exactly given the others; kept masses are those of a feature's marginal."""
    can_tilt = mechanism.piece_shape in kernel.conditional_tilts and kernel.can("conditional")
    return can_tilt and not mechanism.keeps_masses
