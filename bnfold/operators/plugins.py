"""Import the modules that ``--plugin`` names: each registers operators as it is imported."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

from bnfold.errors import BadSetting, BnfoldError
from bnfold.registered import table
from bnfold.registered.table import RegisteredOperator

_PREFIX = "bnfold_plugin_"
"""Modules that are named by their file, so that no file takes the name of a module that something else imports."""


_LOADED: dict[str, None] = {}
REGISTERED: set[RegisteredOperator] = set()
"""Operators that plugins registered as they were loaded."""


def loaded() -> tuple[str, ...]:
    """Return the plugins that this process has loaded, by names that hold in any folder."""
    return tuple(_LOADED)


def load_plugins(names: Sequence[str]) -> None:
    """Import modules, named as Python does or by their files (``….py``), each once in a process.

    Raises:
        BadSetting: There is no such module, or it raises an error.
    """
    for name in names:
        before = set(table.all_operators())
        try:
            with table.all_or_none():
                if is_file(name):
                    _import_file(Path(name))
                else:
                    import_module(name)
        except BnfoldError as error:
            raise BadSetting("plugin", f"{name}: {error}") from error
        except Exception as error:
            raise BadSetting("plugin", f"{name}: cannot be imported: {_described(name, error)}") from error
        _LOADED[absolute(name)] = None
        REGISTERED.update(set(table.all_operators()) - before)


def absolute(name: str) -> str:
    """Return the plugin's name for a process in another folder."""
    return str(Path(name).absolute()) if is_file(name) else name


def fingerprint_of(name: str) -> str:
    """Return a text that changes with the plugin's file; not with what that imports."""
    return f"{name} {hashlib.sha256(_content(name)).hexdigest()}"


def _content(name: str) -> bytes:
    spec = None if is_file(name) else find_spec(name)
    path = Path(name) if spec is None else Path(spec.origin or "")
    return path.read_bytes() if path.is_file() else b""


def is_file(name: str) -> bool:
    """Whether a plugin is named by its file."""
    return name.endswith(".py")


def _import_file(path: Path) -> None:
    path = path.resolve()
    name = _PREFIX + hashlib.sha256(str(path).encode()).hexdigest()[:16] + f"_{path.stem}"
    if name in sys.modules:
        return
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = sys.modules[name] = module_from_spec(spec)
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)  # for modules beside it; last, so that none takes the name of another one
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _described(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name and name.split(".", maxsplit=1)[0] == error.name:
        file = f"./{name.replace('.', '/')}.py"
        return f"there is no module {name!r}; give a module that Python finds, or a file, as in --plugin {file}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
