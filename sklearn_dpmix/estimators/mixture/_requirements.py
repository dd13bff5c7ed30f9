"""What a sampler may need from mechanism, kernel and mixing: how to check that, and what to say if it is missing."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...mixings._dirichlet import MOST_CONCENTRATION
from ...mixings._finite_mixtures import MOST_COMPONENTS, MOST_SHAPE
from ...mixings._pitman_yor import MOST_CONCENTRATION as MOST_POWER_LAW
from ...mixings._pitman_yor import MOST_DISCOUNT
from ...samplers.mixture._auto import (
    has_conditional,
    has_marginal,
    has_masses,
    has_noised,
    has_noised_normal,
    is_power_law,
)

AUTO = 'use sampler="auto"'
MOST_SCALES = 64  # of noise on releases that appear above a threshold


class Parts(NamedTuple):
    """The parts of a posterior."""

    mechanism: Any
    kernel: Any
    mixing: Any
    sampler: Any

    @property
    def has_noise(self):
        """Whether what is released are not the records themselves."""
        return self.mechanism is not None and not self.mechanism.releases_records

    @property
    def is_noisy(self):
        """Whether the sampler sees noise."""
        return self.has_noise and not self.kernel.absorbs_noise

    def offers(self, name):
        """An attribute of the mechanism; False without a mechanism or the attribute."""
        return self.mechanism is not None and getattr(self.mechanism, name, False)

    @property
    def threshold(self):
        """Threshold above which releases appear; None if all do."""
        return None if self.mechanism is None else self.mechanism.released_above

    @property
    def setting(self):
        """Words for a message: with or without a mechanism."""
        return "under a mechanism" if self.has_noise else "without a mechanism"

    @property
    def tilts(self):
        """In order, for a sentence."""
        return sorted(self.kernel.tilts)

    @property
    def conditional_tilts(self):
        """In order, for a sentence."""
        return sorted(self.kernel.conditional_tilts)

    @property
    def missing(self):
        """Compiled methods that the kernel lacks, for the first of the sampler's needs that is not met."""
        lacks = [need for need in self.sampler.kernel_needs if not self.kernel.can(need)]
        return ", ".join(self.kernel.CAPABILITIES[lacks[0]]) if lacks else ""


class Requirement(NamedTuple):
    """One need: ``why`` is formatted with the parts, ``who`` (the sampler) and ``of`` (the kernel's class)."""

    is_met: Callable[[Parts], Any]
    why: str

    def refusal(self, parts):
        """The message if it is not met, or None."""
        if self.is_met(parts):
            return None
        names = {"who": parts.sampler.label, "of": type(parts.kernel).__name__, "under": type(parts.mechanism).__name__}
        return self.why.format(**parts._asdict(), **names, parts=parts)


