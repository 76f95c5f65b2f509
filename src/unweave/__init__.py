"""unweave: train, measure and compare disentangled representations."""

from unweave.version import __version__

__all__ = ["__version__"]
