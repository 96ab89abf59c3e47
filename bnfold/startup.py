"""Quicker imports for the console command, where they take more time than a model of 30 MB does.

Big packages import parts that a fold never touches: numpy the texts of its documentation and the classes of its type
annotations, protobuf its implementation in Python, onnx its JSON and text formats and the model hub's archives, click
what inspects source code. Here such a part is represented by a stand-in, which becomes the part itself as soon as it is
asked for anything. In a library this would be a liberty: only the console command does it.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

Parts = dict[str, dict[str, Any]]
"""What is stood in for, each with attributes that are known without the part."""


def _cleandoc(text: str) -> str:
    """As `inspect.cleandoc`, which has nothing to do for one line."""
    return text.lstrip() if "\n" not in text and "\t" not in text else _ask("inspect", "cleandoc", text)


def _quote_from_bytes(*arguments: Any) -> str:
    return _ask("urllib.parse", "quote_from_bytes", *arguments)


def _ask(module: str, function: str, *arguments: Any) -> str:
    return str(getattr(importlib.import_module(module), function)(*arguments))


_CLICK_PARTS: Parts = {"inspect": {"cleandoc": _cleandoc}, "uuid": {"UUID": str}}  # a type of options that we have not
_NUMPY_PARTS: Parts = {
    "numpy._core._add_newdocs": {},
    "numpy._core._add_newdocs_scalars": {},
    "numpy._typing": {"NDArray": list},  # subscripted for annotations that nobody evaluates
    "inspect": {"cleandoc": str, "signature": lambda _: None},  # a None there is none to `inspect` itself
    **{name: {} for name in ("ast", "ctypes", "pickle", "platform", "textwrap")},
}
_PROTOBUF_PARTS: Parts = {"google.protobuf.internal.python_message": {}, "calendar": {}}
_OWN_PARTS: Parts = {
    "inspect": {},  # for dataclasses without a docstring
    "urllib.parse": {"quote_from_bytes": _quote_from_bytes},  # for `Path.as_uri`
}
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def command() -> Callable[[], None]:
    """The command line, `bnfold.cli.commands.main`, without what click needs for other kinds of options."""
    with _stand_ins(_CLICK_PARTS):
        main: Callable[[], None] = importlib.import_module("bnfold.cli.commands").main
    return main


def prepare(*, many_threads: bool) -> None:
    """Import what every job needs. Without effect on what is loaded already.

    Without ``many_threads`` BLAS gets a single one: each of the others would spin for 30 ms before it goes to sleep,
    and only verification multiplies matrices that are worth them.
    """
    collecting = gc.isenabled()
    gc.disable()  # what is imported is here to stay
    try:
        with _stand_ins(_NUMPY_PARTS), _one_blas_thread(unless=many_threads):
            importlib.import_module("numpy")
        with _stand_ins(_PROTOBUF_PARTS):
            importlib.import_module("onnx.onnx_ml_pb2")
        with _stand_ins(_OWN_PARTS):
            importlib.import_module("bnfold.pipeline.job")
    finally:
        if collecting:
            gc.enable()


def defer_onnx() -> None:
    """Let the next ``import onnx`` load only what is used. Without effect where it is loaded, or cannot be found.

    The package stands in `sys.modules` with its own path and spec, but gets its message classes and submodules only as
    they are asked for; asked for anything else, it runs its own `__init__` after all.
    """
    if "onnx" in sys.modules:
        return
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return
    loader = spec.loader
    package = importlib.util.module_from_spec(spec)

    def resolve(name: str) -> Any:
        messages = importlib.import_module("onnx.onnx_ml_pb2")
        if not name.startswith("_") and hasattr(messages, name):
            setattr(package, name, getattr(messages, name))  # found without asking the next time
            return getattr(messages, name)
        if name == "load_from_string":  # which shape inference ends with
            return messages.ModelProto.FromString
        if not name.startswith("__") and importlib.util.find_spec(f"onnx.{name}") is not None:
            return importlib.import_module(f"onnx.{name}")
        del package.__getattr__
        loader.exec_module(package)
        return getattr(package, name)

    package.__getattr__ = resolve  # type: ignore[method-assign]
    sys.modules["onnx"] = package


@contextmanager
def _stand_ins(parts: Parts) -> Iterator[None]:
    """Let modules be stood in for while others import them; who imports them later gets the modules themselves."""
    placed = {name: _stand_in(name, known) for name, known in parts.items() if name not in sys.modules}
    sys.modules.update(placed)
    try:
        yield
    finally:
        for name, module in placed.items():
            _leave(name, module)


def _stand_in(name: str, known: dict[str, Any]) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(known)

    def resolve(attribute: str) -> Any:
        if attribute.startswith("__"):  # what the import system asks of every module
            raise AttributeError(attribute)
        _leave(name, module)
        return getattr(importlib.import_module(name), attribute)

    module.__getattr__ = resolve  # type: ignore[method-assign]
    return module


def _leave(name: str, module: ModuleType) -> None:
    """Take a stand-in away; not the module that it may have become."""
    if sys.modules.get(name) is module:
        del sys.modules[name]


@contextmanager
def _one_blas_thread(*, unless: bool) -> Iterator[None]:
    """OpenBLAS reads this variable once, when it is loaded; what the user has set holds."""
    if unless or _BLAS_THREADS in os.environ:
        yield
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_BLAS_THREADS]
