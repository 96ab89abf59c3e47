"""Texts in a model are bytes until they are read; invalid UTF-8 is found only then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bnfold.errors import MalformedModel


@contextmanager
def utf8(label: str) -> Iterator[None]:
    """Raise MalformedModel where reading a model meets a name that is not UTF-8."""
    try:
        yield
    except UnicodeDecodeError as error:
        text = bytes(error.object)[:40].decode("utf-8", "backslashreplace")
        raise MalformedModel(f"{label}: a damaged model: the text {text!r} in it is not UTF-8") from error
