"""Data augmentation for sums of sufficient statistics that are cut at bounds: exact, at a cost per record."""

from math import exp, inf

from ..._base.compiled import Component, compiled, helper, lower
from .._proposal import log_proposal, proposal_fields, propose
from .._release_density import log_release
from ._augmented_state import N_RECORDS
from ._carry import carried_total, carry_records, move_blocks
from ._sweeps import update_records

OLD, NEW, TO = 4, 5, 6  # rows of the scratch


class FamilyAugmentation(Component):
    """Data augmentation with one more non-centred move, which goes anywhere in the posterior, by its approximate modes.

    If records are dropped, two distant values of a parameter may explain the same sum, and small steps never link them.

    Parameters
    ----------
    centres, factors, log_weights : ndarrays
        The modes, as in ``proposal_fields``.
    n_moves : int, default=4
        Rounds of such a move and random-walk moves.
    n_rounds : int, default=1
        Number of rounds of records, parameters and moves in a sweep.  If many records are beyond the bounds, parameters
        follow their number, which changes slowly if there is little noise.
    """

    def __init__(self, centres, factors, log_weights, n_moves=4, n_rounds=1):
        self.centres = centres
        self.factors = factors
        self.log_weights = log_weights
        self.n_moves = n_moves
        self.n_rounds = n_rounds

    def _lower(self, **context):
        fields = proposal_fields(self.centres, self.factors, self.log_weights)
        return lower(type(self), {**fields, "n_moves": float(self.n_moves), "n_rounds": float(self.n_rounds)})

    @compiled
    def n_updates(self, state):
        return state.ints[N_RECORDS]

    @compiled
    def move(self, model, channel, S, state, rng, current, warming_up):
        model.exchange(rng, state.theta, state.records, state.contributions, state.ints[N_RECORDS])
        for turn in range(int(self.n_rounds)):
            if turn > 0:
                current = update_records(rng, state.ints[N_RECORDS], model, channel, S, state)
                model.update_theta(rng, state.theta, state.records, state.ints[N_RECORDS], state.work)
            for _ in range(int(self.n_moves) if model.n_blocks() > 0 else 0):
                current = jump(rng, self, model, channel, S, state, current)
                current = move_blocks(rng, 1, model, channel, S, state, current, warming_up)


@helper
def jump(rng, sampler, model, channel, S, state, current):
    """A non-centred move to a draw of the mixture.  Returns the log density of the release."""
    theta, work = state.theta, state.work
    before = model.log_prior_block(theta, 0)
    if not before > -inf:  # beyond what these moves reach: nothing would lead back
        return current
    old, new, to, total = work[OLD], work[NEW], work[TO], work[0][: state.total.size]
    model.get_block(theta, 0, old)
    propose(rng, sampler, old, new, True)
    model.set_block(to, 0, new)
    gain = model.log_prior_block(to, 0) - before
    gain += log_proposal(sampler, old) - log_proposal(sampler, new)
    if not gain > -inf:
        return current
    carried_total(model, to, 0, state, total)
    proposed = log_release(channel, S, total)
    gain += proposed - current
    if not (gain >= 0.0 or rng.random() < exp(gain)):
        return current
    carry_records(model, to, 0, state, total)
    return proposed
