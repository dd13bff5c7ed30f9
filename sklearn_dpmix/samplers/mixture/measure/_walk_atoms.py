"""A walk's numbers and atoms: where they are, what the prior says of them, and how to choose among them."""

from math import exp, log

from ...._base.compiled import apart, helper

# a state's ints
N_ATOMS, N_DUST, N_SWEEPS = range(3)
# a walk's law: its ints as floats, and the others; then what its chart says of each feature
# CONCENTRATION: what is random beside the masses: α, ζ, or the number of components below the cut
CONCENTRATION, TOTAL, LOG_LIKELIHOOD, N_RECORDS, CUT, N_MOVES = range(3, 9)
OUTSIDE, OUTSIDE_A, OUTSIDE_B = range(9, 12)  # the mass of those outside of the mixture (``_outside``), and its prior
# how many more times than once a sweep renews small masses (``_small_masses``); whether all tables are filled
MORE_RENEWALS, IS_FILLED = 12, 13
BY_RESIDUALS = 14  # whether residuals are kept beside the releases (``_hidden_residuals``)
STIFFNESS = 15  # of means, for a mass of 1: records without noise may be repeated, and the metric not know it
IS_STALE = 16  # at how many nodes the mixture's sum lost digits: it is made anew before the next move
IS_FRESH = 17  # whether that sum is as it was made anew: nothing was added since, or taken away
IS_EXCURSION = 18  # whether a sweep is an excursion
PER_FEATURE = 19
CENTRE, REACH, NEAR = range(3)

TILT = 20.0
LARGEST = 20.0  # of an atom's J: more has probability e^-300
LARGEST_OUTSIDE = 1e12
LINE = 8  # numbers in a line of the cache, and in a register: nodes and tables are laid out by these
DUST_RANGE = 6.6  # the dust's atoms are from the cut down to e^-6.6 of it


@helper
def at(walk, k):
    """Where atom k begins in ``atoms``."""
    return k * walk.width


@helper
def row(walk, k):
    """Where its table begins."""
    return k * walk.n_rows * walk.n_nodes


@helper
def n_all(walk):
    """How many atoms there are, dust included."""
    return int(walk.law[N_ATOMS] + walk.law[N_DUST])


@helper
def number(walk, k):
    """The atom's number, of the k-th of all."""
    n_atoms = int(walk.law[N_ATOMS])
    return k if k < n_atoms else walk.capacity + k - n_atoms


@helper
def log_tilt(walk, n_atoms, total):
    """Log density of S, with e^-J of all atoms, apart from what the law of the masses already contains."""
    value = walk.masses.power(walk, n_atoms) * log(total) - (TILT + 1.0) * total
    return value + log_mass_inside(walk, total, walk.law[OUTSIDE])


@helper
def log_mass_inside(walk, total, outside):
    """Log of the factor in S of the outside share's beta density, apart from ``outside`` to the power a."""
    a, b = walk.law[OUTSIDE_A], walk.law[OUTSIDE_B]
    return b * log(total) - (a + b) * log(total + outside)


@helper
def log_one_more(walk, n_atoms):
    """Log ratio of the prior with one atom more than that many, and the same total, beyond its place and J^shape."""
    ratio = walk.masses.log_growth(walk, n_atoms)
    return ratio + log_tilt(walk, n_atoms + 1, walk.law[TOTAL]) - log_tilt(walk, n_atoms, walk.law[TOTAL])


@helper
def accepts(rng, log_ratio):
    """Whether a proposal is accepted."""
    return log(1.0 - rng.random()) < log_ratio


@helper
def draw_level(rng, walk, log_ratio):
    """The log likelihood above which a proposal is accepted, given the log ratio of all else."""
    return walk.law[LOG_LIKELIHOOD] + log(1.0 - rng.random()) - log_ratio


@helper
def draw_poisson(rng, rate):
    """A Poisson number, by the waiting times of its process."""
    n, time = 0, rng.standard_exponential()
    while time < rate:
        n += 1
        time += rng.standard_exponential()
    return n


@apart
def copy_numbers(walk, k, source):
    """Give atom k the mass and the coordinates of atom ``source``, but not its table."""
    a, b = at(walk, k), at(walk, source)
    for e in range(walk.width):
        walk.atoms[a + e] = walk.atoms[b + e]


@apart
def copy_atom(walk, k, source):
    """Make atom k what atom ``source`` is."""
    copy_numbers(walk, k, source)
    tables, a, b = walk.tables, row(walk, k), row(walk, source)
    walk.has_slopes[k] = walk.has_slopes[source]
    for m in range((walk.n_rows if walk.has_slopes[k] == 1.0 else 1) * walk.n_nodes):
        tables[a + m] = tables[b + m]


@helper
def random_mass(rng, walk):
    """A random mass, from one that hardly holds a record to a tenth of all; moves choose among the atoms above it."""
    log_least = log(walk.masses.lightest(walk))
    return exp(log_least + rng.random() * (log(0.1) - log_least))


@helper
def n_above(walk, least):
    """How many atoms are above a mass."""
    found = 0
    for k in range(int(walk.law[N_ATOMS])):
        if walk.atoms[at(walk, k)] > least:
            found += 1
    return found


@helper
def draw_above(rng, walk, least):
    """One of the atoms above a mass; -1 if there is none."""
    left = int(rng.random() * n_above(walk, least))
    for k in range(int(walk.law[N_ATOMS])):
        if walk.atoms[at(walk, k)] > least:
            if left == 0:
                return k
            left -= 1
    return -1


@helper
def choose_above(rng, walk, least, most, chosen):
    """Write at most so many of the atoms above a mass, drawn without replacement, into ``chosen``; return how many."""
    left = n_above(walk, least)
    r = min(left, most)
    wanted = r
    for k in range(int(walk.law[N_ATOMS])):
        if walk.atoms[at(walk, k)] > least:
            if rng.random() * left < wanted:
                chosen[r - wanted] = k
                wanted -= 1
            left -= 1
    return r


@helper
def remove(walk, k):
    """Take atom k away; the last one gets its row."""
    walk.law[N_ATOMS] -= 1.0
    last = int(walk.law[N_ATOMS])
    if k != last:
        copy_atom(walk, k, last)
