"""A curvature matrix given its noisy release, by independent walkers of Hamiltonian Monte Carlo."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

N_LEAPFROG = 6
LONGEST_STEP = 0.6  # in units of the reference's standard deviations
EVENNESS = np.array([0.0, 1.0, 3.0, 10.0, 30.0, 100.0])  # k: how alike eigenvalues are a priori, each as likely
FARTHEST = 50.0  # of the log of a prior variance from its scale
ACCEPTED = 0.8  # what the step length is tuned to while walkers settle


class ReleasedScore(NamedTuple):
    """Gradient and curvature of a log likelihood at a public θ0, released with Gaussian noise."""

    theta: np.ndarray  # θ0, (p,)
    gradient: np.ndarray  # z = g(θ0) + N(0, s_g² I)
    gradient_noise: float  # s_g
    curvature: np.ndarray  # Z = H(θ0) + E, density of E proportional to exp(-‖E‖²/(2 s_H²)), Frobenius
    curvature_noise: float  # s_H
    prior_precision: float  # λ: θ ~ N(0, I/λ), or as prior_df says
    largest_trace: float  # of what H can be
    shapes: np.ndarray  # S, (n_shapes, p, p): H is about a multiple of one of them
    prior_df: float | None = None  # ν: the variance of each θ_j is Inv-Gamma(ν/2, ν/(2λ)), which makes it Student's t

    def precisions(self, theta):
        """Of coefficients a priori, (p,), in the mean given θ."""
        if self.prior_df is None:
            return np.full(len(theta), self.prior_precision)
        return self.prior_precision * (self.prior_df + 1.0) / (self.prior_df + self.prior_precision * theta * theta)

    def log_prior(self, theta):
        """Log density of coefficients a priori, up to a constant."""
        square = self.prior_precision * theta * theta
        if self.prior_df is None:
            return -0.5 * square.sum()
        return -0.5 * (self.prior_df + 1.0) * np.log1p(square / self.prior_df).sum()


class Expansion(NamedTuple):
    """The gradient's distribution at θ0 given θ and H: N(H (offset + slope θ), spread H + s_g² I)."""

    offset: np.ndarray  # (p,)
    slope: np.ndarray  # (p, p)
    spread: float


class Walkers(NamedTuple):
    """States, with the log density and its gradient there."""

    x: np.ndarray  # (size, n_coordinates)
    value: np.ndarray  # (size,)
    slope: np.ndarray  # (size, n_coordinates)


