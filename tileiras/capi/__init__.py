"""The one binary border: the C library's sources and the 208-byte diagnostic record that C programs see."""
