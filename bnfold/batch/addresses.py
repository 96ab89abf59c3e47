"""The ways to name models: plain paths, patterns and URLs, recognised by their text alone."""

from __future__ import annotations

import re

STREAM = "-"
"""Standard input, or standard output."""

MAGIC = "*?["
"""What makes a path a pattern."""


def is_url(text: str) -> bool:
    """Whether fsspec opens it: s3://bucket/folder, memory://x, zip://*.onnx::https://host/models.zip."""
    return "://" in text and not re.match(r"[A-Za-z]:[\\/]", text)  # a drive letter


def without_password(text: str) -> str:
    """Hide the passwords of URLs in a line that people may see."""
    return re.sub(r"(://[^/:@\s]*):[^/@\s]*@", r"\1:***@", text)
