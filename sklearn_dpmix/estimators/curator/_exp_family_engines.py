"""Which sampler PrivateExpFamilyGibbs runs, and its parts as compiled code sees them."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..._base.acceptance import ACCEPTED as RECORDS_ACCEPTED
from ..._base.acceptance import PROPOSED as RECORDS_PROPOSED
from ..._base.restore import require, require_range, require_whole
from ..._chains.problem import Problem
from ...mechanisms import LaplaceMechanism
from ...models._family_records import RECORD_MODELS
from ...samplers._driver import advance_sampler, most_times
from ...samplers.augmentation._augmented_state import N_RECORDS, restored_augmentation, start_augmentation
from ...samplers.augmentation._family_sums import FamilyAugmentation
from ...samplers.augmentation._sweeps import advance_augmentation
from ...samplers.sums._fitted_mixture import fit_mixture
from ...samplers.sums._hidden_counts import Counts
from ...samplers.sums._hidden_sums import GammaSum, PoissonSum
from ...samplers.sums._integer_table import BinomialTable, PoissonTable
from ...samplers.sums._known_statistics import GivenBeta, GivenNormal
from ...samplers.sums._modes import collapsed, find_modes
from ...samplers.sums._normal_counts import NormalCounts
from ...samplers.sums._normal_statistic import NormalApproximation, RoundedNormalApproximation
from ...samplers.sums._statistic import ACCEPTED, PROPOSED
from ._count import known_count, variance_of

#: With up to this many records, "auto" imputes each of them if the statistic's distribution has no closed form (and,
#: with ``HUNDREDS``, the posterior has one mode); this takes a few hundred ns per record and sweep.  It never imputes
#: beta records, which have no non-centred moves: under large noise they and θ hold each other in place, and the release
#: says hardly more than a mean anyway.
AFFORDABLE = {"exponential": 1000, "gamma": 1000, "poisson": 200, "normal": 1000, "beta": 0}
MOST_RECORDS = 1e6  # and "exact" does
#: If at least the first number of at least the second number of records are beyond the bounds, chains of imputed
#: records are slow and the normal approximation is good.
TENS, HUNDREDS = 20, 200
#: Records come and go one by one where their number is unknown, which the release hardly allows if its noise is less
#: than so many times what one of them adds.  From ``TENS`` records on the normal approximation is then better.
LEAST_NOISE = 2.0
#: The share of records beyond the bounds from which on a sweep has several rounds: (n at most, rounds, moves in each).
#: Poisson records take longer to move.
CUT = 0.02
ROUNDS, POISSON_ROUNDS = ((100, 4, 4), (200, 2, 4)), ((50, 2, 2), (100, 2, 1))
WIDEST = 4.0  # Laplace noise counts as Gaussian of variances that differ by as much either way
WIDTHS = {1: [(1.0 / WIDEST,), (1.0,), (WIDEST,)],
          2: [(1.0, 1.0), (WIDEST, WIDEST), (WIDEST, 1.0 / WIDEST), (1.0 / WIDEST, WIDEST)]}  # fmt: skip
N_SEARCHED = 500  # draws of the prior from which the search for modes starts

SAMPLERS = {"counts": Counts, "poisson": PoissonSum, "gamma": GammaSum}
TABLES = {"counts": BinomialTable, "poisson": PoissonTable}
GIVEN = {"normal": GivenNormal, "beta": GivenBeta}


class Engine(NamedTuple):
    """The chains of a sampler, and what is said of them."""

    approximation: str  # "exact" or "normal"
    posed: Problem  # as chains know it
    n_proposed: Any  # state -> (proposed, accepted) moves


def choose_engine(problem, approximation):
    """Return the :class:`Engine` for a problem; raise ValueError if there is none."""
    if approximation == "normal":
        return normal_engine(problem)
    if problem.bounds is None:
        if problem.family.exact_law is not None:
            return exact_engine(problem)
        if problem.mechanism is None and problem.family.name in GIVEN:
            return given_engine(problem)
    reason = why_not_by_records(problem)
    if approximation == "exact":
        if reason is not None:
            raise ValueError(f'approximation="exact" is not possible here: {reason}; approximation="normal" handles it')
        return records_engine(problem, modes(problem))
    n = problem.n_records.likely
    if reason is None and n <= affordable(problem):
        found = modes(problem)
        is_slow = n >= HUNDREDS and n * cut_off(problem, found) >= TENS
        is_slow |= n >= TENS and holds_number(problem, found)
        if (n < HUNDREDS or len(found[0]) == 1) and not is_slow:
            return records_engine(problem, found)
    return normal_engine(problem)


def holds_number(problem, found):
    """Whether the number of records is unknown, and the release hardly lets any come or go, at the highest mode."""
    if problem.n_records.known:
        return False
    noise = np.sqrt(matched_noise(problem)[1])
    mean, root = np.zeros(len(noise)), np.zeros((len(noise), len(noise)))
    lowered(problem).moments(found[0][0], mean, root)
    return bool(np.any(noise < LEAST_NOISE * np.hypot(mean, np.linalg.norm(root, axis=1))))


def cut_off(problem, found):
    """The share of the records beyond the bounds, if there are bounds, at the highest mode."""
    if problem.bounds is None:
        return 0.0
    model, family, theta = lowered(problem), problem.family, np.zeros(problem.family.n_params)
    model.to_theta(found[0][0, : family.n_free], theta)
    x = family.draw(np.random.default_rng(0), np.broadcast_to(theta, (N_SEARCHED, len(theta))))
    return float(np.mean((x < problem.bounds[0]) | (x > problem.bounds[1])))


def rounds(problem, found):
    """(Rounds in a sweep, moves in each round)."""
    n, is_slow = problem.n_records.likely, problem.family.is_integer
    if cut_off(problem, found) > CUT:
        for most, n_rounds, n_moves in POISSON_ROUNDS if is_slow else ROUNDS:
            if n <= most:
                return n_rounds, n_moves
    return 1, 2 if is_slow and n > 100 else 4


def affordable(problem):
    """The most records that are imputed: none if two sums that are not scaled make a curved ridge."""
    if problem.family.n_statistics > 1 and problem.scaling is None:
        return 0
    return AFFORDABLE[problem.family.name]


def why_not_by_records(problem):
    """Why the posterior cannot be drawn by imputing all records; None if it can."""
    if problem.mechanism is None:
        return "without noise, no single imputed record can be changed"
    if problem.family.name not in RECORD_MODELS:
        return f"records of {problem.family!r} cannot be imputed"
    if problem.n_records.likely > MOST_RECORDS:
        return f"each record is imputed, and there are {problem.n_records.likely:.3g}, more than {MOST_RECORDS:.0g}"
    return None


def records_engine(problem, found):
    """Data augmentation: all records are imputed.  ``found`` are :func:`modes`, without an unknown n."""
    family, S = problem.family, problem.S
    d = family.n_free
    centres, factors = found[0][:, :d], found[1][:, :d, :d]
    model = RECORD_MODELS[family.name](
        family, problem.prior, problem.bounds, problem.outside, problem.gains, centres, factors
    )
    count = problem.n_records
    channel = problem.mechanism._lower(n_records=len(S), n_features=S.shape[1])
    mixture = centres, factors, found[2]
    if problem.n_records.known:  # otherwise the modes include n
        mixture = fit_mixture(collapsed_of(problem), *mixture)
    n_rounds, n_moves = rounds(problem, found)
    sampler, value = FamilyAugmentation(*mixture, n_moves=n_moves, n_rounds=n_rounds), model._lower()
    values = sampler._lower(), value, channel, count.counting()._lower()
    init = partial(start_augmentation, model, value, count.likely, count.most, S, None)
    advance, restored = partial(advance_augmentation, values, S, count.value), partial(restored_records, model, value)
    checks = restored, partial(check_draws, problem, None)
    return Engine("exact", Problem(S, init, advance, *checks, most_times(count.likely)), record_moves)


def restored_records(model, value, state, fresh, n_sweeps):
    """Return a state read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`)."""
    family = model.family
    state = restored_augmentation(value, state, fresh, n_sweeps)
    records = state.records[: state.ints[N_RECORDS], 0]
    require_range(*model.support, records=records)
    require(not family.is_integer or records == np.floor(records), "records", "has numbers that are not whole")
    require(family.possible(np.stack([state.theta, state.reference])), "theta", "or reference has no parameters")
    return state


def record_moves(state):
    """(proposed, accepted) records."""
    return state.floats[RECORDS_PROPOSED], state.floats[RECORDS_ACCEPTED]


def statistic_engine(approximation, sampler, value, model, problem, init):
    """The engine of a sampler in :mod:`sklearn_dpmix.samplers.sums._statistic`, whose value compiled code sees."""
    channel, counter, S, C = parts(problem)
    advance = partial(advance_sampler, (value, model, channel, counter), S, C, problem.family.n_params)
    restored = partial(sampler.restored, model, bool(problem.n_records.known), problem.mechanism is None)
    check = partial(check_draws, problem, sampler)
    return Engine(approximation, Problem(problem.S, init, advance, restored, check, most_times()), theta_moves)


def check_draws(problem, sampler, draws):
    """Raise ValueError if draws of a checkpoint are impossible; ``sampler`` knows what the statistic can be."""
    require(problem.family.possible(draws.theta), "theta", "has draws that are no parameters")
    require_whole(problem.n_records.known or None, n_records=draws.n_records)
    if problem.mechanism is None:
        require(draws.statistic == problem.S[0], "statistic", "is not what was given to fit")
    elif sampler is not None:
        sampler.check_statistic(draws.statistic)


def theta_moves(state):
    """(proposed, accepted) moves of θ."""
    return state.ints[PROPOSED], state.ints[ACCEPTED]


def parts(problem):
    """(channel, counter, S, C) as compiled code sees them.

    Without a mechanism the statistic stays where it is: a channel without a release takes the mechanism's place.
    """
    S, count = problem.S, problem.n_records
    if problem.mechanism is None:
        channel = LaplaceMechanism(scale=1.0)._lower(n_records=1, n_features=S.shape[1])
        S = S[:0]
    else:
        channel = problem.mechanism._lower(n_records=len(S), n_features=S.shape[1])
    return channel, count.lowered_channel(channel), S, count.releases()


def exact_engine(problem):
    """The distribution of the statistic has a closed form; θ is integrated out."""
    family, n = problem.family, float(problem.n_records.likely)
    model = family._lower(prior=problem.prior)
    given = problem.S[0] if problem.mechanism is None else None
    if given is None and problem.n_records.known and family.n_statistics == 1 and family.exact_law in TABLES:
        channel, _, S, _ = parts(problem)
        table = TABLES[family.exact_law]().tabulate(model, channel, S, n)
        if table is not None:
            init = partial(table.init, model, family.n_params, n, None)
            return statistic_engine("exact", table, table._lower(), model, problem, init)
    if given is not None and family.exact_law == "counts" and family.n_statistics > 1:
        n = given.sum()  # counts say how many there are
        problem = problem._replace(n_records=known_count(max(int(n), 1)))
    sampler = SAMPLERS[family.exact_law]()
    init = partial(sampler.init, model, family.n_params, n, given)
    return statistic_engine("exact", sampler, sampler._lower(is_given=given is not None), model, problem, init)


def given_engine(problem):
    """Without a mechanism: the ordinary posterior."""
    if not problem.n_records.known:
        raise ValueError(
            f"mechanism=None says that s was released as it is; for family {problem.family.name!r} its exact posterior "
            f"then needs n_records as a number, got n_records={problem.n_records}: pass one, or "
            'approximation="normal", which is good if many records make up s'
        )
    sampler, model = GIVEN[problem.family.name](), problem.family._lower(prior=problem.prior)
    init = partial(sampler.init, model, problem.family.n_params, float(problem.n_records.known), problem.S[0])
    return statistic_engine("exact", sampler, sampler._lower(is_given=True), model, problem, init)


def normal_engine(problem):
    """The statistic given θ is taken to be normal."""
    family = problem.family
    if family.adds_up:
        return normal_counts_engine(problem)
    model = lowered(problem)
    given = problem.S[0] if problem.mechanism is None else None
    kind = NormalApproximation
    if given is None and problem.mechanism.is_discrete:
        kind = RoundedNormalApproximation
    is_gaussian = given is not None or problem.mechanism.is_gaussian
    widths, widest = ([1.0], 1.0) if is_gaussian else (WIDTHS[problem.S.shape[1]], WIDEST)
    mixture = fit_mixture(average([collapsed_of(problem, np.array(width)) for width in widths]), *modes(problem))
    sampler = kind(*mixture, problem.n_records.known, *matched_noise(problem), widest, given is not None)
    init = partial(sampler.init, model, family.n_params, given)
    return statistic_engine("normal", sampler, sampler._lower(), model, problem, init)


def lowered(problem):
    """The family as compiled code sees it, with all that determines what a record adds."""
    return problem.family._lower(
        prior=problem.prior, bounds=problem.bounds, outside=problem.outside, gains=problem.gains
    )  # fmt: skip


def normal_counts_engine(problem):
    """The same for multinomial counts."""
    given, n = (
        (None, float(problem.n_records.likely)) if problem.mechanism is not None else (problem.S[0], problem.S[0].sum())
    )
    if given is None and problem.mechanism.is_discrete:
        raise ValueError(
            'approximation="normal" treats multinomial counts as real numbers, but the noise of '
            f'{problem.mechanism!r} is on integers: use approximation="exact"'
        )
    if given is not None:
        problem = problem._replace(n_records=known_count(max(int(n), 1)))
    sampler, model = NormalCounts(), problem.family._lower(prior=problem.prior)
    init = partial(sampler.init, model, problem.family.n_params, n, given, problem.S.mean(axis=0))
    return statistic_engine("normal", sampler, sampler._lower(is_given=given is not None), model, problem, init)


def modes(problem):
    """Modes of the posterior under the normal approximation and Gaussian noise: :func:`find_modes`."""
    family = problem.family
    starts = family.to_free(problem.prior.draw(np.random.default_rng(0), N_SEARCHED, family))
    return find_modes(collapsed_of(problem), starts, problem.n_records.known, problem.n_records.value)


def average(log_densities):
    """The log of the mean of some densities."""
    return lambda V: logsumexp([one(V) for one in log_densities], axis=0) - np.log(len(log_densities))


def collapsed_of(problem, width=1.0):
    """The log density of θ (and n) under the normal approximation and Gaussian noise, its variance times ``width``."""
    (y, noise), count = matched_noise(problem), problem.n_records
    return collapsed(lowered(problem), y, width * noise, count.known, count.value, count.variance)


def matched_noise(problem):
    """Mean of the releases and the variance of its noise, (n_statistics,) each."""
    mechanism, S = problem.mechanism, problem.S
    if mechanism is None:
        return S[0], np.zeros(S.shape[1])
    scale = np.broadcast_to(mechanism.noise_scale_for(S.shape[1]), (len(S),))
    weight = scale**-2.0 / np.sum(scale**-2.0)  # of each release, by the precision of its noise
    unit = variance_of(mechanism) / np.mean(scale**2)
    return weight @ S, np.full(S.shape[1], unit * np.sum(weight**2 * scale**2))
