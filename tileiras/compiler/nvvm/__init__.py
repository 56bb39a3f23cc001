"""Per-thread code: compact instruction records, a builder that folds and reuses, a verifier."""
