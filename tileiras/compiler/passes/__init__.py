"""Passes, one folder a dialect, one file a pass."""
