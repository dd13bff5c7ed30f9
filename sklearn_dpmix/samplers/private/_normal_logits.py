"""How gradients change with θ, for logits that are normal over the records: what an expansion at θ0 leaves out."""

import numpy as np

N_CORRECTIONS = 5
SIZES = 0.5 ** np.arange(0.0, 5.0, 0.5)  # mean squares of features, of the largest that rows of their length have


class NormalRows:
    """Sums over records as functions of θ for a design that is normal over the records, with E[xxᵀ] = ``second``."""

    def __init__(self, model, second):
        self.model, self.unit = model, np.zeros(len(second))
        self.unit[-1] = float(model.fit_intercept)
        self._moments(second)

    def _moments(self, second):
        """μ and C from E[xxᵀ], which is positive; means no longer than rows are."""
        second = 0.5 * (second + second.T)
        self.mean, self.covariance = np.zeros(len(second)), second
        if self.model.fit_intercept:
            self.covariance = second - np.outer(second[-1], second[-1]) / second[-1, -1]
            mean = second[-1, :-1] / second[-1, -1]
            longest = max(np.linalg.norm(mean), self.model.data_norm)
            self.mean = np.append(mean * (self.model.data_norm / longest), 1.0)

    def _means(self, theta):
        mean = theta @ self.mean
        variance = np.maximum(((theta @ self.covariance) * theta).sum(axis=1), 0.0)  # of rounding
        return mean, self.model.normal_means(mean, variance)

    def weight(self, theta):
        return self._means(theta)[1][1]

    def _phi(self, theta):
        m, (response, slope, _, _) = self._means(theta)
        return slope[:, None] * theta + (response - slope * m)[:, None] * self.unit

    def slopes_at(self, theta):
        """Derivatives of φ at each θ, (size, p, p).

        dσ̄ = σ̄' dm + σ̄'' dv/2, dσ̄' = σ̄'' dm + σ̄''' dv/2, dm = μᵀdθ, dv = 2(Cθ)ᵀdθ.
        """
        m, (_, slope, second, third) = self._means(theta)
        along = theta @ self.covariance
        of_slope = second[:, None] * self.mean + third[:, None] * along
        of_rest = second[:, None] * along - m[:, None] * of_slope
        slopes = slope[:, None, None] * np.eye(len(self.unit)) + theta[:, :, None] * of_slope[:, None, :]
        return slopes + self.unit[:, None] * of_rest[:, None, :]


class NormalLogits(NormalRows):
    """Gradient and curvature of a log likelihood away from θ0, for a design that is normal over the records.

    With mean μ and covariance C of the rows, M = C + μμᵀ, logits N(m, v), m = θᵀμ, v = θᵀCθ, and e the intercept's unit
    vector (Me = μ; without an intercept μ = 0), Stein's identity gives the expected response's part of the gradient:

        E[x σ(xᵀθ)] = μ σ̄ + Cθ σ̄' = M φ(θ),   φ(θ) = σ̄' θ + (σ̄ - σ̄' m) e,

    with σ̄ and σ̄' the means of σ and its slope over N(m, v).  The gradient at θ0 thus has mean H ``displacement(θ)``,
    with H the curvature there, and displacement(θ) = K⁻¹(φ(θ) - φ(θ0)), K the derivatives of φ at θ0: θ - θ0 near θ0.

    μ and C come from H = n M K, by a fixed point from H = n σ̄' M, which is right for small logits.

    Parameters
    ----------
    model : LogisticLikelihood or one with the same ``normal_means``
    H : ndarray of shape (p, p)
        Positive definite, the curvature at θ0.
    theta : ndarray of shape (p,)
        θ0.
    n_records : int
    """

    def __init__(self, model, H, theta, n_records):
        super().__init__(model, H / (0.25 * n_records))
        most = 4.0 * model.largest_information  # of the squared length of a row
        weight, least = 0.25, np.trace(H) / (n_records * most)
        for _ in range(30):
            self._moments(H / (n_records * weight))
            weight = max(0.5 * (weight + self.weight(theta[None])[0]), least)
        for _ in range(N_CORRECTIONS):
            second = np.linalg.solve(self.slopes_at(theta[None])[0].T, H).T / n_records
            if np.trace(second) > most or np.linalg.eigvalsh(second + second.T)[0] <= 0.0:
                break  # no records have these: noise
            self._moments(second)
        self.start, self.slopes = self._phi(theta[None]), self.slopes_at(theta[None])[0]
        self.weight_at_start = self.weight(theta[None])[0]

    def displacement(self, theta):
        """What H is multiplied by in the mean of the gradient at θ0, given θ: (size, p)."""
        return np.linalg.solve(self.slopes, (self._phi(theta) - self.start).T).T

    def tangents(self, theta):
        """Derivatives of it at each θ, (size, p, p)."""
        return np.linalg.solve(self.slopes, self.slopes_at(theta))

    def flatness(self, theta):
        """Mean weight at θ, relative to θ0's: (size,)."""
        return self.weight(theta) / self.weight_at_start


def even_curvatures(model, theta, n_records):
    """Curvatures at θ of normal designs whose features are independent and alike, one for each size: (n_sizes, p, p).

    The entry of an intercept, whose column is 1, is larger than theirs, and along θ they are smaller than across it.
    """
    p, found = len(theta), []
    for size in SIZES * model.data_norm**2 / model.n_features:
        second = np.diag(np.append(np.full(model.n_features, size), np.ones(p - model.n_features)))
        H = n_records * second @ NormalRows(model, second).slopes_at(theta[None])[0]
        found.append(0.5 * (H + H.T))  # of rounding
    return np.array(found)
