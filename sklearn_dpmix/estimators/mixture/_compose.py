"""Does this sampler have what it needs from these components?  If not, one sentence says so before compiling."""

from copy import deepcopy

import numpy as np

from ..._base.parameters import refuse_class
from ...kernels import (
    BetaKernel,
    CategoricalKernel,
    ConvolvedNormalKernel,
    Kernel,
    MultivariateNormalKernel,
    NormalKernel,
    TruncatedNormalKernel,
)
from ...mechanisms import RecordChannel
from ...mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from ...samplers import (
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
)
from ._requirements import REQUIREMENTS, Parts

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
}
_KERNEL_METHODS = ("draw_prior", "add", "update_params", "log_likelihood", "draw", "cdf", "mean", "variance")


def resolve(name, value, registry, base, methods):
    """Return a component from an object or its lower-case name; ``methods`` are the compiled methods it must have."""
    if isinstance(value, str):
        if value not in registry:
            raise ValueError(f"{name} must be one of {sorted(registry)} or such an object, got {value!r}")
        return registry[value]()
    refuse_class(name, value)
    if not isinstance(value, base):
        raise TypeError(f"{name} must be one of {sorted(registry)} or an object of {base.__name__}, got {value!r}")
    missing = [method for method in methods if not hasattr(value, method)]
    if missing:
        raise TypeError(
            f"{name} must be one of {sorted(registry)} or such an object, got {value!r}, which lacks the compiled "
            f"method(s) {', '.join(missing)}"
        )
    return value


def resolve_components(mechanism, kernel, mixing, sampler, n_records):
    """Return (kernel, mixing, sampler) as objects that fit together, defaults and names resolved.

    Raises
    ------
    ValueError, TypeError
        If one of them is not what it should be, or does not go with the others.
    """
    check_mechanism(mechanism, n_records)
    mixing = DirichletProcess() if mixing is None else mixing
    kernel = resolve("kernel", kernel, KERNELS, Kernel, _KERNEL_METHODS)
    mixing = resolve(
        "mixing", mixing, MIXINGS, object, ("new_cluster_weight", "propose_cluster", "update_concentration")
    )
    mixing._lower()  # checks its parameters
    sampler = resolve("sampler", sampler, SAMPLERS, MixtureSampler, ())
    return kernel, mixing, check_composition(mechanism, kernel, mixing, sampler)


def check_mechanism(mechanism, n_records):
    """Check that the mechanism is one, that its parameters are right, and that it releases records one by one."""
    if mechanism is None:
        return
    refuse_class("mechanism", mechanism)
    if not getattr(mechanism, "is_local", True) and not getattr(mechanism, "is_histogram", False):
        raise ValueError(
            f"PrivateDPMixture has no sampler for mechanism={mechanism!r}: it takes mechanisms that release records "
            "one by one, with bounds= or scale= in place of query=; PrivateExpFamilyGibbs, PrivateLinearRegressionDA, "
            "PrivateNaiveBayesDA and PrivatePosteriorDA take what a query released"
        )
    if isinstance(mechanism, (list, tuple)):
        raise TypeError(f"mechanism must be one mechanism for all features, got mechanism={mechanism!r}")
    if not hasattr(mechanism, "log_channel"):
        raise TypeError(
            f"mechanism must be None or a mechanism object such as LaplaceMechanism(epsilon=1.0, bounds=(0, 1)), got "
            f"{mechanism!r}, which lacks the compiled method log_channel(self, Z, i, j, y)"
        )
    if not isinstance(mechanism, RecordChannel):
        raise TypeError(f"mechanism {type(mechanism).__name__} must derive from sklearn_dpmix.mechanisms.RecordChannel")
    mechanism.check()
    if mechanism.is_histogram and n_records not in (None, mechanism.n_records):
        raise ValueError(f"n_records={n_records!r}, but mechanism={mechanism!r} has another number of records")


def check_n_records(mechanism, n_records, n):
    """A local release has one row per record."""
    if mechanism is not None and mechanism.released_above is not None:
        if n_records is not None and n_records < n:
            raise ValueError(
                f"n_records={n_records}, but {n} releases appeared above "
                f"released_above={mechanism.released_above!r}: n_records also counts those that did not; leave it "
                "out if it is unknown"
            )
        if n_records is not None and np.unique(mechanism.noise_scale).size > 1:
            raise ValueError(
                f"n_records={n_records}, but there are several noise scales, and the records that did not appear do "
                "not show which scale they had: leave n_records out"
            )
    elif (mechanism is None or mechanism.is_local) and n_records is not None and n_records != n:
        raise ValueError(
            f"n_records={n_records}, but the release has {n} records: leave n_records out for a local mechanism"
        )


def check_composition(mechanism, kernel, mixing, sampler):
    """Raise ValueError if the parts do not fit together; return the sampler to run.

    Parameters
    ----------
    mechanism : RecordChannel or None
    kernel : Kernel
    mixing : DirichletProcess, PitmanYor
    sampler : MixtureSampler
    """
    sampler.check()
    sampler = sampler.resolve(mechanism, kernel, mixing)
    if not hasattr(sampler, "sweep"):
        raise TypeError(f"sampler {sampler.label} lacks the compiled method sweep")
    parts = Parts(mechanism, kernel, mixing, sampler)
    for requirement in REQUIREMENTS:
        refusal = requirement.refusal(parts)
        if refusal:
            raise ValueError(refusal)
    return sampler


def copies(*parts):
    """Copies of components."""
    try:
        return deepcopy(parts)
    except TypeError as error:  # such as a generator
        raise TypeError(
            f"mechanism, kernel, mixing and sampler must have parameters that can be copied: {error}"
        ) from error
