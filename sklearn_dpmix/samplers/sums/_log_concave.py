"""Exact draws from one-dimensional log-concave distributions, on integers or the line, with bounded evaluations.

A distribution is given by f(x) = log density or log mass + constant, concave on lo <= x <= hi and finite between the
ends.  Concavity alone proves a hat in three pieces (Devroye 1986, §VII.2; Leydold 2003), with points l < m < r:

- beyond r, the chord through m and r lies above f, and likewise below l: exponential (geometric) tails;
- between them f is at most f(m) + a little.  The mode lies in a bracket a <= m <= b with f(a), f(b) <= f(m), and on
  either side of m a chord of two points of the other side, extended, lies above f: the mode need not be known exactly.

l and r are put where f is 0.7 to 2.5 below f(m), so that a try is accepted with probability at least 0.3, whatever the
distribution.  The bracket starts at a guess and grows or shrinks by factors of two: from a good guess this takes a
handful of evaluations, from a bad one O(log(distance / spread)).  The quality of the guess changes the cost and never
the distribution.
"""

import math

from ..._base.compiled import helper

LOW_DROP, HIGH_DROP = 0.7, 2.5  # the tails start where the density is this far below its mode, in logs
SLACK = 0.25  # the flat piece may be so far above the mode
MAX_STEPS = 2000  # of any search: beyond the range of floating point
MAX_TRIES = 10_000  # each succeeds with probability 0.3 or more


@helper
def log_law(law, context, x):
    """f(x) of the distribution, compiled once: methods are inlined where they are called."""
    return law.log_law(context, x)


@helper
def inner(a, b, is_integer):
    """A point between a and b; an integer between two integers that are at least 2 apart."""
    x = 0.5 * (a + b)
    return float(math.floor(x)) if is_integer else x


@helper
def chord_excess(far, f_far, near, f_near, reach, f_mode):
    """How far above f_mode the chord through two points, extended by ``reach`` beyond the near one, can get."""
    return f_near + reach * (f_near - f_far) / abs(near - far) - f_mode


@helper
def climb(law, context, lo, hi, guess, width, is_integer):
    """Return two points on either side of the best point m, with f, from left to right: the outer ones, a, m, b.

    a <= m <= b with f(a), f(b) <= f(m), and a < m unless m = lo, b > m unless m = hi.  A point that there is not is m,
    or a (b) for the outer one.
    """
    m = min(max(guess, lo), hi)
    f_m = log_law(law, context, m)
    a = b = outer_a = outer_b = m
    f_a = f_b = f_outer_a = f_outer_b = f_m
    step = max(float(math.floor(width)), 1.0) if is_integer else width
    to_right, climbed = True, False
    for _ in range(MAX_STEPS):  # to the right as long as it goes up, then to the left if it did not
        x = min(m + step, hi) if to_right else max(m - step, lo)
        rises = False
        if x != m:
            f_x = log_law(law, context, x)
            rises = f_x > f_m
            if to_right:
                if rises:
                    outer_a, f_outer_a, a, f_a = a, f_a, m, f_m
                else:
                    b, f_b = x, f_x
            elif rises:
                outer_b, f_outer_b, b, f_b = b, f_b, m, f_m
            else:
                a, f_a = x, f_x
        if rises:
            climbed = True
            m, f_m = x, f_x
            step *= 2.0
        elif climbed or not to_right:
            break
        else:
            to_right = False
    return outer_a, f_outer_a, a, f_a, m, f_m, b, f_b, outer_b, f_outer_b


@helper
def bracket_mode(law, context, lo, hi, guess, width, is_integer):
    """Return (a, m, b, f(m), excess): a and b as in :func:`climb`, f <= f(m) + excess on [lo, hi], excess <= SLACK."""
    outer_a, f_outer_a, a, f_a, m, f_m, b, f_b, outer_b, f_outer_b = climb(
        law, context, lo, hi, guess, width, is_integer
    )
    apart = 1.0 if is_integer else 0.0  # nothing is between neighbours
    excess = math.inf
    for _ in range(MAX_STEPS):
        left = right = 0.0  # how far above f(m) f can get on either side
        if m - a > apart:
            left = math.inf
            if b > m:
                left = chord_excess(b, f_b, m, f_m, m - a, f_m)
            if outer_a < a:
                left = min(left, chord_excess(outer_a, f_outer_a, a, f_a, m - a, f_m))
        if b - m > apart:
            right = math.inf
            if a < m:
                right = chord_excess(a, f_a, m, f_m, b - m, f_m)
            if outer_b > b:
                right = min(right, chord_excess(outer_b, f_outer_b, b, f_b, b - m, f_m))
        excess = max(left, right, 0.0)
        if excess <= SLACK:
            break
        at_right = b - m > m - a
        x = inner(m, b, is_integer) if at_right else inner(a, m, is_integer)
        f_x = log_law(law, context, x)
        if f_x > f_m:  # a better m; the old one is next to it
            if at_right:
                outer_a, f_outer_a, a, f_a = a, f_a, m, f_m
            else:
                outer_b, f_outer_b, b, f_b = b, f_b, m, f_m
            m, f_m = x, f_x
        elif at_right:
            outer_b, f_outer_b, b, f_b = b, f_b, x, f_x
        else:
            outer_a, f_outer_a, a, f_a = a, f_a, x, f_x
    return a, m, b, f_m, excess


