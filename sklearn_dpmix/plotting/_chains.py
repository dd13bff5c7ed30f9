"""The monitored quantities of chains, one by one, for traces and ranks."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._chains.draws import convergence, scalars
from ._display_checks import check_estimator

MOST = 8  # quantities that are plotted if no names are given


class Quantity(NamedTuple):
    """Draws of one number."""

    draws: np.ndarray  # (n_chains, n_draws)
    r_hat: float
    ess: float

    def __str__(self):
        if np.isnan(self.r_hat):
            return "R-hat and ESS unknown"
        return f"R-hat {self.r_hat:.2f}, ESS {self.ess:.0f}"


def of_estimator(estimator, names, caller):
    """Return a dict of name to :class:`Quantity` for a fitted estimator, or for the sampler that it fitted."""
    check_estimator(estimator, caller)
    source = estimator
    if not hasattr(source, "_monitors_"):
        source = getattr(estimator, "sampler_", None)  # a classifier's chains may be those of its sampler
    if not hasattr(source, "_monitors_"):
        raise TypeError(
            f"{caller} needs an estimator with Markov chains, which {type(estimator).__name__} does not have: fit "
            "one such as PrivateDPMixture, or use from_draws"
        )
    if hasattr(source, "weights_"):
        raise TypeError(
            f"{caller} needs Markov chains, but the draws of estimator={estimator!r} are independent and have weights: "
            'look at ess_, or fit with method="mcmc"'
        )
    if not hasattr(source, "r_hat_"):
        raise TypeError(
            f"{caller} needs Markov chains, but the draws of estimator={estimator!r} are independent: fit with "
            "sampler=DPPenaltyMCMC(...), or use from_draws"
        )
    return _select(source._monitors_, names, source.r_hat_, source.ess_)


def of_draws(draws, names):
    """Return a dict of name to :class:`Quantity` for draws by name."""
    if not isinstance(draws, Mapping):
        raise TypeError(f"draws must be a dict of a name to an array (n_chains, n_draws[, size]), got {type(draws)}")
    if not draws:
        raise ValueError(f"draws must hold at least one quantity, got draws={draws!r}")
    for name, values in draws.items():
        try:
            shape = np.asarray(values, dtype=np.float64).shape
        except (TypeError, ValueError):
            shape = None
        if shape is None or len(shape) not in (2, 3) or 0 in shape:
            raise ValueError(
                f"draws[{name!r}] must have shape (n_chains, n_draws) or (n_chains, n_draws, size), got "
                + (f"no numbers: {values!r}" if shape is None else f"shape {shape}")
            )
    return _select(draws, names, *convergence(draws))


def _select(monitors, names, r_hat, ess):
    every = {name: Quantity(draws, r_hat[name], ess[name]) for name, draws in scalars(monitors)}
    if names is None:
        worst = sorted(every, key=lambda name: -np.nan_to_num(r_hat[name], nan=-1.0))[:MOST]
        return {name: quantity for name, quantity in every.items() if name in worst}
    chosen = {}
    for name in [names] if isinstance(names, str) else names:
        found = [key for key in every if key == name or key.partition("[")[0] == name]
        if not found:
            raise ValueError(f"names must be among {', '.join(every)}, or the part before a bracket, got {name!r}")
        chosen.update({key: every[key] for key in found})
    if not chosen:
        raise ValueError(f"names must hold at least one of {', '.join(every)}, got names={names!r}")
    return chosen
