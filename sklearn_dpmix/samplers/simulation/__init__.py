"""Inference by simulation: approximate Bayesian computation with exact noise, and Monte Carlo EM."""
