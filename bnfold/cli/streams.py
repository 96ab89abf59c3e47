"""The standard streams at the beginning and at the end of the process: the parent may have closed them."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper

_ASCII = str.maketrans({"→": "->", "…": "...", "·": "*", "\N{MULTIPLICATION SIGN}": "x"})


def fill_closed() -> None:
    """Open nothing in their place: the next file opened would become the stream, and get what is printed there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - as early as this, and for good


def keep_stdout() -> None:
    """Keep standard output for what bnfold prints; send what libraries write to it, such as onnx, to standard error."""
    stream = sys.stdout
    if not isinstance(stream, TextIOWrapper):  # the parent closed it, or a caller replaced it
        return
    stream.flush()
    binary = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = TextIOWrapper(
        binary, encoding=stream.encoding, errors=stream.errors, line_buffering=stream.line_buffering
    )


def escape_unencodable() -> None:
    """Print what a stream's encoding has no sign for in ASCII: a pipe on Windows knows no arrow."""
    codecs.register_error("bnfold", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="bnfold")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "it is about what is printed"
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode(), error.end


def flush() -> bool:
    """Write what is still buffered; return whether that was possible."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True
