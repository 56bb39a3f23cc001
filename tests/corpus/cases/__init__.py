"""Formulas and inputs, one module per family. NumPy only: no frontend is needed to load them."""
