"""Does this sampler have what it needs from these components?  One sentence when not, before anything compiles."""

from .kernels import (
    BetaKernel,
    CategoricalKernel,
    ConvolvedNormalKernel,
    Kernel,
    MultivariateNormalKernel,
    NormalKernel,
    TruncatedNormalKernel,
)
from .mechanisms import RecordChannel
from .mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from .mixings._dirichlet import MOST_CONCENTRATION
from .mixings._finite import MOST_COMPONENTS, MOST_SHAPE
from .samplers import (
    Auto,
    Cells,
    Conditional,
    Imputed,
    Interweaved,
    JainNeal,
    MixingMeasure,
    MixtureSampler,
    Neal2,
    Neal3,
    Neal5,
    Neal8,
    ReUse,
    Slice,
    Surrogate,
)
from .samplers.mixture._auto import has_conditional, has_marginal, has_masses, has_noised

KERNELS = {
    "beta": BetaKernel,
    "categorical": CategoricalKernel,
    "convolved_normal": ConvolvedNormalKernel,
    "multivariate_normal": MultivariateNormalKernel,
    "normal": NormalKernel,
    "truncated_normal": TruncatedNormalKernel,
}
MIXINGS: dict[str, type] = {
    "dirichlet_process": DirichletProcess,
    "mixture_of_finite_mixtures": MixtureOfFiniteMixtures,
    "pitman_yor": PitmanYor,
}
SAMPLERS = {
    "auto": Auto,
    "cells": Cells,
    "conditional": Conditional,
    "imputed": Imputed,
    "interweaved": Interweaved,
    "jain_neal": JainNeal,
    "mixing_measure": MixingMeasure,
    "neal2": Neal2,
    "neal3": Neal3,
    "neal5": Neal5,
    "neal8": Neal8,
    "reuse": ReUse,
    "slice": Slice,
    "surrogate": Surrogate,
}
_KERNEL_METHODS = ("draw_prior", "add", "update_params", "log_likelihood", "draw", "cdf", "mean", "variance")


def resolve(name, value, registry, base, methods):
    """Return a component from an object or its lower-case name; ``methods`` are the compiled methods it must have."""
    if isinstance(value, str):
        if value not in registry:
            raise ValueError(f"{name} must be one of {sorted(registry)} or such an object, got {value!r}")
        return registry[value]()
    if isinstance(value, type):
        raise TypeError(f"{name} must be an object, got the class {value.__name__}: pass {name}={value.__name__}(...)")
    if not isinstance(value, base):
        raise TypeError(f"{name} must be one of {sorted(registry)} or an object of {base.__name__}, got {value!r}")
    missing = [method for method in methods if not hasattr(value, method)]
    if missing:
        raise TypeError(f"{name} {type(value).__name__} lacks the compiled method(s) {', '.join(missing)}")
    return value


def resolve_components(mechanism, kernel, mixing, sampler, n_records):
    """Return (kernel, mixing, sampler) as objects that fit together, defaults and names resolved.

    Raises
    ------
    ValueError, TypeError
        Where one of them is not what it should be, or does not go with the others.
    """
    check_mechanism(mechanism, n_records)
    mixing = DirichletProcess() if mixing is None else mixing
    kernel = resolve("kernel", kernel, KERNELS, Kernel, _KERNEL_METHODS)
    mixing = resolve("mixing", mixing, MIXINGS, object, ("fresh_weight", "propose_cluster", "update_concentration"))
    mixing._lower()  # checks its parameters
    sampler = resolve("sampler", sampler, SAMPLERS, MixtureSampler, ())
    return kernel, mixing, check_composition(mechanism, kernel, mixing, sampler)


