"""Vector addition by a Tile kernel that lives in this package's extension module."""

from ._add import describe, image, launch

__all__ = ["describe", "image", "launch"]
