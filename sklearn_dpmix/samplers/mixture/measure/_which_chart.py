"""Which chart a kernel has under a channel, and which law the masses of a mixing."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ._beta_atoms import BetaChart, BetaInBins
from ._categorical_atoms import CategoricalChart
from ._chart import Chart
from ._clamped_atoms import ClampedNormalChart, ClampedNormalUnderNoise
from ._convolved_atoms import ConvolvedNormalChart
from ._correlated_atoms import CorrelatedChart, is_clamped, keeps_normal
from ._correlated_clamped import CorrelatedClampedChart, degree_of
from ._correlated_gaussian import CorrelatedGaussianChart
from ._correlated_hidden import CorrelatedHiddenChart
from ._dirichlet_masses import DirichletMasses
from ._finite_masses import FiniteMasses
from ._many_categories import MANY, ManyCategoriesChart
from ._mass_law import MassLaw
from ._normal_atoms import NormalChart
from ._pitman_yor_masses import PitmanYorMasses
from ._truncated_atoms import TruncatedNormalChart, TruncatedNormalInBins, TruncatedNormalInTable
from ._walk_atoms import CUT, N_RECORDS, PER_FEATURE


def categorical_chart(kernel: Any, n_features: int, channel: Any) -> Chart:
    """Of one question with many categories another one."""
    many = n_features == 1 and int(kernel.size) >= MANY
    return (ManyCategoriesChart if many else CategoricalChart)(kernel, n_features, channel)


def correlated_chart(kernel: Any, n_features: int, channel: Any) -> Chart:
    return correlated_kind(n_features, channel)(kernel, n_features, channel)


def correlated_kind(n_features: int, channel: Any) -> type[CorrelatedChart]:
    """The chart that correlated normal kernels have: one that keeps something beside each release where it must."""
    if channel is None or not keeps_normal(channel) or channel.each:
        return CorrelatedHiddenChart
    if not is_clamped(channel):
        return CorrelatedGaussianChart
    return CorrelatedClampedChart if n_features == 2 and degree_of(channel) is not None else CorrelatedHiddenChart


#: by what mechanisms call the kernel's records: of the kernel's value, the number of features, and a channel's value
CHARTS: dict[str, Callable[[Any, int, Any], Chart]] = {
    "beta": BetaChart,
    "categorical": categorical_chart,
    "convolved_normal": ConvolvedNormalChart,
    "correlated_normal": correlated_chart,
    "normal": NormalChart,
    "truncated_normal": TruncatedNormalChart,
}

#: the same by ``tables`` of a channel, for which there is another one
CHARTS_OF_TABLES: dict[tuple[str | None, str], Callable[[Any, int, Any], Chart]] = {
    ("bins", "beta"): BetaInBins,
    ("bins", "truncated_normal"): TruncatedNormalInBins,
    ("noise", "normal"): ClampedNormalUnderNoise,
    ("noise", "truncated_normal"): TruncatedNormalInTable,
    ("polynomial", "normal"): ClampedNormalChart,
    ("polynomial", "truncated_normal"): TruncatedNormalInTable,
}


def chart_of(kernel: Any, channel: Any = None) -> Chart:
    """The chart of a kernel's value under a channel's, or under any."""
    has_scales = channel is not None and bool(getattr(channel, "each", 0))
    kind = chart_kind(kernel._owner, None if channel is None else channel._owner, has_scales)
    return kind(kernel, int(kernel.n_features), channel)


def chart_kind(kernel: Any, mechanism: Any, has_scales: bool) -> Callable[[Any, int, Any], Chart]:
    """What makes the chart of a kernel under a mechanism, or under none; integers of several scales have a table."""
    name, tables = kernel.noised_as, None if mechanism is None else mechanism.tables
    if has_scales and mechanism.of_integers:
        tables = "noise"
    return CHARTS_OF_TABLES.get((tables, name), CHARTS[name])


def power_law(mixing: Any) -> MassLaw:
    """The law of a Pitman–Yor process's masses; without a discount it is a Dirichlet process."""
    return PitmanYorMasses(mixing) if mixing.discount > 0.0 else DirichletMasses(mixing)


#: by what mixings call the law of their masses
MASS_LAWS: dict[str, Callable[[Any], MassLaw]] = {
    "dirichlet": DirichletMasses,
    "finite": FiniteMasses,
    "pitman_yor": power_law,
}


def masses_of(mixing: Any) -> MassLaw:
    """The law of the masses of a mixing's value."""
    return MASS_LAWS[mixing._owner.masses_as](mixing)


def chart_and_masses(values: Any) -> tuple[Chart, MassLaw]:
    """Both, of the values of a sampler, a channel, a kernel and a mixing."""
    return chart_of(values[2], values[1]), masses_of(values[3])


def law_of(chart: Chart, masses: MassLaw, n_records: int, mean: Any, variance: Any) -> Any:
    """Constants of the walk: of the records, and of each feature."""
    law = np.zeros(PER_FEATURE)
    law[N_RECORDS], law[CUT] = n_records, masses.cut(n_records)
    return np.concatenate([law, chart.law(mean, variance)])
