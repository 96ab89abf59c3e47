"""Why there is no comparison of whole models."""

from __future__ import annotations


class Impossible(Exception):
    """The whole models cannot be compared; the message is the reason."""


class Broken(Exception):
    """The rewritten model does not run where the original does."""
