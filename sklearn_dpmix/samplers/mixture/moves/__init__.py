"""Moves of clusters together with their records, which several samplers of mixtures make."""
