"""Write one claim as two small models and the inputs of one experiment, so that anybody's runtime can repeat it."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from bnfold import ir
from bnfold.errors import BadSetting, BnfoldError, OutputError, Unsupported
from bnfold.ir.elements import Array
from bnfold.reference.shapes import state_types
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.claims import Evidence, Feeds, NumberKind
from bnfold.verification.codes import FAILED, MEANINGS, Code
from bnfold.verification.explaining import ComparedModels
from bnfold.verification.inputs.candidates import candidates
from bnfold.verification.request import Request
from bnfold.verification.verdict import Verdict

BEFORE, AFTER, INPUTS, README = "before.onnx", "after.onnx", "inputs.npz", "README.txt"
_FILES = {BEFORE, AFTER, INPUTS, README}
_DATA = {f"{name}.data" for name in (BEFORE, AFTER)}
_HEAD = "Two models that bnfold compared"

_COMPARISONS = ("part", "whole", "runtime")
"""The provers whose claims inputs show."""

_LARGEST = 16 << 20
"""Bytes of weights up to which whole models are copied."""

_SHOW = f"""\
import numpy, onnxruntime
feeds = dict(numpy.load("{INPUTS}"))
before, after = (onnxruntime.InferenceSession(name).run(None, feeds) for name in ("{BEFORE}", "{AFTER}"))
for one, other in zip(before, after):
    print(one.dtype, one.shape, other.shape, "equal" if numpy.array_equal(one, other) else "not equal")
    if one.shape == other.shape and one.dtype.kind == "f":
        print("largest difference", abs(one - other).max(), "of a largest value of", abs(one).max())
