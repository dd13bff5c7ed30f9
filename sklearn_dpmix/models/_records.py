"""What data augmentation needs from a model of confidential records."""

from .._base.compiled import Component, compiled


class RecordModel(Component):
    """What data augmentation needs from a model: compiled methods on flat parameters ``theta``.

    ============================================================  ====================================================
    ``draw_record(rng, theta, records, i)``                        a record from the model, into row i
    ``contribute(records, i, contributions, row)``                 t(record i), into a row of ``contributions``
    ``update_theta(rng, theta, records, n, work)``                 a move of θ that is exact given n records
    ============================================================  ====================================================

    and for non-centred moves of ``n_blocks()`` blocks of parameters, one after the other,

    ============================================================  ====================================================
    ``block_size(block)``                                          how many numbers the block has
    ``get_block(theta, block, v)``                                 the block as unconstrained numbers, from θ
    ``set_block(theta, block, v)``                                 and back to θ
    ``log_prior_block(theta, block)``                              log prior density of those numbers given the rest
    ``carry(theta, to, block, records, i, row)``                   record i with its residual under ``theta`` kept, as
                                                                   it is under ``to``, into a row of ``records``
    ============================================================  ====================================================

    Compiled samplers inside the package use it; a model in plain NumPy goes with ``PrivatePosteriorDA`` instead.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import compiled
    >>> from sklearn_dpmix.models import RecordModel
    >>> class Coins(RecordModel):  # θ[0] is the probability of heads, with a uniform prior
    ...     @compiled
    ...     def draw_record(self, rng, theta, records, i):
    ...         records[i, 0] = 1.0 if rng.random() < theta[0] else 0.0
    ...
    ...     @compiled
    ...     def contribute(self, records, i, contributions, row):
    ...         contributions[row, 0] = records[i, 0]
    ...
    ...     @compiled
    ...     def update_theta(self, rng, theta, records, n, work):
    ...         heads = records[:n, 0].sum()
    ...         theta[0] = rng.beta(1.0 + heads, 1.0 + n - heads)
    >>> records, theta = np.zeros((100, 1)), np.array([0.9])
    >>> model, rng = Coins(), np.random.default_rng(0)
    >>> for i in range(100):  # compiled methods run as Python, too
    ...     model.draw_record(rng, theta, records, i)
    >>> model.update_theta(rng, theta, records, 100, None)
    >>> bool(0.75 < theta[0] < 1.0)
    True
    """

    #: what compiled code calls where a class has it, and so must be ``@compiled``
    called_compiled = frozenset(("draw_record", "contribute", "update_theta"))

    @compiled
    def n_blocks(self):
        return 0

    # Methods that a model without blocks need not define, but to which compiled code refers:

    @compiled
    def block_size(self, block):
        return 0

    @compiled
    def get_block(self, theta, block, v):
        pass

    @compiled
    def set_block(self, theta, block, v):
        pass

    @compiled
    def log_prior_block(self, theta, block):
        return 0.0

    @compiled
    def carry(self, theta, to, block, records, i, row):
        pass
