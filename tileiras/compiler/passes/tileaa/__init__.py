"""Passes and analyses on nv_tileaa."""
