"""One folder a dialect: ops (specs), types, verify (what fields cannot say), diags (texts)."""
