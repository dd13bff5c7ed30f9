"""A curator's statistics: sums and counts that were released with noise."""
