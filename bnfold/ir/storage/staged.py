"""A model that is written beside its place: files put there by one rename, or gone without a trace."""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from bnfold.errors import OutputError
from bnfold.ir.storage import datafile, locked_file
from bnfold.ir.storage.locked_file import LockedFile


class Staged:
    """A model written beside its place. `commit` puts it there by one rename, `discard` leaves no trace.

    The model file is held by a claim, and so is its data file, which has its final name already.
    """

    def __init__(self, target: Path, data_name: str, spared: Callable[[], Collection[Path]]) -> None:
        self.target = target
        self._folders = make_folders(target.parent)
        self.model = locked_file.temporary(target.parent)
        self.data: LockedFile | None = None
        self.owns_data = True
        self._data_name = data_name
        self._spared = spared
        self._done = False

    @property
    def path(self) -> Path:
        """The model file, readable as it stands."""
        return self.model.path

    @property
    def data_path(self) -> Path | None:
        """The data file beside the model, if it has one."""
        return self.data.path if self.data is not None else None

    def commit(self) -> None:
        """Rename into place; data files of the model that stood there are removed afterwards."""
        try:
            obsolete = self._obsolete()
            for held in [held for held in (self.data, self.model) if held is not None]:
                if not held.is_there():
                    raise FileNotFoundError(0, f"{held.path.name} was removed by somebody else")
                if self.target.exists() and (held is self.model or self.owns_data):
                    held.path.chmod(stat.S_IMODE(self.target.stat().st_mode))
            self.model.rename(self.target)
        except OSError as error:
            self.discard()
            raise OutputError.at(self.target, error) from error
        self._done = True
        for path in obsolete:
            datafile.remove_unused(path, self.target)
        self._release()

    def _obsolete(self) -> list[Path]:
        """Return the data files of the model that is about to be replaced, and of no other that we know of."""
        found = datafile.obsolete(self.target, self._data_name)
        kept = {*self._spared(), self.data.path if self.data is not None else None} if found else ()
        return [path for path in found if path not in kept]

    def discard(self) -> None:
        """Remove what was staged; harmless after `commit`."""
        if self._done:
            return
        self._done = True
        self.model.remove()
        data = self.data
        self._release()
        if data is not None and self.owns_data:
            datafile.remove_unused(data.path, self.target)
        remove_folders(self._folders)

    def _release(self) -> None:
        self.model.release()
        if self.data is not None:
            self.data.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it. Returns the ones that were not there, the outermost first. Raises OSError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def remove_folders(made: Sequence[Path]) -> None:
    """Remove folders that nothing was put into."""
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()
