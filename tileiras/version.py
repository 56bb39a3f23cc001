"""The version of the distribution, of `tileiras --version` and of the CMake package: this line is its one source."""

__version__ = "0.1.0"
