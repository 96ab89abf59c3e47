"""A package imported with altered modules, in a process of its own: nothing on disk changes."""

from __future__ import annotations

import ast
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
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


_ran: set[CodeType] = set()
"""The functions that ran while `preload` imported the package."""
_IS_FUNCTION = inspect.CO_OPTIMIZED


def preload(package: str, modules: Iterable[str]) -> None:
    """Import modules of a package anew, so that `alter` in a forked process has to import none of them."""
    serve({}, package)

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            _ran.add(frame.f_code)

    sys.setprofile(note)
    try:
        for name in modules:
            importlib.import_module(name)
    finally:
        sys.setprofile(None)


def alter(trees: Mapping[str, ast.Module], package: str) -> None:
    """Let the modules be as these trees: what was preloaded stays if functions alone differ, which did not run yet."""
    found = [_replacements(name, tree) for name, tree in trees.items()]
    new = {old: code for codes in found if codes is not None for old, code in codes.items()}
    files = {code.co_filename for code in new}
    functions = [each for each in gc.get_objects() if type(each) is FunctionType and each.__code__.co_filename in files]
    changed = [(each, new[each.__code__]) for each in functions if each.__code__ in new]
    if not changed or not _ran or None in found:
        serve(trees, package)
        return
    for function, code in changed:
        function.__code__ = code


def _replacements(name: str, tree: ast.Module) -> dict[CodeType, CodeType] | None:
    """Return the functions of a loaded module that differ, with the new ones; None if more than these differs."""
    module = sys.modules.get(name)
    if module is None or module.__file__ is None:
        return None
    before = compile(Path(module.__file__).read_text(encoding="utf-8"), module.__file__, "exec", dont_inherit=True)
    after = compile(tree, module.__file__, "exec", dont_inherit=True)
    olds, news = [*_codes(before)], [*_codes(after)]
    if len(olds) != len(news):
        return None
    new: dict[CodeType, CodeType] = {}
    for old, code in zip(olds, news, strict=True):
        if old == code:
            continue
        if not old.co_flags & _IS_FUNCTION:  # what runs while the module is imported
            if _plain(old) != _plain(code):
                return None
        elif old in _ran or old.co_freevars != code.co_freevars:
            return None
        else:
            new[old] = code
    return new


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield it and all code within."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _plain(code: CodeType) -> tuple[object, ...]:
    """Return what the code does, without the functions that it makes."""
    consts = [(type(const), None if isinstance(const, CodeType) else const) for const in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, consts


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
