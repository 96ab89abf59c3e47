"""The functions of the public interface for folders of models: `bnfold.optimize` and the like, on each model.

They do what the commands do with a folder: one model that fails does not stop the others, and a result that is up to
date is not made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from bnfold.batch import pairs, scheduler
from bnfold.batch.worker import FileResult, Settings, process_one
from bnfold.errors import BadSetting
from bnfold.pipeline import external_tools
from bnfold.pipeline.arguments import options_of, settings_of
from bnfold.settings import OptionFields, Options, OutputOptions, Tolerance, VerifyOptions
from bnfold.settings.progress import Progress
from bnfold.settings.python_words import speaks_python

FolderPath = str | os.PathLike[str]
Sources = FolderPath | Sequence[FolderPath]
MOST_ROWS = 20
"""Models that the text of a result names."""


@dataclass(frozen=True, slots=True, repr=False)
class FolderResult:
    """What became of the models of a folder; true if nothing failed, and nothing is in doubt.

    Attributes:
        models: A row for each model, and for what could not be looked at, in the order of their names.
        left_out: The number of models in hidden folders and installed packages, which were not looked at.
    """

    models: tuple[FileResult, ...]
    left_out: int = 0

    def __bool__(self) -> bool:
        """Whether nothing failed, and nothing is in doubt."""
        return all(each.is_good for each in self.models)

    def __repr__(self) -> str:
        """The models that need attention first, a line each."""
        rows = sorted(self.models, key=lambda each: each.is_good)
        lines = [f"{each.source}: {each.status}{f': {each.message}' if each.message else ''}" for each in rows]
        more = [f"and {len(lines) - MOST_ROWS} more"] if len(lines) > MOST_ROWS else []
        return "\n  ".join([f"FolderResult of {len(rows)} models", *lines[:MOST_ROWS], *more])

    def to_json(self) -> dict[str, Any]:
        """Return the report on all models, as ``bnfold/report/report.schema.json`` describes it."""
        return scheduler.to_json(self.models, scheduler.LeftOut(self.left_out, 0))


@speaks_python
def optimize_folder(
    source: Sources,
    output: FolderPath,
    *,
    options: Options | None = None,
    verify: VerifyOptions | None = None,
    jobs: int = 1,
    force: bool = False,
    progress: Progress | None = None,
    **fields: Unpack[OptionFields],
) -> FolderResult:
    """Do as `optimize` with every model of a folder; with the options of `fold` or `convert`, as these do.

    Args:
        source: A folder, a pattern such as ``"models/**/*.onnx"``, a URL of fsspec, or several of these.
        output: The folder for the results, which get the paths that the models have below ``source``.
        options: As for `optimize`.
        verify: As for `optimize`.
        jobs: How many processes work at once; 1 works in this process.
        force: Whether a result that is up to date is made again.
        progress: Called with ``"models"``, how many are done, and how many there are.
        **fields: As for `optimize`.

    Returns:
        A row for each model. Errors of one model are in its row.

    Raises:
        BadInput: There are no models.
        WrongUsage: ``output`` is a file, or the folder of the models; `BadSetting` if ``jobs`` is below 1.

    Examples:
        >>> import bnfold
        >>> results = bnfold.optimize_folder("models", "out", target_opset="keep", no_simplify=True)
        >>> assert results
        >>> [(result.status, result.counts.before, result.counts.after) for result in results.models]
        [('verified', 9, 0)]
    """
    chosen, checks = options_of(fields, options), settings_of(VerifyOptions, verify, "verify")
    planned = scheduler.plan_tasks(_texts(source), os.fspath(output))
    settings = Settings(chosen, checks, OutputOptions(Path(output)), force=force)
    return _all(planned, partial(process_one, settings=settings), jobs, progress)


@speaks_python
def inspect_folder(
    source: Sources, *, options: Options | None = None, progress: Progress | None = None, **fields: Unpack[OptionFields]
) -> FolderResult:
    """Show what `optimize_folder` would do, without writing or verifying anything.

    Args:
        source: As for `optimize_folder`.
        options: As for `optimize`.
        progress: As for `optimize_folder`.
        **fields: As for `optimize`.

    Raises:
        BadInput: There are no models.

    Examples:
        >>> import bnfold
        >>> [result.counts.nodes for result in bnfold.inspect_folder("models").models]
        [(32, 23)]
    """
    found = scheduler.find_models(_texts(source))
    checks = VerifyOptions(depth="none", runtime="none")
    settings = Settings(options_of(fields, options), checks, OutputOptions(Path()))
    results = scheduler.inspect(found.models, settings, progress or (lambda *_: None))
    return FolderResult((*found.unreadable, *results), found.left_out)


@speaks_python
def verify_folders(
    before: FolderPath,
    after: FolderPath,
    *,
    tolerance: Tolerance | None = None,
    options: VerifyOptions | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> FolderResult:
    """Compare each model of a folder with the model of the same name in another folder.

    Args:
        before: A folder or a pattern of models that are right by definition.
        after: The folder of the models that should be numerically equivalent.
        tolerance: As for `verify`.
        options: As for `verify`.
        jobs: As for `optimize_folder`.
        progress: As for `optimize_folder`.

    Returns:
        A row for each model, with its ``verdict``. What has no partner has failed.

    Raises:
        BadInput: There are no models.
        WrongUsage: ``after`` is a file; `BadSetting` if ``jobs`` is below 1.

    Examples:
        >>> import bnfold
        >>> results = bnfold.verify_folders("models", "out")
        >>> [(result.status, result.verdict.decided_by) for result in results.models]
        [('verified', 'float64')]
    """
    checks = settings_of(VerifyOptions, options, "options")
    checks = checks if tolerance is None else replace(checks, tolerance=tolerance)
    paired = pairs.pair_up(os.fspath(before), os.fspath(after))
    found = scheduler.Planned(paired.pairs, paired.alone, paired.left_out)
    return _all(found, partial(pairs.verify_pair, checks=checks), jobs, progress)


@speaks_python
def run_folder(  # noqa: PLR0913 - one optional keyword an option
    source: Sources,
    output: FolderPath,
    command: Sequence[str],
    *,
    tolerance: Tolerance | None = None,
    options: Options | None = None,
    verify: VerifyOptions | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> FolderResult:
    """Run an external tool on a copy of each model of a folder, and keep an output only if it is equivalent.

    Args:
        source: As for `optimize_folder`.
        output: As for `optimize_folder`.
        command: As for `run`.
        tolerance: As for `verify`.
        options: As for `run`.
        verify: As for `optimize`.
        jobs: As for `optimize_folder`.
        progress: As for `optimize_folder`.

    Returns:
        A row for each model. One whose output was not kept is ``failed`` or ``unverified``, and says why.

    Raises:
        BadInput: There are no models; `BadCommand` if there is no such program.
        WrongUsage: ``output`` is a file, or the folder of the models; `BadSetting` if ``jobs`` is below 1.

    Examples:
        >>> import bnfold
        >>> results = bnfold.run_folder("models", "copies", ["cp", "{input}", "{output}"])
        >>> [result.status for result in results.models]
        ['verified']
    """
    checks = settings_of(VerifyOptions, verify, "verify")
    checks = checks if tolerance is None else replace(checks, tolerance=tolerance)
    external_tools.command(command)
    planned = scheduler.plan_tasks(_texts(source), os.fspath(output))
    chosen = settings_of(Options, options, "options")
    program = pairs.ToolRun(tuple(command), chosen, checks, OutputOptions(Path(output)))
    return _all(planned, partial(pairs.run_one, program=program), jobs, progress)


def _all(
    planned: scheduler.Planned[scheduler.J],
    work: Callable[[scheduler.J], FileResult],
    jobs: int,
    progress: Progress | None,
) -> FolderResult:
    if jobs < 1:
        raise BadSetting("jobs", f"{jobs} is not in the range x>=1")
    pool = scheduler.processes(jobs, len(planned.tasks)) if jobs > 1 and planned.tasks else nullcontext()
    with pool as executor:
        results = scheduler.process_all(planned.tasks, work, executor, progress or (lambda *_: None))
    return FolderResult((*planned.unreadable, *results), planned.left_out)


def _texts(sources: Sources) -> list[str]:
    named = [sources] if isinstance(sources, str | os.PathLike) else sources
    return [os.fspath(each) for each in named]
