"""Releases made by OpenDP, whose noise resists floating-point attacks; the optional extra ``[secure]``.

NumPy's noise, added in floating point, has holes: some doubles can be released for one record and not for its neighbour
(Mironov 2012), so a release may give its record away, whatever ε says.  OpenDP draws the noise on the grid of multiples
of k = 2^-1074, which holds all doubles, adds it without error and rounds the *sum*; rounding a private value loses
nothing.  So the value itself must go through OpenDP: noise that OpenDP drew at 0 and NumPy added would have the holes
again.

This protects against holes and uneven gaps in the floating-point noise, against a seed that leaks (the randomness is
the operating system's), and against rounding of the calibration (the scale is rounded up by ``MARGIN``).  It does not
protect against timing (how long a draw takes depends on the draw), against rounding *inside a query* (a sum over
records in floating point may move by a few units in its last place more than the sensitivity says), or against anyone
who can read the memory of the process.
"""

import numpy as np

#: Relative excess of the noise scale: sensitivity, ε and their quotient are rounded, but never at the cost of privacy.
MARGIN = 2.0**-40


def secure_release(noise, value, scale):
    """Return ``value`` with noise, through OpenDP.

    Parameters
    ----------
    noise : {"laplace", "gaussian", "discrete laplace", "discrete gaussian"}
    value : ndarray of float
        Finite; integers below 2^53 in magnitude if the noise is discrete.
    scale : float or ndarray that broadcasts to ``value``
        b of Laplace noise, or the standard deviation of Gaussian noise (the parameter σ of discrete noise), for each
        entry.

    Returns
    -------
    release : ndarray of float, of the shape of ``value``

    Raises
    ------
    ImportError
        Without OpenDP.
    """
    flat = np.ravel(value)
    if noise.startswith("discrete"):
        flat = flat.astype(np.int64)
    scales, group, counts = np.unique(
        np.broadcast_to(scale, np.shape(value)).ravel(), return_inverse=True, return_counts=True
    )
    release = np.empty(flat.shape)
    ends = np.cumsum(counts)[:-1]
    for rows, one in zip(np.split(np.argsort(group, kind="stable"), ends), scales, strict=True):
        release[rows] = measurement(noise, one)(flat[rows].tolist())
    return release.reshape(np.shape(value))


def measurement(noise, scale):
    """Return OpenDP's measurement that adds ``noise`` of ``scale`` (and ``MARGIN``) to a list of floats or integers."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ImportError('secure=True needs OpenDP: pip install "sklearn-dpmix[secure]"') from None
    dp.enable_features("contrib")  # OpenDP's word for what is proved but not yet vetted by its committee
    make, distance = {
        "laplace": (dp.m.make_laplace, dp.l1_distance),
        "gaussian": (dp.m.make_gaussian, dp.l2_distance),
    }[noise.removeprefix("discrete ")]
    atom = dp.atom_domain(T=dp.i64) if noise.startswith("discrete") else dp.atom_domain(T=float, nan=False)
    domain = dp.vector_domain(atom)
    return make(domain, distance(T=float), scale=float(scale) * (1.0 + MARGIN))
