"""What data augmentation needs from a model of a regression's predictors."""

from .._base.compiled import Component, compiled


class PredictorLaw(Component):
    """The part of a regression's records that is not y: compiled methods on flat parameters ``theta``.

    The parameters of the predictors' distribution are in ``theta`` from place p + 2 on, after (α, β, σ).  ``self.p`` is
    p.

    ============================================================  ====================================================
    ``draw(rng, theta, records, i)``                               x of a record, into the first places of row i
    ``update(rng, theta, records, n, sums, matrix, vector,         the parameters given n records, of which
    scratch)``                                                     ``sums`` has the products of (1, x, y)
    ``standardise(theta, records, i, row)``                        z of record i, into a row of ``records``: what
                                                                   non-centred moves hold
    ``set_coefs(theta, coefs)``                                    row j: x_j, mapped to [-1, 1], in terms of (1, z)
    ============================================================  ====================================================

    x must be linear in z.  If the parameters have non-centred moves, ``n_blocks()`` is 1, and ``block_size()``,
    ``get_block``, ``set_block``, ``log_prior`` and ``carry`` are as in :class:`RecordModel`; ``set_force(theta, by,
    force)`` is the gradient of a log density in the block, where ``by`` has that of the noise by ``coefs``.  Otherwise
    z may be x itself.

    If ``has_shape``, many records of one predictor change at once, with ``n_scratch`` = 1 more column:

    ============================================================  ====================================================
    ``count(records, n, j, counts)``                               how many records are in each cell of predictor j
    ``propose(rng, n, counts, cells, direction, change)``          a change of the counts, and its log ratio
    ``change_moments(change)``                                     what Σ x and Σ x² change by, roughly, x on [-1, 1]
    ``relocate(rng, records, n, j, counts, change, column)``       predictor j after that change, into a column
    ============================================================  ====================================================

    In Python: ``n_params``; ``size``, how many of them a non-centred move has, and ``first_steps()``; ``known(centre,
    spread)``, which writes what is known into a guess of means and covariances; ``start(centre, spread, rng)``,
    parameters near such a guess; ``check(theta)``, which refuses impossible draws (n_draws, n_params); ``draws(theta,
    bounds)``, what a fit shows of draws (..., n_params), for data within ``bounds``; ``monitored``, the names of those
    for which R-hat is computed.
    """

    size = 0
    has_shape, n_scratch = False, 0
    monitored = ("x_mean",)

    def first_steps(self):
        return []

    def known(self, centre, spread):
        """Nothing is known."""

    @compiled
    def n_blocks(self):
        return 0

    # Methods that a class without a block need not define, but to which compiled code refers:

    @compiled
    def block_size(self):
        return 0

    @compiled
    def get_block(self, theta, v):
        pass

    @compiled
    def set_block(self, theta, v):
        pass

    @compiled
    def log_prior(self, theta):
        return 0.0

    @compiled
    def set_force(self, theta, by, force):
        pass

    @compiled
    def takes_any_map(self):
        """Whether θ of the predictors can follow any affine map of them, by ``map_theta``."""
        return False

    @compiled
    def map_theta(self, theta, image, to):
        pass

    @compiled
    def carry(self, theta, to, records, i, row):
        pass
