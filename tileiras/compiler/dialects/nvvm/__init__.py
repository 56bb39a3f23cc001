"""Per-thread code as an op, so that its text stands in one file with the other dialects."""
