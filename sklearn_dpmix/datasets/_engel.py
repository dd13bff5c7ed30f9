"""Income and food expenditure of the Belgian households that Engel studied; see PROVENANCE.md beside this file."""

from .._base.typing import Floats
from ._read import read


def load_engel() -> tuple[Floats, Floats]:
    """Annual income and food expenditure of 235 Belgian working-class households, from Engel's study of 1857.

    Returns
    -------
    X : ndarray of shape (235, 1), float64
        Income of the household, Belgian francs a year, in the order of the source.
    y : ndarray of shape (235,), float64
        Its expenditure on food, Belgian francs a year.

    Notes
    -----
    Engel [1]_ found that the poorer a household is, the larger the share of its budget that goes on food.  His table
    has incomes from 200 to 3,000 francs; anybody can state these public bounds without looking at these records.

    Both columns are skewed and the spread of food expenditure grows with income, much less so on the log scale.  One
    household, with 4,958 francs, is far from all others (the next has 2,822): without it the least-squares slope of
    food on income is 0.55 and not 0.49.

    Koenker and Bassett [2]_ made the data a standard example.  The source declares them public domain [3]_.  The
    packaged file ``PROVENANCE.md`` says how they were extracted.

    References
    ----------
    .. [1] Engel, E. (1857). Die Productions- und Consumtionsverhältnisse des Königreichs Sachsen. Zeitschrift des
           Statistischen Büreaus des Königlich Sächsischen Ministeriums des Innern 8-9.
    .. [2] Koenker, R. and Bassett, G. (1982). Robust tests for heteroscedasticity based on regression quantiles.
           Econometrica 50(1), 43-61.
    .. [3] ``statsmodels.datasets.engel``.

    Examples
    --------
    >>> from sklearn_dpmix.datasets import load_engel
    >>> X, y = load_engel()
    >>> X.shape, y.shape
    ((235, 1), (235,))
    >>> print(f"income {X.min():.0f} to {X.max():.0f}, mean {X.mean():.0f}; food {y.min():.0f} to {y.max():.0f}")
    income 377 to 4958, mean 982; food 242 to 2033
    """
    columns = read("engel.csv.gz")
    return columns[:, :1].copy(), columns[:, 1].copy()
