"""Samplers of exponential families whose sufficient statistic is hidden behind noise."""
