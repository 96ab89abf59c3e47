"""Everything bnfold raises on purpose; any other exception is a bug of ours and may crash.

BnfoldError                  one line for the user; carries the exit code of the command line
├── BadInput                 a file or an argument that cannot be used at all
│   ├── WrongUsage           arguments that contradict each other, or that this kind of model lacks (exit code 2)
│   │   ├── BadSetting       an option has a value that it cannot have (a ValueError, too)
│   │   └── BadCommand       a step's command cannot be run as it stands
│   ├── MalformedModel       the bytes are no ONNX model, or lie about themselves
│   │   └── CutOffModel      the file ends within the model
│   └── ExternalDataError    external data that is missing, outside the model's directory, or too short
├── Unsupported              a legal model that bnfold cannot process as asked
│   ├── ReferenceAttribute   an attribute of a function body whose value only a caller knows
│   │   └── MistypedAttribute    an attribute of a type that its operator never had
│   ├── ExportedInTraining   a model that PyTorch exported in training mode
│   └── ConversionBlocked    nodes that have no equivalent at the target opset (all of them are listed)
├── OutputError              the result cannot be written where it should go
│   └── SameFile             what is to be written is also read, or written otherwise (exit code 2: wrong usage)
├── VerificationFailed       the rewritten model does not compute what the original did
└── StepRefused              a command failed, or made a model that is not proven equivalent
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bnfold.pipeline.chain import StepRow
    from bnfold.pipeline.outcome import Outcome
    from bnfold.verification import Verdict

EXIT_INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""
EXIT_TERMINATED = 143
"""The same after SIGTERM."""
_MACHINE = {
    getattr(errno, name)
    for name in (
        *("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "EFBIG", "EIO", "ENXIO", "ENODEV", "ESTALE"),
        *("EMFILE", "ENFILE", "ENOMEM", "EAGAIN"),
    )
    if hasattr(errno, name)
}


def printable(text: str) -> str:
    """Return ``text`` on one line: what a terminal would obey or not show is written as Python writes it in a literal.

    Names come from files, and a hostile one could colour, hide or forge what people read.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def enumerated(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: *a, b and c*."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def brief(text: str, most: int = 400) -> str:
    """Return ``text`` on one line of at most ``most`` characters, cut in the middle: what is printed fits a screen."""
    text = printable(text)
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 3]} … {text[-end:]}"


class BnfoldError(Exception):
    """Base of all errors meant for the user: ``str(error)`` is one clear line."""

    exit_code = 1

    def __str__(self) -> str:
        return printable(super().__str__())


class BadInput(BnfoldError):
    """A file or argument that cannot be used."""


class WrongUsage(BadInput):
    """Arguments contradict each other, or make no sense for this kind of model."""

    exit_code = 2


class BadSetting(WrongUsage, ValueError):
    """Setting ``name`` has a value that it cannot have; ``problem`` says why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)

    @property
    def name(self) -> str:
        """The setting."""
        return str(self.args[0])

    @property
    def problem(self) -> str:
        """Why it cannot have this value."""
        return str(self.args[1])

    def __str__(self) -> str:
        return printable(f"{self.name}: {self.problem}")


class BadCommand(WrongUsage):
    """A command that there is none of, or that does not say which files it reads and writes."""


class MalformedModel(BadInput):
    """The bytes are not an ONNX model, or a length in them points outside what encloses it."""


class CutOffModel(MalformedModel):
    """The file ends before the last field that it begins."""


class ExternalDataError(BadInput):
    """A tensor's external data cannot be read safely."""


class Unsupported(BnfoldError):
    """The model is legal, but bnfold cannot do what was asked of it."""


class ReferenceAttribute(Unsupported):
    """An attribute refers to an attribute of the enclosing function; its value depends on the caller."""


class MistypedAttribute(ReferenceAttribute):
    """An attribute is of another type than in any version of its operator, so that its value is unknown, too."""


class ExportedInTraining(Unsupported):
    """The model computes with each batch's own statistics, or drops at random; ``nodes`` has one line for each node."""

    def __init__(self, message: str, nodes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nodes = tuple(nodes)


class ConversionBlocked(Unsupported, RuntimeError):
    """No equivalent exists at the target opset for some nodes; ``blockers`` has one line for each of them.

    ``places`` has the graph of each, and the first value that it makes.

    Callers of onnx's own converter catch RuntimeError.
    """

    def __init__(self, message: str, blockers: Sequence[str] = (), places: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.blockers, self.places = tuple(blockers), tuple(places)


class OutputError(BnfoldError):
    """The output cannot be written; whatever stood there before is untouched."""

    @classmethod
    def at(cls, path: str | os.PathLike[str], error: Exception) -> OutputError:
        """Return the error with what the system says, in its words."""
        return cls(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


class SameFile(OutputError):
    """Two of the paths that were given are one file, and writing it would lose the other."""

    exit_code = 2


class VerificationFailed(BnfoldError):
    """The rewritten model does not compute what the original did; nothing was written.

    ``outcome`` holds the report and the verdict of the attempt.
    """

    def __init__(self, message: str, outcome: Outcome | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the attempt."""
        return self.outcome.verdict if self.outcome is not None else None


class StepRefused(BnfoldError):
    """A command's result was not put in place; ``step`` describes its result. Exit code 3: it was not compared."""

    def __init__(self, message: str, step: StepRow | None = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.step, self.exit_code = step, exit_code

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the command's result; None if it was not compared."""
        return self.step.verdict if self.step is not None else None


def machine_trouble(error: BaseException | None) -> str:
    """Return one line for what is the machine's doing, not a bug: a full disk, too little memory, too few descriptors.

    Empty for everything else.
    """
    while error is not None:
        if isinstance(error, MemoryError):
            return "not enough memory" + (f": {error}" if str(error) else "")
        if isinstance(error, OSError) and error.errno in _MACHINE:
            return (f"{error.filename}: " if error.filename else "") + (error.strerror or str(error))
        error = error.__cause__ or error.__context__
    return ""


def warn_renamed(old: str, new: str) -> None:
    """Warn a caller that asks a module for ``old``, a name that is ``new`` now (docs/stability.md)."""
    import warnings

    warnings.warn(f"{old} is called {new} now; the old name works until bnfold 0.3", DeprecationWarning, stacklevel=3)


if TYPE_CHECKING:
    UpgradeBlocked = ConversionBlocked
else:

    def __getattr__(name: str) -> Any:
        if name != "UpgradeBlocked":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warn_renamed("bnfold.errors.UpgradeBlocked", "bnfold.errors.ConversionBlocked")
        return ConversionBlocked
