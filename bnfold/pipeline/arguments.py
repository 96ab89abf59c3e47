"""What the public functions are called with, as the pipeline takes it."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import onnx

from bnfold.errors import WrongUsage
from bnfold.pipeline import formats, job
from bnfold.pipeline.outcome import ProcessedModel
from bnfold.settings import Options, OutputOptions, VerifyOptions, with_one_name
from bnfold.settings.progress import Progress

T = TypeVar("T", Options, VerifyOptions)


def open_source(source: Any, name: str = "source") -> formats.ModelSource:
    """Return the model as the pipeline takes it. Raises TypeError for what is none."""
    if isinstance(source, str | os.PathLike):
        return Path(source)
    if isinstance(source, bytes | onnx.ModelProto):
        return source
    onnx_ir = sys.modules.get("onnx_ir")  # a caller that has such a model has imported it
    if onnx_ir is not None:
        model = source if isinstance(source, onnx_ir.Model) else getattr(source, "model", None)
        if isinstance(model, onnx_ir.Model):
            from bnfold.interop.onnx_ir import from_onnx_ir

            return from_onnx_ir(model)
    wanted = "a path, bytes, onnx.ModelProto, onnx_ir.Model or torch.onnx.ONNXProgram is wanted"
    raise TypeError(f"{name}: {wanted}, not {type(source).__name__}")


def settings_of(kind: type[T], value: object, name: str) -> T:
    """Return the settings that were given, or those by default. Raises TypeError for another type."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        example = {"VerifyOptions": 'depth="full"', "Options": "target_opset=17"}[kind.__name__]
        wanted = f"a bnfold.{kind.__name__} is wanted, not {type(value).__name__}"
        raise TypeError(f"{name}: {wanted}; for example bnfold.{kind.__name__}({example})")
    return value


def options_of(fields: Mapping[str, Any], options: Options | None = None) -> Options:
    """Return the options with other fields, which count more.

    Raises:
        TypeError: A name is none of a field.
        BadSetting: ``opset`` and ``target_opset`` are given, and differ.
    """
    fields = with_one_name(fields)
    known = {field.name for field in dataclasses.fields(Options)}
    for name in fields.keys() - known:
        if name in {field.name for field in dataclasses.fields(VerifyOptions)}:
            raise TypeError(f"{name} belongs to verification: verify=bnfold.VerifyOptions({name}=...)")
        from difflib import get_close_matches  # which takes as long to import as click

        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else "bnfold.Options has those that there are"
        raise TypeError(f"there is no option {name}; {hint}")
    return dataclasses.replace(settings_of(Options, options, "options"), **fields)


def output_options(output: str | os.PathLike[str] | None) -> OutputOptions | None:
    """Return where the result goes; None where it stays in memory."""
    if isinstance(output, Options | VerifyOptions):
        raise WrongUsage("the second argument is the output; give options by name: options=… or verify=…")
    return None if output is None else OutputOptions(Path(output))


def process_source(
    source: Any,
    output: str | os.PathLike[str] | None,
    options: Options,
    verify: VerifyOptions | None,
    progress: Progress | None = None,
) -> ProcessedModel:
    """Do as `bnfold.pipeline.job.process`, with what a public function was given."""
    checks = settings_of(VerifyOptions, verify, "verify")
    return job.process(open_source(source), output_options(output), options, checks, progress)
