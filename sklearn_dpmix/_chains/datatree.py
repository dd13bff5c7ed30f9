"""Draws, release, pointwise log likelihood and replicates as a tree that ArviZ reads.

What is in the tree of an estimator is said by its ``_contents``, a class of this module or of a file of that name
beside the estimator; how a tree is made of that is here.
"""

from copy import copy

import numpy as np

from .._base.generators import as_generator
from .._base.parameters import positive_integer

#: Draws whose shape depends on the data: as wide as the draw with most clusters.
RAGGED = ("weights",)
RATES = ("acceptance_rate", "min_acceptance", "move_acceptance_rate")


class Contents:
    """What a fitted estimator has to say: the monitored quantities, its ``*_draws_``, and acceptance rates.

    A subclass names dimensions (``dims``: those after chain and draw, by variable; ``coords``: their labels) and
    defines what it has of ``observed()``, ``log_likelihood(chosen)`` and ``predictive(chosen, rng)``.  ``chosen`` are
    numbers of draws, chain by chain; what comes back has one row per draw.
    """

    #: dimensions of a variable after chain and draw; without an entry, ArviZ makes names up
    dims: dict[str, tuple[str, ...]] = {"theta": ("parameter",)}
    #: monitored quantities that are only slices of the draws
    is_duplicate = False

    def __init__(self, fitted):
        self.fitted = copy(fitted)
        vars(self.fitted).update(vars(fitted).get("_parts_", {}))

    def posterior(self):
        """Name -> array of shape (n_chains, n_draws, ...)."""
        found = {} if self.is_duplicate else dict(getattr(self.fitted, "_monitors_", {}))
        for name, values in vars(self.fitted).items():
            name, is_draws, _ = name.rpartition("_draws_")
            if is_draws and name and not name.startswith("_") and name not in (*RAGGED, *found):
                found[name] = values
        return {name: np.asarray(values) for name, values in found.items()}

    def coords(self):
        """Labels by dimension."""
        return self._parameters(getattr(getattr(self.fitted, "model", None), "param_names", None))

    def sample_stats(self):
        """Name -> number, or array of shape (n_chains, n_draws)."""
        found = {name: getattr(self.fitted, f"{name}_", np.nan) for name in RATES}
        return {name: value for name, value in found.items() if not np.isnan(value)}

    def attributes(self):
        """Numbers about the posterior as a whole."""
        return {}

    def observed(self):
        """The release, as (array, dimensions), or None."""
        return None

    def log_likelihood(self, chosen):
        self._refuse("log_likelihood", "its draws are given confidential records, which are not kept")

    def predictive(self, chosen, rng):
        self._refuse("posterior_predictive", "there is no release to replicate")

    def _refuse(self, what, why):
        raise ValueError(f"{type(self.fitted).__name__}.to_datatree({what}=True) is not available: {why}")

    def _flat(self, name):
        """The draws ``name``, chain by chain: (n_chains * n_draws, ...)."""
        draws = getattr(self.fitted, f"{name}_draws_")
        return draws.reshape(-1, *draws.shape[2:])

    def _parameters(self, names):
        """Labels of θ, where they are known."""
        theta = getattr(self.fitted, "theta_draws_", None)
        if names is None or theta is None or len(names) != theta.shape[-1]:
            return {}
        return {"parameter": list(names)}

    def _features(self, n_features):
        names = getattr(self.fitted, "feature_names_in_", np.arange(n_features))
        return names if len(names) == n_features else np.arange(n_features)


def build_tree(fitted, contents, *, log_likelihood=False, posterior_predictive=False, thin=1, random_state=None):
    """Return the ``xarray.DataTree`` of a fitted estimator; see :meth:`MonitoredDraws.to_datatree`."""
    try:
        from arviz_base import from_dict
    except ImportError:
        raise ImportError("to_datatree() needs arviz-base: pip install 'sklearn-dpmix[arviz]'") from None
    positive_integer("thin", thin)
    draws = contents.posterior()
    n_chains, n_draws = next(iter(draws.values())).shape[:2]
    kept = np.arange(0, n_draws, thin)
    chosen = (n_draws * np.arange(n_chains)[:, None] + kept).ravel()

    def by_chain(values):
        return values.reshape(n_chains, len(kept), *values.shape[1:])

    groups = {"posterior": {name: values[:, kept] for name, values in draws.items()}}
    # a vector of one number may be monitored as a number
    dims = {name: given for name, given in contents.dims.items() if draws.get(name, np.empty(0)).ndim == 2 + len(given)}
    observed = contents.observed()
    if observed is not None:
        groups["observed_data"] = {"release": observed[0]}
        dims["release"] = observed[1]
    if log_likelihood:
        groups["log_likelihood"] = {"release": by_chain(contents.log_likelihood(chosen))}
    if posterior_predictive:
        groups["posterior_predictive"] = {"release": by_chain(contents.predictive(chosen, as_generator(random_state)))}
    coords = {**contents.coords(), "chain": np.arange(n_chains), "draw": kept}
    tree = from_dict(groups, coords=coords, dims=dims)
    stats = contents.sample_stats()
    if stats:
        tree["sample_stats"] = stats_node(stats, kept, coords)
    tree["posterior"].attrs.update(contents.attributes())
    return tree


def stats_node(stats, kept, coords):
    """Rates of all chains together are numbers; what each draw has goes along with the draws."""
    from xarray import Dataset, DataTree

    dims = ("chain", "draw")
    variables = {name: (dims, value[:, kept]) if np.ndim(value) else ((), value) for name, value in stats.items()}
    used = {name: coords[name] for name in dims} if any(map(np.ndim, stats.values())) else {}
    return DataTree(Dataset(variables, coords=used))
