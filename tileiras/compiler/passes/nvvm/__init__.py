"""Passes on per-thread code."""
