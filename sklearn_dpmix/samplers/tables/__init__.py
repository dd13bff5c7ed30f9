"""Samplers for naive Bayes given noisy tables of classes by features."""
