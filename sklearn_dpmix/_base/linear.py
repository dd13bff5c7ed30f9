"""Small dense linear algebra in compiled code, in place: no library call, nothing allocated.

Matrices are square arrays of which the leading d × d part counts; of a lower factor, the lower triangle.
"""

from math import inf, log, sqrt

from .compiled import apart, helper


@helper
def factor(a, d):
    """Overwrite the lower triangle of a positive definite matrix by its Cholesky factor."""
    factor_above(a, d, -inf)


@helper
def factor_above(a, d, least):
    """The same of a matrix whose eigenvalues are at least this: so are the squares of the factor's diagonal.

    Where others are large, rounding may take more from these than there is.
    """
    for j in range(d):
        for i in range(j, d):
            value = a[i, j]
            for r in range(j):
                value -= a[i, r] * a[j, r]
            if i == j:
                a[j, j] = sqrt(max(value, least))
            else:
                a[i, j] = value / a[j, j]


@apart
def try_factor(a, d):
    """As :func:`factor`; return the log determinant of the factor, or -1e300 if the matrix has none."""
    log_determinant = 0.0
    for i in range(d):
        for j in range(i + 1):
            value = a[i, j]
            for k in range(j):
                value -= a[i, k] * a[j, k]
            if i > j:
                a[i, j] = value / a[j, j]
            elif 0.0 < value < 1e300:
                a[i, i] = sqrt(value)
            else:
                return -1e300
        log_determinant += log(a[i, i])
    return log_determinant


@helper
def update_factor(a, b, sign, d):
    """Overwrite L by the factor of LL' + sign b b', and b by nothing of use; False if that is not positive definite."""
    for k in range(d):
        diagonal = a[k, k]
        square = diagonal * diagonal + sign * b[k] * b[k]
        if not square > 0.0:
            return False
        root = sqrt(square)
        c, s = root / diagonal, b[k] / diagonal
        a[k, k] = root
        for i in range(k + 1, d):
            a[i, k] = (a[i, k] + sign * s * b[i]) / c
            b[i] = c * b[i] - s * a[i, k]
    return True


@helper
def solve_lower(a, b, d):
    """Overwrite b by L⁻¹ b."""
    for i in range(d):
        value = b[i]
        for r in range(i):
            value -= a[i, r] * b[r]
        b[i] = value / a[i, i]


@helper
def solve_upper(a, b, d):
    """Overwrite b by L'⁻¹ b."""
    for i in range(d - 1, -1, -1):
        value = b[i]
        for r in range(i + 1, d):
            value -= a[r, i] * b[r]
        b[i] = value / a[i, i]


@helper
def eliminate(a, b, d, least):
    """Overwrite b by A⁻¹ b and A by nothing of use, any square A; return log |det A|.

    It is -inf where A is singular: a pivot is not above ``least``.
    """
    value = 0.0
    for k in range(d):
        pivot = k
        for r in range(k + 1, d):
            if abs(a[r, k]) > abs(a[pivot, k]):
                pivot = r
        if not abs(a[pivot, k]) > least:
            return -inf
        for c in range(k, d):
            a[k, c], a[pivot, c] = a[pivot, c], a[k, c]
        b[k], b[pivot] = b[pivot], b[k]
        value += log(abs(a[k, k]))
        for r in range(k + 1, d):
            ratio = a[r, k] / a[k, k]
            b[r] -= ratio * b[k]
            for c in range(k + 1, d):
                a[r, c] -= ratio * a[k, c]
    for k in range(d - 1, -1, -1):
        for c in range(k + 1, d):
            b[k] -= a[k, c] * b[c]
        b[k] /= a[k, k]
    return value


@helper
def multiply_lower(a, b, out, d):
    """out = L b for L in the lower triangle of a; four sums at a time, as one would wait for each of its additions."""
    for i in range(d):
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        whole = (i + 1) // 4 * 4
        for r in range(0, whole, 4):
            first += a[i, r] * b[r]
            second += a[i, r + 1] * b[r + 1]
            third += a[i, r + 2] * b[r + 2]
            fourth += a[i, r + 3] * b[r + 3]
        for r in range(whole, i + 1):
            first += a[i, r] * b[r]
        out[i] = (first + second) + (third + fourth)


@helper
def multiply_upper(a, b, d):
    """b <- L'b for L in the lower triangle of a, row by row."""
    for i in range(d):
        value = b[i]
        b[i] = 0.0
        for r in range(i + 1):
            b[r] += a[i, r] * value


@helper
def divide_triangle(a, b, d):
    """Overwrite A by A B⁻¹, both lower triangles."""
    for i in range(d):
        for j in range(i, -1, -1):
            value = a[i, j]
            for r in range(j + 1, i + 1):
                value -= a[i, r] * b[r, j]
            a[i, j] = value / b[j, j]


@helper
def invert_triangle(b, out, d):
    """out = B⁻¹, of lower triangles."""
    for i in range(d):
        for j in range(i + 1):
            out[i, j] = 1.0 if i == j else 0.0
    divide_triangle(out, b, d)


@helper
def multiply_triangles(a, b, times, out, d):
    """out = A B, times a number, of lower triangles."""
    for i in range(d):
        for j in range(i + 1):
            value = 0.0
            for r in range(j, i + 1):
                value += a[i, r] * b[r, j]
            out[i, j] = times * value


@helper
def add_square(a, times, out, d):
    """Add L L', times a number, to the lower triangle of ``out``, for L in that of a."""
    for i in range(d):
        for j in range(i + 1):
            value = 0.0
            for r in range(j + 1):
                value += a[i, r] * a[j, r]
            out[i, j] += times * value


@helper
def log_diagonal(a, d):
    """Log determinant of a triangle."""
    value = 0.0
    for i in range(d):
        value += log(a[i, i])
    return value


@helper
def draw_normal(rng, a, b, d):
    """Draw x ~ N(A⁻¹ b, A⁻¹) into b; the precision A is overwritten by its factor."""
    factor(a, d)
    solve_lower(a, b, d)
    for i in range(d):
        b[i] += rng.standard_normal()
    solve_upper(a, b, d)


@helper
def draw_inverse_wishart_factor(rng, a, d, dof, scratch):
    """Overwrite the factor C of a scale matrix Ψ = C C' by a factor of a draw from the inverse Wishart (Ψ, ν).

    With B lower triangular, B_ii² ~ χ²(ν - d + 1 + i) for i from 0 and standard normals below, B'B is Wishart(ν, I) (a
    Bartlett decomposition from below): so C (B'B)⁻¹ C' = (C B⁻¹)(C B⁻¹)' has the law asked for, and C B⁻¹ is lower.
    """
    for i in range(d):
        for j in range(i):
            scratch[i, j] = rng.standard_normal()
        scratch[i, i] = sqrt(2.0 * rng.standard_gamma(0.5 * (dof - d + 1.0 + i)))
    divide_triangle(a, scratch, d)