def check_mechanism(mechanism, n_records):
    """Check that the mechanism is one, that its parameters are right, and that it releases records one by one."""
    if mechanism is None:
        return
    if isinstance(mechanism, type):
        raise TypeError(
            f"mechanism must be an object, got the class {mechanism.__name__}: pass {mechanism.__name__}(...)"
        )
    if not getattr(mechanism, "is_local", True) and not getattr(mechanism, "is_histogram", False):
        if n_records is None and hasattr(mechanism, "log_channel"):
            raise ValueError(
                f"mechanism={mechanism!r} releases a statistic of all records: n_records must say how many they were, "
                "got n_records=None"
            )
        raise ValueError(
            f"PrivateDPMixture has no sampler for mechanism={mechanism!r}: it takes mechanisms that release records "
            "one by one, with bounds= or scale= in place of query="
        )
    if not hasattr(mechanism, "log_channel"):
        raise TypeError(
            f"mechanism must be None or a mechanism object such as LaplaceMechanism(epsilon=1.0, bounds=(0, 1)), got "
            f"{mechanism!r}, which lacks the compiled method log_channel(self, Z, i, j, y)"
        )
    if not isinstance(mechanism, RecordChannel):
        raise TypeError(f"mechanism {type(mechanism).__name__} must derive from sklearn_dpmix.mechanisms.RecordChannel")
    mechanism.check()
    if mechanism.is_histogram and n_records not in (None, mechanism.n_records):
        raise ValueError(f"n_records={n_records!r}, but mechanism={mechanism!r} says another number of records")


def check_n_records(mechanism, n_records, n):
    """A local release has one row a record."""
    if mechanism is not None and mechanism.released_above is not None:
        if n_records is not None and n_records < n:
            raise ValueError(
                f"n_records={n_records}, but {n} releases appeared above released_above={mechanism.released_above!r}: "
                "n_records counts those that did not, too; leave it out where it is unknown"
            )
    elif (mechanism is None or mechanism.is_local) and n_records is not None and n_records != n:
        raise ValueError(
            f"n_records={n_records}, but the release has {n} records: leave n_records out for a local mechanism"
        )


