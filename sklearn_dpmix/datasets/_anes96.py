"""Vote and politics of respondents of the 1996 American National Election Study; see PROVENANCE.md beside this file."""

import numpy as np
from numpy.typing import NDArray

from ._read import read

#: The number from which each column of the source starts counting.
LOWEST = {"selfLR": 1, "ClinLR": 1, "DoleLR": 1, "PID": 0, "educ": 1, "vote": 0}


def load_anes96() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Expected vote and five answers of 944 respondents of the 1996 American National Election Study.

    Returns
    -------
    X : ndarray of shape (944, 5), int64
        Answers, each coded 0 to 6, in the order of the source:

        0. ``selfLR``, where the respondent stands: from 0, extremely liberal, over 3, moderate, to 6, extremely
           conservative;
        1. ``ClinLR``, where Bill Clinton stands in the respondent's view, coded likewise;
        2. ``DoleLR``, where Bob Dole stands, coded likewise;
        3. ``PID``, party: from 0, strong Democrat, over 3, independent, to 6, strong Republican;
        4. ``educ``, education: grades 1-8, some high school, high school, some college, college degree, Master's
           degree, PhD.
    y : ndarray of shape (944,), int64
        ``vote``, whom the respondent expects to vote for: 0 Clinton, 1 Dole.

    Notes
    -----
    The questionnaire fixes the seven answers and the two candidates, so ``n_values=7`` and ``n_classes=2`` hold without
    looking at the data.  Five tables of counts have sensitivity 10 in L1 if a respondent is replaced.

    The study interviewed 1,714 people [2]_; these are 944 of them, each with a value in every column of the source and
    a vote for one of the two.  That a person is among them, and their number, is taken as known by whoever releases
    counts under replacement.

    The source declares the data public domain [1]_.  The packaged file ``PROVENANCE.md`` says how the columns were
    extracted.

    References
    ----------
    .. [1] ``statsmodels.datasets.anes96``.
    .. [2] Rosenstone, S. J., Kinder, D. R., Miller, W. E. and the National Election Studies (1997). American National
           Election Study, 1996: Pre- and Post-Election Survey. University of Michigan, Center for Political Studies.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.datasets import load_anes96
    >>> X, y = load_anes96()
    >>> X.shape, y.shape
    ((944, 5), (944,))
    >>> np.bincount(y)  # Clinton, Dole
    array([551, 393])
    >>> bool(np.array_equal(np.unique(X), np.arange(7)))
    True
    """
    columns = read("anes96.csv.gz", np.int64) - list(LOWEST.values())
    return columns[:, :-1].copy(), columns[:, -1].copy()
