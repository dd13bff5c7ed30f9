"""The chronic-disease index of the RAND Health Insurance Experiment; see PROVENANCE.md beside this file."""

from .._base.typing import Floats
from ._read import read


def load_rand_hie() -> Floats:
    """Index of chronic diseases at baseline, from the RAND Health Insurance Experiment.

    Returns
    -------
    disea : ndarray of shape (20190,), float64
        The variable ``disea`` in the order of its source. It has no unit; it runs from 0 (none of the asked-about
        diseases) to 58.6 and reads as a percentage of a list of diseases, so ``bounds=(0, 100)`` hold for it without
        looking at the data.

    Notes
    -----
    **A row is a person-year, not a person.** The 5,912 people stay in the study for one to five years and keep
    their baseline value in each of their rows. A mechanism with a record-level guarantee of epsilon protects a
    person with five rows at 5 epsilon.

    **The values are discrete**: 31 of them. Four of these (9.967326, 10.57626, 11.84267, 13.73189), in 8,001 rows, look
    like fill-ins for a missing answer: each belongs to one or two study sites.

    The source declares the data public domain [1]_. Newhouse et al. [2]_ describe the experiment, Deb and Trivedi [3]_
    and Cameron and Trivedi [4]_ use this extract's variables. The packaged file ``PROVENANCE.md`` says how the column
    was extracted.

    References
    ----------
    .. [1] ``statsmodels.datasets.randhie``.
    .. [2] Newhouse, J. P. and the Insurance Experiment Group (1993). Free for All? Lessons from the RAND Health
           Insurance Experiment. Harvard University Press.
    .. [3] Deb, P. and Trivedi, P. K. (2002). The structure of demand for health care: latent class versus two-part
           models. Journal of Health Economics 21(4), 601-625.
    .. [4] Cameron, A. C. and Trivedi, P. K. (2005). Microeconometrics: Methods and Applications. Cambridge
           University Press.

    Examples
    --------
    >>> from sklearn_dpmix.datasets import load_rand_hie
    >>> disea = load_rand_hie()
    >>> disea.shape
    (20190,)
    >>> print(f"{disea.min()} to {disea.max()}, mean {disea.mean():.2f}")
    0.0 to 58.6, mean 11.24
    """
    return read("rand_hie.csv.gz")
