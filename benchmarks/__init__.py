"""Measurements; each module writes a page of docs/results/."""
