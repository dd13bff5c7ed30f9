"""Draws → summaries: what every estimator with chains does with the draws of its monitored quantities.

``monitors`` is a dict of name to array of shape (n_chains, n_draws), or (n_chains, n_draws, size) for a vector.
"""

import numpy as np

from .._base.parameters import tails

COLUMNS = ("mean", "sd", "2.5%", "97.5%", "r_hat", "ess")


def join(blocks):
    """Concatenate the draws (NamedTuples of arrays) of one chain's blocks."""
    return type(blocks[0])(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def every_second(draws):
    """Every second of one chain's draws, the last among them."""
    return type(draws)(*(part[(len(part) + 1) % 2 :: 2] for part in draws))


def scalars(monitors):
    """The monitored numbers one by one: (name, (n_chains, n_draws) floats); those of a vector are ``name[j]``."""
    for name, values in monitors.items():
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 2:
            yield name, values
        else:
            for j in range(values.shape[2]):
                yield f"{name}[{j}]", values[:, :, j]


def at_least_two(draws):
    """Draws of shape (n_chains, n_draws), or the halves of those of a single chain."""
    return draws if len(draws) > 1 else draws[:, draws.shape[1] % 2 :].reshape(2, -1)


def convergence(monitors):
    """R-hat (rank-normalised split) and bulk effective sample size of each monitored number.

    A single chain is compared with itself: its halves count as two chains.

    Returns
    -------
    r_hat, ess : dict of str to float
        NaN for a quantity that never varies, or with too few draws to say; infinite R-hat and the number of chains as
        the effective sample size where every chain stands still at its own value.
    """
    from arviz_stats.base import array_stats

    r_hat, ess = {}, {}
    for name, values in scalars(monitors):
        r_hat[name] = ess[name] = np.nan
        chains = at_least_two(values)
        if chains.shape[1] < 4 or values.min() == values.max():
            continue
        if np.all(values.min(axis=1) == values.max(axis=1)):
            r_hat[name], ess[name] = np.inf, float(len(values))
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            r_hat[name] = float(array_stats.rhat(chains, chain_axis=0, draw_axis=1))
            ess[name] = float(array_stats.ess(values, chain_axis=0, draw_axis=1))
    return r_hat, ess


def central_interval(draws, level):
    """(lower, upper) ends of the equal-tailed interval of each number, (size,), of draws of shape (..., size)."""
    draws = np.asarray(draws)
    lower, upper = np.quantile(draws.reshape(-1, draws.shape[-1]), tails(level), axis=0)
    return lower, upper


class Summary(dict):
    """Dict of row name to dict of column name to number, which prints as a table (where pandas is not installed)."""

    def __repr__(self):
        width = max(map(len, self), default=0)
        lines = [" " * width + "".join(f"{column:>12}" for column in COLUMNS)]
        for name, row in self.items():
            lines.append(f"{name:<{width}}" + "".join(f"{row[column]:>12.4g}" for column in COLUMNS))
        return "\n".join(lines)


def summarise(monitors, r_hat, ess, weights=None):
    """Mean, sd, 95 % interval, R-hat and ESS of each monitored number: a pandas DataFrame, or a :class:`Summary`.

    ``weights`` of shape (n_draws,) are those of the draws of a single chain.  R-hat and ESS are NaN where they are not
    known.
    """
    table = Summary()
    for name, values in scalars(monitors):
        if weights is None:
            (low, high), mean, sd = np.quantile(values, [0.025, 0.975]), values.mean(), values.std()
        else:
            low, high = np.quantile(values[0], [0.025, 0.975], weights=weights, method="inverted_cdf")
            mean = weights @ values[0]
            sd = np.sqrt(weights @ (values[0] - mean) ** 2)
        numbers = (mean, sd, low, high, r_hat.get(name, np.nan), ess.get(name, np.nan))
        table[name] = dict(zip(COLUMNS, map(float, numbers), strict=True))
    try:
        import pandas as pd
    except ImportError:
        return table
    return pd.DataFrame.from_dict(table, orient="index", columns=COLUMNS)