@helper
def tail_start(law, context, m, f_m, first, end, is_integer):
    """Return (x, f(x)), first seen at ``first``, where f has dropped by LOW_DROP to HIGH_DROP from f(m).

    By more where integers leave no choice; ``end`` (above or below m) where f does not drop so far, or near it only.
    """
    near, far, x, f_x = m, math.inf, first, f_m
    for _ in range(MAX_STEPS):
        f_x = log_law(law, context, x)
        drop = f_m - f_x
        if x == far or LOW_DROP <= drop <= HIGH_DROP:
            break
        if drop < LOW_DROP:
            if x == end:
                break
            near = x
        else:
            far = x
        if far == math.inf:
            x = m + 2.0 * (x - m)
            x = min(x, end) if end > m else max(x, end)
        elif far == end and abs(near - m) >= 0.5 * abs(end - m):
            x = end  # as flat as far as half-way: the flat piece may go on to the end
            break
        elif is_integer and abs(far - near) <= 1.0:
            x = far
        else:
            x = inner(near, far, is_integer)
            if x == near:  # floating point has nothing between: the steeper side is safe
                x = far
    return x, f_x


@helper
def find_hat(law, context, lo, hi, guess, width, is_integer):
    """Return (m, f(m), l, f(l), r, f(r), excess): what ``draw_under_hat`` needs."""
    a, m, b, f_m, excess = bracket_mode(law, context, lo, hi, guess, width, is_integer)
    left, f_left, right, f_right = m, f_m, m, f_m
    for side in range(2):
        first, end = (a, lo) if side == 0 else (b, hi)
        if end != m:
            x, f_x = tail_start(law, context, m, f_m, first, end, is_integer)
            if side == 0:
                left, f_left = x, f_x
            else:
                right, f_right = x, f_x
    return m, f_m, left, f_left, right, f_right, excess


@helper
def draw_under_hat(rng, law, context, lo, hi, m, f_m, left, f_left, right, f_right, excess, is_integer):
    """Draw from the hat until a draw is under f.  NaN if none ever is.

    On the line the flat piece is (l, r); on integers it has those between l and r, and the tails start at l and r,
    where they touch f.  An end of the support that is within the flat piece has no tail, and counts to the flat piece.
    """
    left_slope = (f_m - f_left) / (m - left) if left > lo else math.inf
    right_slope = (f_m - f_right) / (right - m) if right < hi else math.inf
    left_mass = right_mass = 0.0
    if is_integer:
        first = left + 1.0 if left > lo else left
        count = (right - 1.0 if right < hi else right) - first + 1.0
        if left > lo:
            left_mass = math.exp(f_left - f_m) / -math.expm1(-left_slope)
        if right < hi:
            right_mass = math.exp(f_right - f_m) / -math.expm1(-right_slope)
    else:
        first, count = left, right - left
        if left > lo:
            left_mass = math.exp(f_left - f_m) / left_slope
        if right < hi:
            right_mass = math.exp(f_right - f_m) / right_slope
    flat_mass = count * math.exp(excess)
    for _ in range(MAX_TRIES):
        u = rng.random() * (flat_mass + left_mass + right_mass)
        if u < flat_mass:
            x = first + count * (u / flat_mass)
            if is_integer:
                x = min(float(math.floor(x)), first + count - 1.0)
            log_hat = f_m + excess
        else:
            at_left = u - flat_mass < left_mass
            slope = left_slope if at_left else right_slope
            x = rng.standard_exponential() / slope
            if is_integer:
                x = float(math.floor(x))
            log_hat = (f_left if at_left else f_right) - slope * x
            x = left - x if at_left else right + x
            if x < lo or x > hi:
                continue
        if rng.standard_exponential() >= log_hat - log_law(law, context, x):
            return x
    return math.nan  # f was not finite, or not concave


@helper
def draw_log_concave(rng, law, context, lo, hi, guess, width, is_integer):
    """Draw from a log-concave distribution exactly.

    Parameters
    ----------
    rng : numpy.random.Generator
    law : component value with a compiled ``log_law(self, context, x)``
        The log density (mass) at x, up to a constant: concave, and finite inside (lo, hi).
    context : what ``log_law`` gets
    lo, hi : float
        Ends of the support, infinities allowed; integers where ``is_integer``.
    guess : float
        Near the mode; f is finite there.  Inside the support, an integer where ``is_integer``.
    width : float
        Of the order of the spread, positive.  Neither changes the distribution.
    is_integer : bool

    Returns
    -------
    x : float
        NaN where f is not finite or not concave, so that no draw is ever accepted.
    width : float, for the next draw from a distribution like this one
    """
    if lo >= hi:
        return lo, width
    m, f_m, left, f_left, right, f_right, excess = find_hat(law, context, lo, hi, guess, width, is_integer)
    x = draw_under_hat(rng, law, context, lo, hi, m, f_m, left, f_left, right, f_right, excess, is_integer)
    width = max(right - m, m - left) if left == m or right == m else min(right - m, m - left)
    if is_integer:
        return x, max(1.0, float(math.floor(0.5 * width)))
    return x, max(0.4 * width, 1e-300)
