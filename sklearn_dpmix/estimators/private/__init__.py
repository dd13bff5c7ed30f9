"""Confidential records under a budget: what is released is a posterior."""
