"""Tile IR bytecode 13.1 to 13.5: reader and writer over the op table."""