#: The order matters: the first requirement that is not met is named.
REQUIREMENTS = (
    Requirement(
        lambda parts: not parts.kernel.absorbs_noise or parts.offers("is_absorbable"),
        "kernel {of} needs an unclamped Gaussian channel with one noise scale, such as GaussianMechanism(scale=...) or "
        "GaussianMechanism(..., clamp=False), got mechanism={mechanism!r}",
    ),
    Requirement(
        lambda parts: not parts.sampler.needs_cells or parts.offers("keeps_masses"),
        "sampler {who} needs a channel of bins or other cells, such as HaarWaveletMechanism, got "
        f"mechanism={{mechanism!r}}: {AUTO}",
    ),
    Requirement(
        lambda parts: not parts.sampler.needs_noised_kernel or has_noised(parts.mechanism, parts.kernel),
        "sampler {who} computes the density of a release given a cluster at many points at once, and "
        "mechanism={mechanism!r} has no such method for {of}, or none with a noise scale for each record (noise of "
        "your own, and integer noise of several scales, need bounds): " + AUTO,
    ),
    Requirement(
        lambda parts: not parts.sampler.needs_masses or has_masses(parts.mixing),
        f"sampler {{who}} walks over Dirichlet processes with a concentration of at most {MOST_CONCENTRATION:g}, "
        f"Pitman–Yor processes with a discount up to {MOST_DISCOUNT:g} and a positive concentration up to "
        f"{MOST_POWER_LAW:g}, and finite mixtures with a concentration of at most {MOST_SHAPE:g} and any number of "
        f"components up to at most {MOST_COMPONENTS} (or such prior means), got mixing={{mixing!r}}: {AUTO}",
    ),
    Requirement(
        lambda parts: (
            parts.threshold is None
            or (
                parts.sampler.takes_thresholds
                and has_noised_normal(parts.mechanism, parts.kernel)
                and not is_power_law(parts.mixing)
            )
        ),
        "released_above={parts.threshold!r} needs MixingMeasure (one feature, normal kernel, no Pitman–Yor "
        'process; with sampler="mixing_measure" an error names the mixings it takes), got mechanism={mechanism!r}, '
        "kernel={kernel!r}, mixing={mixing!r} and sampler {who}",
    ),
    Requirement(
        lambda parts: parts.threshold is None or np.unique(parts.mechanism.noise_scale).size <= MOST_SCALES,
        f"released_above={{parts.threshold!r}} takes noise of at most {MOST_SCALES} different scales, since each has "
        "its own probability of appearing, got mechanism={mechanism!r}",
    ),
    Requirement(
        lambda parts: (
            not parts.offers("noncompliance") or (parts.sampler.takes_noncompliance and not is_power_law(parts.mixing))
        ),
        "noncompliance={mechanism.noncompliance!r} needs MixingMeasure (a categorical kernel, no Pitman–Yor process), "
        "got mechanism={mechanism!r}, kernel={kernel!r}, mixing={mixing!r} and sampler {who}",
    ),
    Requirement(
        lambda parts: not parts.sampler.needs_histogram or parts.offers("is_histogram"),
        "sampler {who} needs a histogram of all records, such as PerturbedHistogramMechanism releases, got "
        f"mechanism={{mechanism!r}}: {AUTO}",
    ),
    Requirement(
        lambda parts: not parts.sampler.needs_sources or parts.offers("has_sources"),
        "sampler {who} needs draws from a histogram of all records, as SmoothedHistogramMechanism releases, got "
        f"mechanism={{mechanism!r}}: {AUTO}",
    ),
    Requirement(
        lambda parts: parts.sampler.takes_histograms or not parts.offers("is_histogram"),
        "sampler {who} takes releases of single records, but mechanism={mechanism!r} releases a histogram of all: "
        f'{AUTO} or "neal5"',
    ),
    Requirement(
        lambda parts: not (parts.is_noisy and parts.sampler.needs_noise_free),
        "sampler {who} works on noise-free records only: use it with mechanism=None, or with "
        "kernel=ConvolvedNormalKernel(...) under an unclamped Gaussian channel with one noise scale; got "
        'mechanism={mechanism!r}, kernel={kernel!r}; sampler="auto" handles this pair',
    ),
    Requirement(
        lambda parts: parts.is_noisy or not parts.sampler.moves_records,
        "sampler {who} imputes confidential records and moves them, but without noise, or with a kernel that absorbs "
        f"it, records are given; got mechanism={{mechanism!r}}, kernel={{kernel!r}}: {AUTO}",
    ),
    Requirement(
        lambda parts: (
            not (parts.is_noisy and parts.sampler.needs_marginal_channel) or has_marginal(parts.mechanism, parts.kernel)
        ),
        "sampler {who} integrates the confidential records out, but {of} has no closed form for the channel of {under} "
        "(piece_shape={mechanism.piece_shape!r}, the kernel's tilts={parts.tilts}); use sampler='auto' or 'neal5'",
    ),
    Requirement(
        lambda parts: (
            not (parts.is_noisy and parts.sampler.needs_conditional_channel)
            or has_conditional(parts.mechanism, parts.kernel)
        ),
        "sampler {who} draws each feature given the others, but {of} has no closed form for that under {under} "
        "(piece_shape={mechanism.piece_shape!r}, the kernel's conditional_tilts={parts.conditional_tilts}); use "
        "sampler='auto' or 'neal5'",
    ),
    Requirement(
        lambda parts: (
            parts.kernel.is_product or ("noise" if parts.has_noise else "none") in parts.sampler.takes_correlated
        ),
        "sampler {who} cannot use {of}, whose features are correlated, {parts.setting}: " + AUTO,
    ),
    Requirement(
        lambda parts: getattr(parts.mixing, "discount", 0) <= parts.sampler.max_discount,
        "sampler {who} takes a discount of at most {sampler.max_discount}, got mixing={mixing!r}: beyond "
        f'that, it must draw too many atoms; {AUTO}, "neal5" or "neal8"',
    ),
    Requirement(
        lambda parts: not parts.missing,
        "sampler {who} needs the kernel's compiled method(s) {parts.missing}, which {of} does not offer; use "
        'sampler="neal5" or "slice"',
    ),
)
