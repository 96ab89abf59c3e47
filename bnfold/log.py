"""The library's log: Python's `logging`, under the name ``bnfold``. It shows only where the program asks for it.

Levels: INFO for each pass, and for loading, writing and the verdict; DEBUG for each decision (what became of a
BatchNormalization, a node that was simplified, a repair, a claim and its evidence); WARNING for a result that could not
be verified, or failed, for a step that was undone, and for mistakes of callers' functions; ERROR for a rewrite of
bnfold that was wrong and left out.

The command line has no use for `logging` and would start later for importing it, and a program that never imported it
has no handler to show anything. So it is not imported here: without an import elsewhere, there is no handler.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from bnfold.errors import printable


def shows(level: str, name: str) -> bool:
    """Whether a line of this level would go anywhere: what takes long to tell is not worked out otherwise."""
    logging = sys.modules.get("logging")
    return logging is not None and bool(logging.getLogger(name).isEnabledFor(getattr(logging, level)))


def _tell(level: str, name: str, message: str, *arguments: Any) -> None:
    logging = sys.modules.get("logging")
    if logging is None:
        return
    root = logging.getLogger("bnfold")
    if not root.handlers:  # or Python itself would print warnings without a handler
        root.addHandler(logging.NullHandler())
    if shows(level, name):
        shown = (argument if isinstance(argument, int | float) else printable(str(argument)) for argument in arguments)
        logging.getLogger(name).log(getattr(logging, level), message, *shown)


debug = partial(_tell, "DEBUG")
info = partial(_tell, "INFO")
warning = partial(_tell, "WARNING")
error = partial(_tell, "ERROR")
