"""IR core: types, ops, specs, builder, passes, verifier, text. Knows no dialect."""
