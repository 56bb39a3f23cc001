"""Lowerings, one folder per pair of dialects."""
