"""A package imported with altered modules, in a process of its own: nothing on disk changes."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from a syntax tree in place of its file."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._tree, self.get_filename(fullname), "exec")
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees = trees

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        if fullname not in self._trees:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            return None
        loader = _Loader(fullname, spec.origin, self._trees[fullname])
        return importlib.util.spec_from_file_location(
            fullname, spec.origin, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )


def serve(trees: Mapping[str, ast.Module], *packages: str) -> None:
    """Let modules be imported from these trees from now on, and what was imported of the packages be forgotten."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(trees))


PATIENCE = 10
"""How many times as long as its processor time a process may take: others may keep the machine busy."""


ADDRESSES = 8 << 30
"""Bytes that a process may take: altered code may want all of them."""


class Late(Exception):
    """Raised if a child takes too long; it is gone then, with all its children."""


class Died(Exception):
    """Raised if a child ended without an answer; the text is its last traceback, if it has one."""


def in_child(work: Callable[[Path], Any], folder: Path, seconds: float) -> Any:
    """Return what ``work`` returns in a forked process, which gets ``folder`` to write to.

    What it prints is dropped. Raises Late if it takes more ``seconds`` of processor time, or ten times as long by the
    clock, and Died.
    """
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _work(work, folder, answer, seconds)
    end = time.monotonic() + seconds * PATIENCE
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            _kill(child)
            os.waitpid(child, 0)
            raise Late
        time.sleep(0.005)
    _kill(child)  # what it started
    if os.WIFSIGNALED(ended[1]) and os.WTERMSIG(ended[1]) == signal.SIGXCPU:
        raise Late
    if not answer.is_file():
        raise Died
    result, error = pickle.loads(answer.read_bytes())
    if error:
        raise Died(error)
    return result


def _kill(child: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _work(work: Callable[[Path], Any], folder: Path, answer: Path, seconds: float) -> None:
    """Work in the child, and end it."""
    try:
        os.setpgid(0, 0)
        spent = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(spent.ru_utime + spent.ru_stime + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        result, error = None, ""
        try:
            result = work(folder)
        except BaseException:  # noqa: BLE001 - altered code raises whatever it likes
            error = traceback.format_exc()
        part = answer.with_suffix(".part")
        part.write_bytes(pickle.dumps((result, error)))
        part.rename(answer)
    finally:
        os._exit(0)