def check_composition(mechanism, kernel, mixing, sampler):
    """Raise ValueError where the parts do not fit together; return the sampler to run.

    Parameters
    ----------
    mechanism : RecordChannel or None
    kernel : Kernel
    mixing : DirichletProcess, PitmanYor
    sampler : MixtureSampler
    """
    sampler.check()
    sampler = sampler.resolve(mechanism, kernel, mixing)
    who = sampler.label
    if not hasattr(sampler, "sweep"):
        raise TypeError(f"sampler {who} lacks the compiled method sweep")
    if kernel.absorbs_noise and not getattr(mechanism, "is_absorbable", False):
        raise ValueError(
            f"kernel {type(kernel).__name__} needs an unclamped Gaussian channel with one noise scale, such as "
            f"GaussianMechanism(scale=...) or GaussianMechanism(..., clamp=False), got mechanism={mechanism!r}"
        )
    if sampler.needs_cells and not (mechanism is not None and mechanism.keeps_masses):
        raise ValueError(
            f"sampler {who} needs a channel of bins or other cells, such as HaarWaveletMechanism, got "
            f'mechanism={mechanism!r}: use sampler="auto"'
        )
    if sampler.needs_common_channel and not (mechanism is not None and mechanism.is_common):
        raise ValueError(
            f"sampler {who} needs additive noise of one scale for all records, such as LaplaceMechanism(epsilon=1.0, "
            f'bounds=(0, 1)), got mechanism={mechanism!r}: use sampler="auto"'
        )
    if sampler.needs_noised_kernel and not has_noised(mechanism, kernel):
        raise ValueError(
            f"sampler {who} needs the densities of the kernel's records under noise at many places at once, which "
            f"mechanism={mechanism!r} does not offer for {type(kernel).__name__}, or not where records have noise of "
            'their own: use sampler="auto"'
        )
    if sampler.needs_masses and not has_masses(mixing):
        raise ValueError(
            f"sampler {who} walks over Dirichlet processes of a concentration of at most {MOST_CONCENTRATION:g}, and "
            f"finite mixtures of concentration {MOST_SHAPE:g} and {MOST_COMPONENTS} components at most, of any number "
            f'up to it (or such prior means), got mixing={mixing!r}: use sampler="auto"'
        )
    has_threshold = mechanism is not None and mechanism.released_above is not None
    if has_threshold and not (sampler.takes_thresholds and mechanism.has_one_law):
        raise ValueError(
            f"released_above={mechanism.released_above!r} needs what MixingMeasure takes (one feature, normal kernel, "
            f"noise of one scale, no Pitman–Yor process), got mechanism={mechanism!r}, kernel={kernel!r}, "
            f"mixing={mixing!r} and sampler {who}"
        )
    if sampler.needs_histogram and not (mechanism is not None and mechanism.is_histogram):
        raise ValueError(
            f"sampler {who} needs a histogram of all records, such as PerturbedHistogramMechanism releases, got "
            f'mechanism={mechanism!r}: use sampler="auto"'
        )
    if sampler.needs_sources and not (mechanism is not None and mechanism.has_sources):
        raise ValueError(
            f"sampler {who} needs draws from a histogram of all records, as SmoothedHistogramMechanism releases, got "
            f'mechanism={mechanism!r}: use sampler="auto"'
        )
    if mechanism is not None and mechanism.is_histogram and not sampler.takes_histograms:
        raise ValueError(
            f"sampler {who} takes releases of single records, but mechanism={mechanism!r} releases a histogram of all: "
            'use sampler="auto" or "neal5"'
        )
    if mechanism is not None and not kernel.absorbs_noise:
        if sampler.needs_noise_free:
            raise ValueError(
                f"sampler {who} works on noise-free records only: use it with mechanism=None, or with "
                f"kernel=ConvolvedNormalKernel(...) under an unclamped Gaussian channel with one noise scale; got "
                f'mechanism={mechanism!r}, kernel={kernel!r}; sampler="auto" takes this pair'
            )
        if sampler.needs_marginal_channel and not has_marginal(mechanism, kernel):
            raise ValueError(
                f"sampler {who} integrates the confidential records out, but {type(kernel).__name__} has no closed "
                f"form for the channel of {type(mechanism).__name__} (piece_shape={mechanism.piece_shape!r}, the "
                f"kernel's tilts={sorted(kernel.tilts)}); use sampler='auto' or 'neal5'"
            )
        if sampler.needs_conditional_channel and not has_conditional(mechanism, kernel):
            raise ValueError(
                f"sampler {who} draws each feature given the others, but {type(kernel).__name__} has no closed form for"
                f" that under {type(mechanism).__name__} (piece_shape={mechanism.piece_shape!r}, the kernel's "
                f"conditional_tilts={sorted(kernel.conditional_tilts)}); use sampler='auto' or 'neal5'"
            )
    noise = "none" if mechanism is None else "noise"
    if not kernel.is_product and noise not in sampler.takes_correlated:
        with_what = "without a mechanism" if mechanism is None else "under a mechanism"
        raise ValueError(
            f"sampler {who} does not take {type(kernel).__name__}, whose features are correlated, {with_what}: use "
            f'sampler="auto"'
        )
    if getattr(mixing, "discount", 0) > sampler.max_discount:
        raise ValueError(
            f"sampler {who} takes a discount of at most {sampler.max_discount}, got mixing={mixing!r}: beyond, it must "
            'draw too many atoms; use sampler="auto", "neal5" or "neal8"'
        )
    for capability in sampler.kernel_needs:
        if not kernel.can(capability):
            raise ValueError(
                f"sampler {who} needs the kernel's compiled method(s) {', '.join(kernel.CAPABILITIES[capability])}, "
                f'which {type(kernel).__name__} does not offer; use sampler="neal5" or "slice"'
            )
    return sampler
