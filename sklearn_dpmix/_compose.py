"""Does this sampler have what it needs from these components?  One sentence when not, before anything compiles."""

from .kernels import ConvolvedNormalKernel, Kernel, NormalKernel
from .mixings import DirichletProcess
from .samplers import Auto, Conditional, MixtureSampler, Neal2, Neal3, Neal5, Neal8, Slice

KERNELS = {"normal": NormalKernel, "convolved_normal": ConvolvedNormalKernel}
SAMPLERS = {
    "auto": Auto,
    "conditional": Conditional,
    "neal2": Neal2,
    "neal3": Neal3,
    "neal5": Neal5,
    "neal8": Neal8,
    "slice": Slice,
}
_KERNEL_METHODS = ("draw_prior", "add", "update_params", "log_likelihood", "draw", "cdf", "mean", "variance")


def resolve(name, value, registry, base):
    """Return a component from an instance or its lower-case name."""
    if isinstance(value, str):
        if value not in registry:
            raise ValueError(f"{name} must be one of {sorted(registry)} or an object of {base.__name__}, got {value!r}")
        return registry[value]()
    if not isinstance(value, base):
        raise TypeError(
            f"{name} must be one of {sorted(registry)} or an object of {base.__name__}, got {value!r}"
            + ("; pass an instance, with parentheses" if isinstance(value, type) else "")
        )
    return value


def resolve_components(kernel, mixing, sampler):
    """Return (kernel, mixing, sampler) as objects."""
    mixing = DirichletProcess() if mixing is None else mixing
    for method in ("propose_cluster", "update_concentration"):
        if not hasattr(mixing, method):
            raise TypeError(
                f"mixing must be DirichletProcess(...), PitmanYor(...) or an object with {method}, got {mixing!r}"
            )
    return (
        resolve("kernel", kernel, KERNELS, Kernel),
        mixing,
        resolve("sampler", sampler, SAMPLERS, MixtureSampler),
    )


def check_composition(mechanism, kernel, sampler):
    """Raise ValueError or TypeError where the parts do not fit together; return the sampler to run.

    Parameters
    ----------
    mechanism : RecordChannel or None
    kernel : Kernel
    sampler : MixtureSampler
    """
    missing = [name for name in _KERNEL_METHODS if not hasattr(kernel, name)]
    if missing:
        raise TypeError(f"kernel {type(kernel).__name__} lacks the compiled method(s) {', '.join(missing)}")
    if mechanism is not None and not hasattr(mechanism, "log_channel"):
        raise TypeError(f"mechanism {type(mechanism).__name__} lacks the compiled method log_channel(self, Z, i, j, y)")
    sampler.check()
    sampler = sampler.resolve(mechanism, kernel)
    who = type(sampler).__name__
    if kernel.absorbs_noise and not getattr(mechanism, "is_absorbable", False):
        raise ValueError(
            f"kernel {type(kernel).__name__} needs an unclamped Gaussian channel with one noise scale, such as "
            f"GaussianMechanism(scale=...) or GaussianMechanism(..., clamp=False), got mechanism={mechanism!r}"
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
                f"sampler {who} integrates the confidential records out, but {type(kernel).__name__} has no closed form for the "
                f"channel of {type(mechanism).__name__} (piece_shape={mechanism.piece_shape!r}, the kernel's tilts="
                f'{sorted(kernel.tilts)}); use sampler="neal5" or "slice"'
            )
    for capability in sampler.kernel_needs:
        if not kernel.can(capability):
            raise ValueError(
                f"sampler {who} needs the kernel's compiled method(s) {', '.join(kernel.CAPABILITIES[capability])}, which "
                f'{type(kernel).__name__} does not offer; use sampler="neal5" or "slice"'
            )
    return sampler


def has_marginal(mechanism, kernel):
    """Whether g(z | θ) is closed-form: the kernel integrates the channel's pieces, or there is no noise to integrate."""
    if mechanism is None or kernel.absorbs_noise:
        return True
    return mechanism.piece_shape in kernel.tilts and kernel.can("marginal")
