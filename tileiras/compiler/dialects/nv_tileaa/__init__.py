"""nv_tileaa: tiles lifted to tensors, facts known, no layouts yet."""