class CurvaturePosterior:
    """H given a :class:`ReleasedScore`, with θ integrated out.

    Prior: S is one of ``shapes``, tr(S⁻¹H) is uniform as far as ``largest_trace`` allows, and given both the density is
    proportional to det(H)^k, k one of ``EVENNESS``.  With k = 0, which treats all positive matrices alike, eigenvalues
    would be even farther apart than those of Z, by as much noise again, some of them near 0, and coefficients would be
    too large.  With k unknown, Z says how near H is to S, as in shrinkage of covariances (Ledoit & Wolf 2004).

    The gradient given θ and H is N(H(c + Aθ), bH + s_g² I), with c = -θ0, A = I and b = 1 if the log likelihood is
    quadratic.  So with θ integrated out z ~ N(Hc, V), V = bH + s_g² I + HADAᵀH, where D has the prior variances of θ:
    1/λ, or e^u/λ if ``prior_df`` is given, with u among the coordinates of a walker.

    H = R L D Lᵀ Rᵀ with L unit lower triangular, D diagonal and R a root of a guess; (log D, L) are scaled by the
    curvature of the log density at the guess, which makes it close to a standard normal where noise is small.

    Parameters
    ----------
    released : ReleasedScore
    expansion : Expansion, optional
        c, A and b.  None: those of a quadratic log likelihood.
    """

    def __init__(self, released, expansion=None):
        self.p = p = len(released.gradient)
        self.released = released
        self.offset, slope, self.spread = Expansion(-released.theta, np.eye(p), 1.0) if expansion is None else expansion
        self.slope = slope
        self.mean_square = (slope * slope).sum() / (p * released.prior_precision)
        self.n_entries = p * (p + 1) // 2
        self.df = released.prior_df
        self.n_coordinates = self.n_entries + (0 if self.df is None else p)
        # ∫ det(H)^k over matrices of trace 1 is Γ_p(a)/Γ(pa), a = k + (p + 1)/2
        self.log_shares = np.array([gammaln(p * a) - multigammaln(a, p) for a in EVENNESS + 0.5 * (p + 1)])
        self.lower = np.tril_indices(p, -1)
        self.inverses = np.linalg.inv(released.shapes)  # times a number that makes tr(S⁻¹H) the trace where H = S
        self.inverses *= (np.trace(released.shapes, axis1=1, axis2=2) / p)[:, None, None]
        self.log_dets = np.linalg.slogdet(self.inverses)[1]
        h, vectors = np.linalg.eigh(self._guess())
        values = ((released.curvature @ vectors) * vectors).sum(axis=0)
        self.root = vectors * np.sqrt(h)
        self.guess = self.root @ self.root.T
        self.log_det = np.log(h).sum()
        # minus the second derivatives of the log density at the guess
        even = float(self._log_prior(self.guess[None], self.log_det)[2][0])
        noise, dims = released.curvature_noise**2, self.n_entries - 1 + p * even
        precision = np.diag(h * (2.0 * h - values) / noise + dims * h / h.sum()) - dims * np.outer(h, h) / h.sum() ** 2
        size, axes = np.linalg.eigh(precision)
        self.diagonal_root = axes / np.sqrt(np.maximum(size, 0.25))
        below = 2.0 * h[self.lower[0]] * h[self.lower[1]] / noise
        below += 2.0 * np.maximum(self._rise(h) + even, 0.25)[self.lower[0]]
        self.lower_sd = 1.0 / np.sqrt(below)
        self.powers = p - np.arange(p, dtype=np.float64)  # of D in dH = Π d_i^(p - i + 1) d(log d) dL

    def _log_prior(self, H, log_det):
        """(Log prior density, its slope in H with det H left alone, mean k) given matrices and their log det."""
        flat = self.inverses.reshape(len(self.inverses), -1)
        trace = H.reshape(len(H), -1) @ flat.T
        log_trace = np.log(trace)
        log_share = (np.asarray(log_det)[..., None] + self.log_dets - self.p * log_trace)[:, :, None]
        of_shape = 0.5 * (self.p + 1) * self.log_dets - (self.n_entries - 1) * log_trace
        terms = self.log_shares + EVENNESS * log_share + of_shape[:, :, None]
        largest = terms.max(axis=(1, 2), keepdims=True)
        parts = np.exp(terms - largest)
        total = parts.sum(axis=(1, 2), keepdims=True)
        parts /= total
        even = parts @ EVENNESS
        slope = ((self.n_entries - 1) * parts.sum(axis=2) + self.p * even) / trace
        value = np.log(total[:, 0, 0]) + largest[:, 0, 0]
        return value, -(slope @ flat).reshape(H.shape), even.sum(axis=1)

    def _rise(self, h):
        """Slope in log h of what pulls eigenvalues up (volume) less what pulls them down (det V).

        As if A were a multiple of the identity.
        """
        total = self.released.gradient_noise**2 + self.spread * h + self.mean_square * h * h  # eigenvalues of V
        slope = self.spread * h + 2.0 * self.mean_square * h * h
        return 0.5 * (self.p + 1) - 0.5 * slope / total

    def _guess(self):
        """A matrix near the mean given Z: Z shrunk towards each cS, by how likely S and k are, as were H normal.

        In the axes of S, S = diag(h): entries have the variances h_i h_j/(2k + p + 1) of a Wishart matrix, on the
        diagonal twice that; c is what the diagonal of Z says it is, with N(1, 1/4) before.
        """
        one, upper = self.released, np.triu_indices(self.p)
        twice, found, log_p = 1.0 + np.eye(self.p), [], []
        noise = 0.5 * one.curvature_noise**2 * twice
        for shape in one.shapes:
            h, axes = np.linalg.eigh(shape)
            seen = axes.T @ one.curvature @ axes
            for k in EVENNESS:
                spread = np.outer(h, h) * twice / (2.0 * k + self.p + 1.0)
                total = spread + noise
                weight = h / np.diagonal(total)
                c = max((4.0 + weight @ np.diagonal(seen)) / (4.0 + weight @ h), 0.1)
                rest = seen - np.diag(c * h)
                value = (rest * rest / total + np.log(total))[upper].sum() + np.log(4.0 + weight @ h)
                log_p.append(-0.5 * value - 2.0 * (c - 1.0) ** 2)
                found.append(axes @ (np.diag(c * h) + rest * spread / total) @ axes.T)
        weights = np.exp(np.array(log_p) - max(log_p))
        h, axes = np.linalg.eigh(np.tensordot(weights / weights.sum(), found, 1))
        h = np.maximum(h, 0.1 * np.abs(h).mean())
        return axes * (h * min(1.0, 0.9 * one.largest_trace / h.sum())) @ axes.T

    # ---------------------------------------------------------------- coordinates

    def _factors(self, x):
        """(log D, root of D, LD^½) of walkers x, (size, n_coordinates)."""
        log_d = x[:, : self.p] @ self.diagonal_root.T
        T = np.zeros((len(x), self.p, self.p))
        T[:, self.lower[0], self.lower[1]] = x[:, self.p : self.n_entries] * self.lower_sd
        _diagonals(T)[:] = 1.0
        root_d = np.exp(0.5 * log_d)[:, None, :]
        return log_d, root_d, T * root_d

    def matrices(self, x):
        """H of walkers, (size, p, p)."""
        B = self.root @ self._factors(x)[2]
        return B @ B.transpose(0, 2, 1)

    def variances(self, x):
        """Of coefficients a priori, (size, p)."""
        known = np.full((len(x), self.p), 1.0 / self.released.prior_precision)
        return known if self.df is None else known * np.exp(x[:, self.n_entries :])

    def log_density(self, x):
        """Log density of walkers up to a constant, and its gradient: (size,), (size, n_coordinates)."""
        one, b = self.released, self.spread
        log_d, root_d, T = self._factors(x)
        B = self.root @ T
        H = B @ B.transpose(0, 2, 1)
        trace = _diagonals(H).sum(axis=1)
        outside = ~((trace <= one.largest_trace) & np.all(np.abs(x[:, self.n_entries :]) < FARTHEST, axis=1))
        variances = self.variances(x)
        H[outside], variances[outside] = np.eye(self.p), 1.0
        # z = H(c + Aθ) + noise by way of θ given H: were V formed, large variances would swamp the noise
        noise = b * H
        _diagonals(noise)[:] += one.gradient_noise**2
        inverse, K = np.linalg.inv(noise), H @ self.slope
        weighed = inverse @ K
        M = K.transpose(0, 2, 1) @ weighed
        _diagonals(M)[:] += 1.0 / variances
        covariance = np.linalg.inv(M)
        spread = weighed @ covariance
        r = one.gradient - H @ self.offset
        mean = (covariance @ (weighed.transpose(0, 2, 1) @ r[:, :, None]))[:, :, 0]
        rest = r - (K @ mean[:, :, None])[:, :, 0]
        q = (inverse @ rest[:, :, None])[:, :, 0]
        log_det = np.linalg.slogdet(noise)[1] + np.linalg.slogdet(M)[1] + np.log(variances).sum(axis=1)
        error = H - one.curvature
        value = -0.5 * (error * error).sum(axis=(1, 2)) / one.curvature_noise**2
        log_prior, of_prior, even = self._log_prior(H, log_d.sum(axis=1) + self.log_det)
        value += log_d @ self.powers - 0.5 * log_det - 0.5 * (q * rest).sum(axis=1) + log_prior
        value -= 0.5 * (mean * mean / variances).sum(axis=1)
        # with respect to H, as the mean over θ of the slope given θ; then to its factors
        toward = self.offset + mean @ self.slope.T + 0.5 * b * q
        outer = 0.5 * (q[:, :, None] * toward[:, None, :] - spread @ self.slope.T)
        G = outer + outer.transpose(0, 2, 1) - error / one.curvature_noise**2 + of_prior
        G += 0.5 * b * (spread @ weighed.transpose(0, 2, 1) - inverse)
        of_T = 2.0 * (self.root.T @ (G @ B))
        of_log_d = 0.5 * (T * of_T).sum(axis=1) + self.powers + even[:, None]
        below = (of_T * root_d)[:, self.lower[0], self.lower[1]] * self.lower_sd
        slope = np.concatenate([of_log_d @ self.diagonal_root, below], axis=1)
        if self.df is not None:
            u = x[:, self.n_entries :]
            of_u = 0.5 * ((mean * mean + _diagonals(covariance)) / variances - 1.0)
            value -= 0.5 * self.df * (u + np.exp(-u)).sum(axis=1)  # Inv-Gamma, and e^u for d(e^u)
            slope = np.concatenate([slope, of_u - 0.5 * self.df * (1.0 - np.exp(-u))], axis=1)
        value[outside], slope[outside] = -np.inf, 0.0
        return value, slope

    # ---------------------------------------------------------------- walkers

    def start(self, rng, n_walkers):
        """(walkers, step length) to begin with: draws of the reference, nearer to the guess where not possible."""
        x = rng.standard_normal((n_walkers, self.n_coordinates))
        while np.any(outside := ~np.isfinite(self.log_density(x)[0])):
            x[outside] *= 0.5
        return Walkers(x, *self.log_density(x)), 0.25

    def settle(self, rng, walkers, step, n_steps):
        """Walkers after ``n_steps`` in which the step length is tuned, and that length."""
        for _ in range(n_steps):
            walkers, rate = self.move(rng, walkers, step)
            step = min(step * np.exp(0.8 * (rate - ACCEPTED)), LONGEST_STEP)
        return walkers, step

    @np.errstate(over="ignore", invalid="ignore")  # of trajectories that leave for infinity: not accepted
    def move(self, rng, walkers, step):
        """Each walker's next state by Hamiltonian Monte Carlo, and the mean probability of acceptance."""
        new, value, slope = walkers
        momentum = rng.standard_normal(new.shape)
        energy = value - 0.5 * (momentum * momentum).sum(axis=1)
        lengths = step * rng.uniform(0.7, 1.3, (len(new), 1))
        for _ in range(N_LEAPFROG):
            momentum = momentum + 0.5 * lengths * slope
            new = new + lengths * momentum
            value, slope = self.log_density(new)
            momentum = momentum + 0.5 * lengths * slope
        change = value - 0.5 * (momentum * momentum).sum(axis=1) - energy
        change[~np.isfinite(change)] = -np.inf
        is_taken = np.log(rng.random(len(new))) < change
        one = is_taken[:, None]
        moved = Walkers(
            np.where(one, new, walkers.x), np.where(is_taken, value, walkers.value), np.where(one, slope, walkers.slope)
        )
        return moved, float(np.exp(np.minimum(change, 0.0)).mean())


def _diagonals(matrices):
    """Those of matrices (size, p, p), (size, p), which can be written to."""
    return np.einsum("ijj->ij", matrices)
