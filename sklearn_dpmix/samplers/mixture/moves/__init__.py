"""Moves of clusters together with their records, which several mixture samplers make."""
