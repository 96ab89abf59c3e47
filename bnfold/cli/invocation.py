"""A command line, read: the inputs, the output, and the settings that its options make."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from bnfold.batch.addresses import MAGIC, STREAM, is_url
from bnfold.cli.habits import numbered
from bnfold.cli.project import is_excluded
from bnfold.settings import ONE_JOB, Options, OutputOptions, Policy, VerifyOptions
from bnfold.settings.checked import Checked, about, documented

if TYPE_CHECKING:
    from bnfold.pipeline.formats import ModelSource


OutputFormat = Literal["text", "json", "github", "sarif", "json-lines"]


@documented
@dataclass(frozen=True, slots=True)
class CliOptions(Checked):
    """Options that only the command line has."""

    report: Sequence[str] = field(
        default=(),
        metadata=about(
            "Write a report: JSON for programs, HTML for people, Markdown for a comment; may be repeated.",
        ),
    )
    as_json: bool = field(
        default=False,
        metadata=about(
            "Print the report as JSON on standard output.",
        ),
    )
    output_format: OutputFormat = field(
        default="text",
        metadata=about(
            "Print the table, the report, or findings for GitHub, code scanning or other programs.",
        ),
    )
    no_verify: bool = field(
        default=False,
        metadata=about(
            "Do not compare the result with the original.",
        ),
    )
    as_is: bool = field(
        default=False,
        metadata=about(
            "Show the file as it is: no folding, no opset change.",
        ),
    )
    assert_none: frozenset[str] = field(
        default=frozenset(),
        metadata=about(
            "Exit with code 4 if any of these operators remains.",
            operators=(),
        ),
    )
    quantization: bool = field(
        default=False,
        metadata=about(
            "Show the expected int8 quantization error of each layer's weight: original, folded, equalized.",
        ),
    )
    jobs: int | None = field(
        default=None,
        metadata=about(
            "Number of worker processes for a folder.",
            low=1,
        ),
    )
    values: bool | None = field(
        default=None,
        metadata=about(
            "Run both models, and show where their values begin to differ, even if it takes a while.",
        ),
    )
    scheduler: str | None = field(
        default=None,
        metadata=about(
            "Run a folder on a Dask cluster: the scheduler's address, or a scheduler file (.json).",
        ),
    )
    exclude: Sequence[str] = field(
        default=(),
        metadata=about(
            "Leave out models whose path matches this pattern, or that are in such a folder; may be repeated.",
        ),
    )
    force: bool = field(
        default=False,
        metadata=about(
            "Process every model of a folder, even if its result is up to date.",
        ),
    )
    quiet: bool = field(
        default=False,
        metadata=about(
            "Print only errors and warnings.",
        ),
    )
    verbose: bool = field(
        default=False,
        metadata=about(
            "List every BatchNormalization and every note.",
        ),
    )
    latency: bool = field(
        default=False,
        metadata=about(
            "Run both models in onnxruntime in turns, and show their median times and the ratio.",
        ),
    )
    plugin: Sequence[str] = field(
        default=(),
        metadata=about(
            "Import this Python module or file (./name.py), which registers operators of its own; may be repeated.",
            "It runs as part of bnfold: name only what you trust.",
        ),
    )
    dry_run: bool = field(
        default=False,
        metadata=about(
            "Show what would happen, as inspect does, and write nothing.",
        ),
    )
    command: Sequence[str] = field(
        default=(),
        metadata=about(
            "The program and its arguments, with {input} and {output} for the files.",
        ),
    )


class Invocation(NamedTuple):
    """A command line, read; ``output`` is empty for a command that has none, and where inputs are overwritten."""

    sources: tuple[str, ...]
    output: str
    options: Options
    checks: VerifyOptions
    delivery: OutputOptions
    run: CliOptions

    @property
    def reports(self) -> list[Path]:
        """The reports to write."""
        return [Path(path) for path in self.run.report]

    def leaves_out(self, model: str) -> bool:
        """Whether a model is excluded."""
        return is_excluded(model, self.run.exclude)

    @property
    def lists_findings(self) -> bool:
        """Whether standard output is to be a list of findings, of one model or many."""
        return self.run.output_format not in ("text", "json")

    @property
    def source(self) -> str:
        """The first of the inputs, for commands that have one."""
        return self.sources[0]

    @property
    def is_many(self) -> bool:
        """Whether a folder, a pattern, a URL or several files are named, or one file that goes to a folder."""
        if len(self.sources) > 1 or is_url(self.source) or is_url(self.output):
            return True
        to_folder = self.output.endswith(("/", os.sep)) or os.path.isdir(self.output)  # noqa: PTH112 - any text
        if to_folder and self.source != STREAM:
            return True
        return _is_pattern(self.source) or os.path.isdir(self.source)  # noqa: PTH112 - one that may not be looked at

    def destination(self) -> OutputOptions | None:
        """Return where the result goes; None for standard output."""
        if self.output != STREAM:
            return self.delivery
        from bnfold.pipeline import formats

        if sys.stdout is None:
            raise click.UsageError("standard output is closed")
        if sys.stdout.isatty():
            raise click.UsageError("the model would go to the terminal; give OUT, or send it on: ... - > out.onnx")
        if formats.of(self.source).is_two_files:
            raise click.UsageError("an OpenVINO IR is two files and cannot go to standard output; give OUT.xml")
        if self.run.as_json:
            raise click.UsageError("the model and --json cannot both go to standard output; use --report FILE.json")
        return None

    def opened(self) -> ModelSource:
        """Return the model's path, or its bytes from standard input."""
        if self.source != STREAM:
            return Path(self.source)
        if sys.stdin is None:
            raise click.UsageError("standard input is closed")
        if sys.stdin.isatty():
            click.echo("bnfold: waiting for a model on standard input", err=True)
        return sys.stdin.buffer.read()