"""


def require_free(folder: Path, read: Sequence[Path]) -> None:
    """Raise BadSetting if the folder has files that are not of an earlier result, or such as are ``read`` now."""
    if folder.exists() and not folder.is_dir():
        raise BadSetting("save", f"{folder} is a file; name a folder")
    if not folder.absolute().parent.is_dir():
        raise BadSetting("save", f"there is no folder {folder.absolute().parent}")
    if any(file.resolve().parent == folder.resolve() for file in read):
        raise BadSetting("save", f"{folder} has the models that are compared; name another folder")
    own = {*_FILES, *_DATA} if _is_ours(folder) else set()
    if others := sorted(path.name for path in _files(folder) if path.name not in own):
        raise BadSetting("save", f"{folder} has other files ({others[0]}); name a new folder")


def _files(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.is_dir() else []


def _is_ours(folder: Path) -> bool:
    text = folder / README
    return text.is_file() and text.read_text(encoding="utf-8", errors="replace").startswith(_HEAD)


def save(verdict: Verdict, models: ComparedModels, request: Request, folder: Path) -> Verdict:
    """Write the first claim of the explanation; the verdict's explanation says what was written, or why nothing was.

    Without a value that was asked for, that is the first claim that differs, or else the first that is open.

    Raises:
        OutputError: The folder cannot be written.
    """
    claims = [claim for each in verdict.explanation for claim in each.claims if claim.prover in _COMPARISONS]
    claim = next((row for row in claims if request.checks.explain or row.status != "verified"), None)
    if claim is None:
        return nothing_saved(verdict)
    try:
        return _with_line(verdict, _saved(claim, models, request, folder))
    except OSError as error:
        raise OutputError.at(folder, error) from error
    except OutputError:
        raise
    except BnfoldError as error:
        return nothing_saved(verdict, str(error))


def nothing_saved(verdict: Verdict, why: str = "no part of this was compared, or none differs or is open") -> Verdict:
    """Return the verdict with an explanation that says so."""
    return _with_line(verdict, f"nothing is saved: {why}")


def _with_line(verdict: Verdict, line: str) -> Verdict:
    last = verdict.explanation[-1]
    return replace(verdict, explanation=(*verdict.explanation, replace(last, lines=(line,), claims=())))


def _saved(claim: Evidence, models: ComparedModels, request: Request, folder: Path) -> str:
    """Write the folder beside its place, and move it there; return what to say."""
    target = folder.absolute()
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        (new := work / "new").mkdir()
        line = _write(claim, models, request, new, folder)
        if target.is_dir():
            target.rename(work / "old")
        new.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return line


def _write(claim: Evidence, models: ComparedModels, request: Request, new: Path, folder: Path) -> str:
    numbers, feeds = _decisive(claim, request.ledger.feeds(claim))
    if claim.prover == "part":
        sides = models.parts(claim)
        if sides is None:
            raise Unsupported(f"the part that makes {claim.outputs[0]!r} cannot be cut out of both models")
        pair, feeds = _pair(sides, claim, request, feeds, numbers)
    else:
        pair = [request.before, request.after]
        feeds = feeds if feeds is not None else _drawn(request.before, request)
    is_large = claim.prover != "part" and sum(model.parameter_bytes() for model in pair) > _LARGEST
    for name, model in zip((BEFORE, AFTER), pair, strict=True):
        if not is_large:
            ir.save(model, new / name)
    if feeds is not None:
        _write_arrays(new / INPUTS, feeds)
    text = "\n".join(_readme(claim, request, has_inputs=feeds is not None, is_large=is_large))
    (new / README).write_text(text, encoding="utf-8")
    inputs = f", {INPUTS}" if feeds is not None else ""
    what = f"{folder}: {INPUTS}, {README}" if is_large else f"{folder}: {BEFORE}, {AFTER}{inputs}, {README}"
    about = "the whole models" if claim.prover != "part" else f"the part that makes {claim.outputs[0]!r}"
    return f"saved {about} in {what}"


def _readme(claim: Evidence, request: Request, *, has_inputs: bool, is_large: bool) -> list[str]:
    """Return the lines of a text that explains the files to people without bnfold."""
    about = "the whole models" if claim.prover != "part" else f"one part of larger models: {claim.label}"
    values = ", ".join(map(repr, claim.outputs))
    how_far = f"The largest difference is {claim.relative:.3g} of the largest value; {claim.allowed:.3g} is allowed."
    lines = [
        f"{_HEAD}: {BEFORE} (the original) and {AFTER} (what became of it).",
        f"They are {about}. They compute {values}.",
        f"bnfold's finding [{claim.code}]: {claim.note or MEANINGS[claim.code].text}",
        *([how_far] if claim.experiments else []),
        "",
    ]
    if is_large:
        files = [str(file or "a model in memory") for file in (request.before_file, request.after_file)]
        lines += [f"The models are too large to copy. {BEFORE} is {files[0]}, and {AFTER} is {files[1]}.", ""]
    if not has_inputs:
        return [*lines, "No inputs are saved: none were found that the original takes."]
    within = f" --tolerance {request.checks.tolerance}" if request.checks.tolerance is not None else ""
    data = f"bnfold verify {BEFORE} {AFTER} --data {INPUTS}{within}"
    return [
        *lines,
        "In onnxruntime, if it has the operators:",
        "",
        *(f"    {line}" for line in _SHOW.splitlines()),
        "",
        f"In bnfold: {data}",
        "",
    ]


def _decisive(claim: Evidence, feeds: Sequence[Feeds]) -> tuple[NumberKind, Feeds | None]:
    """Return the inputs of the experiment that decided, and what they are; none if none were kept.

    It is the first that found what the claim says, or else a fault.
    """
    runs = [*zip(claim.experiments, feeds, strict=False)]
    wanted = [run for run in runs if run[0].found in FAILED] if claim.status != "verified" else []
    wanted = [run for run in wanted if run[0].note == claim.note] or wanted
    wanted = wanted or [run for run in runs if run[0].found in (claim.code, Code.TESTED)] or runs
    return (wanted[0][0].numbers, wanted[0][1]) if wanted else ("drawn", None)


def _pair(
    sides: tuple[Subgraph, Subgraph], claim: Evidence, request: Request, feeds: Feeds | None, numbers: NumberKind
) -> tuple[list[ir.Model], Feeds | None]:
    """Return both parts as models of one interface, and inputs for them."""
    old, new = sides
    fed = {**new.inputs, **old.inputs}
    if feeds is not None and numbers == "as in an equal part":  # under the names there
        feeds = dict(zip(fed, feeds.values(), strict=True)) if len(feeds) == len(fed) else None
    if feeds is not None and feeds.keys() != fed.keys():  # with other numbers for a default, or for indices
        feeds = None
    inputs = [
        _info(name, _type(name, value.type, feeds[name] if feeds is not None else None)) for name, value in fed.items()
    ]

    def with_inputs(proto: onnx.ModelProto) -> None:
        del proto.graph.input[:]
        proto.graph.input.extend(inputs)

    typed = [side.model.clone(with_inputs) for side in sides]
    for model in typed:
        state_types(model)  # values in functions have no types of their own
    outputs = [
        _result(name, *places, *(model.graph.values[name] for model in typed))
        for name, *places in zip(claim.outputs, old.outputs, new.outputs, strict=True)
    ]

    def with_outputs(proto: onnx.ModelProto) -> None:
        del proto.graph.output[:]
        proto.graph.output.extend(outputs)

    pair = [model.clone(with_outputs) for model in typed]
    return pair, feeds if feeds is not None else _drawn(pair[0], request)


def _drawn(model: ir.Model, request: Request) -> Feeds | None:
    """Return inputs for a model that no experiment has run, at the first sizes that fit its operators."""
    try:
        drawn: Sequence[Feeds] = next(iter(candidates(model, replace(request.checks, data=None, inputs={}))), [])
    except BnfoldError:
        return None
    return drawn[0] if drawn else None


def _info(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=kind)


def _type(name: str, declared: onnx.TypeProto | None, array: Array | None) -> onnx.TypeProto:
    """Return the type of an input: as declared, but dynamic wherever what it is fed has another size."""
    kind = onnx.TypeProto()
    if declared is not None:
        kind.CopyFrom(declared)
    if not kind.ByteSize() and array is None:
        raise Unsupported(f"the type of {name!r} is not known; declare it in the model (value_info)")
    if array is None or (declared is not None and not declared.HasField("tensor_type")):
        return kind
    tensor = kind.tensor_type
    if not tensor.elem_type:
        tensor.elem_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    dims = tensor.shape.dim if tensor.HasField("shape") and len(tensor.shape.dim) == array.ndim else ()
    known = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims] or [
        None
    ] * array.ndim
    sizes = [
        size if isinstance(size, str) or size == real else None for size, real in zip(known, array.shape, strict=True)
    ]
    return onnx.helper.make_tensor_type_proto(tensor.elem_type, sizes)


def _result(name: str, *values: ir.Value) -> onnx.ValueInfoProto:
    """Return the type of an output; its sizes stay dynamic, for they may be what differs."""
    for value in values:
        if value.dtype and value.shape is not None:
            return _info(name, onnx.helper.make_tensor_type_proto(value.dtype, [None] * len(value.shape)))
    raise Unsupported(f"the type of {name!r} is not known")


def _write_arrays(path: Path, feeds: Mapping[str, Array]) -> None:
    """Write arrays by name; `numpy.savez` takes no array that is called ``file``."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in feeds.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, _plain(np.asarray(array)), allow_pickle=False)


def _plain(array: Array) -> Array:
    """Return numbers in a type that every numpy knows."""
    if array.dtype.kind == "O":
        return array.astype(np.str_)
    if array.dtype.kind == "V":  # bfloat16, float8, int4
        name = array.dtype.name
        return array.astype(np.float32 if "float" in name else np.uint8 if "uint" in name else np.int8)
    return array
