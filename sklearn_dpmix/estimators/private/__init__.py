"""Confidential records under a budget: a posterior is released."""
