"""One step of an external tool: a file in, a file out, and the reason if its output is discarded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from bnfold import ir
from bnfold.errors import BadCommand, BnfoldError
from bnfold.ir.checking import checker_error
from bnfold.pipeline import simplifiers

TAKE_DATA_FILES = frozenset({"onnxscript", "onnxruntime"})
"""Simplifiers that take weights from a data file; the others hold a model as one message, which ends at 2 GB."""

ONE_FILE = 1_900_000_000
"""Bytes of weights beyond which they lie in a data file."""
_LONGEST = 300
"""Characters of what a program says when it fails."""


OUTPUT = "output.onnx"


class StepFailed(Exception):
    """The step made nothing that could be compared; the message says why in a few words."""


class StepSkipped(StepFailed):
    """The program was not even asked."""


@dataclass(frozen=True, slots=True)
class ExternalTool:
    """A program that reads a model file and writes another.

    Attributes:
        name: What people know it by.
        arguments: Those of ``simplifiers.py``; those of a command have ``{input}`` and ``{output}`` for the files.
        begun: The program, where it has been started already.
    """

    name: str
    arguments: tuple[str, ...]
    begun: Program | None = None

    @property
    def is_simplifier(self) -> bool:
        """Whether it gets the names of its files when it runs, and works beside them."""
        return self.arguments[0] in simplifiers.TOOLS

    def run(self, model: ir.Model, folder: Path, limit_seconds: float) -> ir.Model:
        """Return what the program makes of a copy of ``model`` in ``folder``: `OUTPUT` there, loaded.

        Raises StepFailed.
        """
        before, after = folder / "input.onnx", folder / OUTPUT
        is_big = model.parameter_bytes() > ONE_FILE
        if is_big and self.arguments[0] in simplifiers.TOOLS.keys() - TAKE_DATA_FILES:
            raise StepSkipped("it cannot read weights beyond 2 GB")
        ir.save(model, before, external_data="auto" if is_big else "none")
        words = [word.replace("{input}", str(before)).replace("{output}", str(after)) for word in self.arguments]
        with nullcontext(self.begun) if self.begun is not None else _started(words) as program:
            program.work([before, after] if self.is_simplifier else [], limit_seconds)
        return _result(model, after)


@contextmanager
def begun(step: ExternalTool) -> Iterator[ExternalTool]:
    """Return the step, its program started.

    A simplifier imports what it needs while others work, and waits for its files.
    """
    if not step.is_simplifier:
        yield step
        return
    with _started(step.arguments) as program:
        yield replace(step, begun=program)


def simplifier(name: str) -> ExternalTool:
    """Return the step of a tool that bnfold knows."""
    return ExternalTool(name, (name,))


def command(words: Sequence[str]) -> ExternalTool:
    """Return the step of a command. Raises BadCommand where it names no files, or there is no such program."""
    if not all(any(mark in word for word in words[1:]) for mark in ("{input}", "{output}")):
        raise BadCommand("the command has to name both files, as in: python convert.py {input} {output}")
    if shutil.which(words[0]) is None:
        raise BadCommand(f"COMMAND: there is no program {words[0]}")
    script = next((word for word in words if word.endswith(".py")), words[0])
    return ExternalTool(Path(script).name, ("--", *words))


@dataclass(frozen=True, slots=True)
class Program:
    """``simplifiers.py`` in a process of its own; what it prints is of interest only where it fails."""

    process: subprocess.Popen[bytes]
    printed: IO[bytes]

    def work(self, files: Sequence[Path], limit_seconds: float) -> None:
        """Start the work, and wait until it is done. Raises StepFailed."""
        told = f"{json.dumps([*map(str, files)])}\n".encode()
        try:
            self.process.communicate(told if files else None, timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            raise StepFailed(f"took longer than {limit_seconds:.0f} s") from None
        finally:
            _end(self.process)
        code = self.process.returncode
        if code < 0:
            raise StepFailed(f"crashed ({signal.strsignal(-code)})")
        if code > 0:
            raise StepFailed(": ".join([f"ended with exit code {code}", *_last_line(self.printed)]))


@contextmanager
def _started(arguments: Sequence[str]) -> Iterator[Program]:
    """Start a program; it and what it starts ends with the block."""
    words = [sys.executable, "-P", simplifiers.__file__, *arguments]
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=printed, stderr=printed, start_new_session=True
        ) as process,
    ):
        try:
            yield Program(process, printed)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it has started; that is left alone where the program itself came to its end."""
    if process.poll() is not None:
        return
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _last_line(printed: IO[bytes]) -> list[str]:
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - (1 << 16)))
    lines = [line for line in printed.read().decode(errors="replace").splitlines() if line.strip()]
    return [" ".join(line.split())[:_LONGEST] for line in lines[-1:]]


def _result(before: ir.Model, after: Path) -> ir.Model:
    if not after.is_file():
        raise StepFailed("wrote no output")
    try:
        model = ir.load(after)
        error = checker_error(model)
        if error and not checker_error(before):
            raise StepFailed(f"its output is no valid model: {error}")
    except BnfoldError as problem:
        raise StepFailed(f"its output cannot be read: {problem}".replace(f"{after}: ", "")) from problem
    return model