def named(arguments: dict[str, Any], reads: Sequence[str]) -> list[str]:
    """Return the inputs that a command line names, for messages."""
    paths = list(arguments.get("paths", ()))
    found = paths[:-1] or paths if "paths" in arguments else []
    for name in reads if not found else ():
        found += [arguments[name]] if isinstance(arguments.get(name), str) else arguments.get(name, ())
    return found or ["IN"]


def _inputs_and_output(paths: tuple[str, ...], *, in_place: bool, dry_run: bool) -> tuple[tuple[str, ...], str]:
    """Split the inputs from OUT, which comes last; ``in_place`` has none, and ``dry_run`` needs none."""
    example = f"`bnfold {click.get_current_context().info_name}"
    if len(paths) > 2 and paths[-1].isdecimal():
        raise click.UsageError(f"OUT cannot be {paths[-1]}; {numbered(paths[-1])}.")
    if not paths:
        raise click.UsageError(f"Missing argument 'IN', the model to read, as in {example} model.onnx out.onnx`.")
    if in_place:
        by_file = {path if is_url(path) else os.path.realpath(path): path for path in reversed(paths)}
        sources = tuple(reversed(by_file.values()))
        missing = [path for path in sources[1:] if not (is_url(path) or os.path.lexists(path) or _is_pattern(path))]
        if missing:
            raise click.UsageError(f"--in-place overwrites {paths[0]}; leave out the other output, {missing[0]}")
        return sources, ""
    if dry_run and len(paths) == 1:
        return paths, ""
    if len(paths) < 2:
        raise click.UsageError(f"Missing argument 'OUT', the file to write, as in {example} {paths[0]} out.onnx`.")
    return paths[:-1], paths[-1]


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in MAGIC) and not os.path.exists(text)  # noqa: PTH110 - any text


def read_invocation(given: dict[str, Any]) -> Invocation:
    """Make the settings of a command line from its options' values."""

    def made(kind: type[Any], **more: Any) -> Any:
        return kind(**{member.name: given[member.name] for member in fields(kind) if member.name in given}, **more)

    if given.get("plugin"):
        from bnfold.operators.plugins import load_plugins

        load_plugins(given["plugin"])  # before options that name operators are read
    run, checks = made(CliOptions), made(VerifyOptions)
    if run.quiet and run.verbose:
        raise click.UsageError("--quiet and --verbose contradict each other; give one of them")
    if run.as_json and run.output_format not in ("text", "json"):
        raise click.UsageError(
            f"--json and --output-format {run.output_format} contradict each other; give one of them"
        )
    run = replace(run, as_json=run.as_json or run.output_format == "json")
    if "paths" in given:
        sources, output = _inputs_and_output(given["paths"], in_place=given["in_place"], dry_run=run.dry_run)
    else:
        sources, output = given.get("sources") or (given["source"],), given.get("output", "")
    if run.no_verify:
        checks = replace(checks, depth="none")
    options = made(Options, policy=made(Policy))
    if run.as_is:
        kept: dict[str, Any] = dict.fromkeys(("target_opset", "ir_version", "overridable"), "keep")
        options = replace(options, fold=False, decompose="never", **kept, **ONE_JOB)
    reports = bool(run.report) or run.as_json
    delivery = made(OutputOptions, path=Path(output or sources[0]), explained=reports)
    return Invocation(sources, output, options, checks, delivery, run)
