"""Weeks from release to re-arrest in the study of Rossi, Berk and Lenihan; see PROVENANCE.md beside this file."""

from .._base.typing import Floats
from ._read import read


def load_rossi() -> Floats:
    """Weeks from release from prison to the first arrest, of 114 men in the study of Rossi, Berk and Lenihan.

    Returns
    -------
    weeks : ndarray of shape (114,), float64
        The number of the week after release in which the first arrest came, in the order of the source. It is a whole
        number, 1 for the first week. The study followed each man for one year and counted weeks from 1, so
        ``bounds=(1, 52)`` hold for each arrest that it recorded, without looking at the data; for log-durations
        ``bounds=(0, np.log(52))``.

    Notes
    -----
    **A row is a man who was arrested.** The study [1]_ followed 432 men released from Maryland state prisons in the
    1970s, half of them given financial aid. The 318 who were not arrested within the year are censored at 52 weeks and
    left out, so these are durations given that an arrest came within the year. That a man is among the 114, and their
    number, is taken as known by whoever releases these weeks record by record.

    **The values are discrete**: 49 different weeks.

    The data are widely used as an example [2]_ and come with lifelines [3]_ under the MIT licence. The packaged file
    ``PROVENANCE.md`` says how the column was extracted.

    References
    ----------
    .. [1] Rossi, P. H., Berk, R. A. and Lenihan, K. J. (1980). Money, Work, and Crime: Some Experimental Results.
           Academic Press.
    .. [2] Allison, P. D. (1995). Survival Analysis Using the SAS System: A Practical Guide. SAS Institute.
    .. [3] ``lifelines.datasets.load_rossi``.

    Examples
    --------
    >>> from sklearn_dpmix.datasets import load_rossi
    >>> weeks = load_rossi()
    >>> weeks.shape
    (114,)
    >>> print(f"{weeks.min():.0f} to {weeks.max():.0f}, mean {weeks.mean():.1f}")
    1 to 52, mean 28.7
    """
    return read("rossi.csv.gz")
