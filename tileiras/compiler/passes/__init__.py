"""Passes, one file each, by the dialect they work on; `pipeline.py` has their order."""
