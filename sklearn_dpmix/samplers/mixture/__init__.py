"""Samplers of mixture posteriors: their state, what each asks for, their sweeps, and which one is taken by default."""
