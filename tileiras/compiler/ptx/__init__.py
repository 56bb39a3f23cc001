"""PTX: target spelling, directives and text of finished per-thread code."""
