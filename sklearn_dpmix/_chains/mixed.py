"""When chains count as mixed."""

import numpy as np

R_HAT_LIMIT, ESS_LIMIT = 1.05, 100


def worst_monitors(r_hat, ess):
    """(name of the worst R-hat, name of the smallest effective sample size); (None, None) where nothing varies."""
    known = [name for name, value in r_hat.items() if not np.isnan(value)]
    if not known:
        return None, None
    return max(known, key=r_hat.get), min(known, key=ess.get)


def have_mixed(r_hat, ess, ess_limit=ESS_LIMIT):
    """Whether nothing says that chains have not mixed."""
    worst, fewest = worst_monitors(r_hat, ess)
    return worst is None or (r_hat[worst] <= R_HAT_LIMIT and ess[fewest] >= ess_limit)


def in_words(r_hat, ess, worst, fewest, ess_limit=ESS_LIMIT):
    """The two that decide, in words that say which of them is wrong."""
    of_r_hat = "" if r_hat[worst] <= R_HAT_LIMIT else f", should be at most {R_HAT_LIMIT}"
    of_ess = "" if ess[fewest] >= ess_limit else f", should be at least {ess_limit:g}"
    return (
        f"worst R-hat {r_hat[worst]:.3f} ({worst}{of_r_hat}), smallest effective sample size {ess[fewest]:.0f} "
        f"({fewest}{of_ess})"
    )
