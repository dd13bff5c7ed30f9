"""
A slope from records that were all noised
=========================================

**Question.**  Every person's x and y were published with noise of their own.  What is the slope of y on x, and what the
curve, among the *confidential* records?

Least squares on the release answers another question.  Noise in x makes its slope too small by the share of x's spread
that is noise (attenuation), however many records there are.  Evans & King (2022) take the noise's variance off the
moments of the release, which is consistent, and fails where the noise is large: what is left of x's variance may be
next to nothing, or negative.  :class:`sklearn_dpmix.PrivateDPMixtureRegressor` has the posterior in place of a
correction.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import PrivateDPMixtureRegressor
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism

warnings.simplefilter("ignore", RuntimeWarning)  # of the curve's chains: short ones will do for a picture
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "0.6"
SLOPE, SD = 1.0, 1.0  # of y on x; of x, and of y about the line
N, NOISES, N_RELEASES = 300, (0.5, 1.0, 2.0, 3.0), 50  # records; noise in units of x's spread; releases of each


# %%
# The two other answers, with 95 % intervals.  The second has z'z/n less the noise's variance in place of z'z/n; its
# error is that of its estimating equation, which counts the noise in both.


def least_squares(z, z_y, variance=0.0):
    design = np.column_stack([np.ones(len(z)), z])
    noise = np.diag([0.0, variance])
    bread = np.linalg.inv(design.T @ design / len(z) - noise)
    coef = bread @ design.T @ z_y / len(z)
    equation = design * (z_y - design @ coef)[:, None] + noise @ coef
    error = np.sqrt((bread @ equation.T @ equation @ bread / len(z) ** 2)[1, 1])
    return coef[1], coef[1] - 1.96 * error, coef[1] + 1.96 * error


def posterior(z, z_y, mechanism):
    model = PrivateDPMixtureRegressor(mechanism, linear=True, n_chains=2, n_warmup=200, n_draws=1000, random_state=0)
    model.fit(z[:, None], z_y)
    (low,), (high,) = model.coef_interval()
    return np.median(model.coef_draws_), low, high


# %%
# Fifty releases at each noise.  How far off is the answer in the middle, how wide is the interval, how often does
# it hold the slope?

answers = {}
for noise in NOISES:
    mechanism, rng = GaussianMechanism(scale=noise * SD), np.random.default_rng(1)
    found = {"least squares": [], "moment correction": [], "posterior": []}
    for _ in range(N_RELEASES):
        x = rng.normal(0.0, SD, N)
        confidential = np.column_stack([x, SLOPE * x + rng.normal(0.0, SD, N)])
        z, z_y = mechanism.privatize(confidential, random_state=rng).T  # a generator, because this is a simulation
        found["least squares"].append(least_squares(z, z_y))
        found["moment correction"].append(least_squares(z, z_y, mechanism.scale**2))
        found["posterior"].append(posterior(z, z_y, mechanism))
    answers[noise] = {name: np.array(rows) for name, rows in found.items()}

print(f"{'noise':>5} {'':<18}{'median error':>13}{'90 % of errors':>15}{'median width':>13}{'holds':>7}")
for noise, found in answers.items():
    for name, rows in found.items():
        off, (estimate, low, high) = np.abs(rows[:, 0] - SLOPE), rows.T
        holds = np.mean((low <= SLOPE) & (SLOPE <= high))
        print(
            f"{noise:5g} {name:<18}{np.median(off):13.2f}{np.quantile(off, 0.9):15.2f}"
            f"{np.median(high - low):13.2f}{holds:7.2f}"
        )

# %%
# A curve: the same question where y bends, under Laplace noise.  The mixture has no formula for it; least squares on
# powers of the noised x flattens it.

rng = np.random.default_rng(0)
x = np.where(rng.random(1500) < 0.4, rng.normal(-2.0, 0.6, 1500), rng.normal(1.5, 1.0, 1500))
y = 2.0 * np.sin(1.3 * x) + 0.4 * rng.standard_normal(1500)
mechanism = LaplaceMechanism(scale=0.6)
z, z_y = mechanism.privatize(np.column_stack([x, y]), random_state=1).T
curve = PrivateDPMixtureRegressor(mechanism, n_chains=4, n_warmup=500, n_draws=500, random_state=0)
curve.fit(z[:, None], z_y)

# %%
# Left: ranges of the three answers.  Where noise is three times x's spread, the correction's are off the page, and the
# posterior leans towards its prior, which has slope 0 in its middle.  Right: the curve with its 95 % band.  It is much
# nearer than least squares, and wide between the two groups; but so much noise leaves room for the prior's preference
# for few clusters, and the ends and the peak are still a little flattened.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained")
colors = {"least squares": ORANGE, "moment correction": GREEN, "posterior": BLUE}
for row, found in enumerate(answers.values()):
    for shift, (name, rows) in zip((-0.22, 0.0, 0.22), found.items(), strict=True):
        low, middle, high = np.quantile(rows[:, 0], [0.05, 0.5, 0.95])
        left.plot([row + shift] * 2, [low, high], color=colors[name], lw=3, label=name if row == 0 else None)
        left.plot(row + shift, middle, "o", color="w", mec=colors[name], ms=6)
left.axhline(SLOPE, color="k", lw=1, ls=":")
left.set_xticks(range(len(NOISES)), [f"{noise:g}" for noise in NOISES])
left.set(xlabel="noise / spread of x", ylabel="slope", ylim=(-1.5, 4.5), title="estimates over releases, 5–95 %")
left.legend(frameon=False, loc="upper left")
grid = np.linspace(-3.5, 4.0, 120)
low, high = curve.curve_interval(grid[:, None])
right.scatter(z, z_y, s=3, color=GREY, alpha=0.4, lw=0, label="release")
right.plot(grid, 2.0 * np.sin(1.3 * grid), "k:", lw=2, label="truth")
right.plot(grid, np.polyval(np.polyfit(z, z_y, 7), grid), color=ORANGE, lw=1.5, label="least squares, degree 7")
right.fill_between(grid, low, high, color=BLUE, alpha=0.3, lw=0)
right.plot(grid, curve.predict(grid[:, None]), color=BLUE, lw=2, label="posterior, 95 % band")
right.set(xlabel="x", ylabel="y", xlim=(-3.5, 4.0), ylim=(-4.5, 5.5), title="Laplace noise, 1500 records")
right.legend(frameon=False, loc="upper left", ncols=2)
plt.show()
