"""Samplers for mixtures whose records are in cells, or were counted in bins."""
