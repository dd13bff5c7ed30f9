"""What data augmentation asks of a model of confidential records."""

from .._compiled import Component, compiled


class RecordModel(Component):
    """What data augmentation asks of a model: compiled methods on flat parameters ``theta``.

    ============================================================  ====================================================
    ``draw_record(rng, theta, records, i)``                        a record from the model, into row i
    ``contribute(records, i, contributions, row)``                 t(record i), into a row of ``contributions``
    ``update_theta(rng, theta, records, n, work)``                 a move of θ that keeps its law given n records exact
    ============================================================  ====================================================

    and for non-centred moves, of ``n_blocks()`` blocks of parameters one after the other,

    ============================================================  ====================================================
    ``block_size(block)``                                          how many numbers the block has
    ``get_block(theta, block, v)``, ``set_block(theta, block, v)``  the block as unconstrained numbers, from and to θ
    ``log_prior_block(theta, block)``                              log prior density of those numbers given the rest
    ``carry(theta, to, block, records, i, row)``                   record i with its residual under ``theta`` kept, as
                                                                   it is under ``to``, into a row of ``records``
    ============================================================  ====================================================
    """

    @compiled
    def n_blocks(self):
        return 0

    # What a model without blocks need not define, but compiled code refers to:

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
