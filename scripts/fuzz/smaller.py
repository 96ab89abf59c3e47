"""Shrink a failing case while it goes on failing in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from fuzz.case import Case
from fuzz.judge import fewer_nodes


def shrink(case: Case, fails: Callable[[Case], bool], *, seconds: float = 30.0, attempts: int = 400) -> Case:
    """Return the smallest case found for which ``fails`` still holds."""
    ends = time.monotonic() + seconds
    left = attempts
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(case):
            if left == 0 or time.monotonic() > ends:
                return case
            left -= 1
            if candidate.size < case.size and fails(candidate):
                case, smaller = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    for name in case.files:
        yield replace(case, files={other: content for other, content in case.files.items() if other != name})
    models = {name: content for name, content in case.files.items() if name.endswith(".onnx")}
    try:
        protos = [onnx.ModelProto.FromString(content) for content in (case.model, *models.values())]
    except DecodeError:
        yield from _fewer_bytes(case)
        return
    # One at a time: a model may be large. The case's other parts are shrunk at the same places.
    for whole, *others in zip(*(chain(fewer_nodes(proto), _without_parts(proto)) for proto in protos), strict=False):
        files = {name: other.SerializeToString() for name, other in zip(models, others, strict=True)}
        yield replace(case, model=whole.SerializeToString(), files={**case.files, **files})
    yield from _fewer_bytes(case)


def _fewer_bytes(case: Case) -> Iterator[Case]:
    size = len(case.model)
    step = size // 2
    while step:
        for start in range(0, size, step):
            yield replace(case, model=case.model[:start] + case.model[start + step :])
        step //= 2
        if size // max(step, 1) > 256:
            return


def _without_parts(proto: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Yield the model without each field, and without parts of each list, the outermost and largest first."""
    for path in _places(proto, ()):
        for cut in _cuts(proto, path):
            copy = onnx.ModelProto()
            copy.CopyFrom(proto)
            cut(_reach(copy, path[:-1]), path[-1])
            yield copy


Path = tuple[str | int, ...]
Cut = Callable[[Any, Any], None]


def _places(message: Message, path: Path) -> Iterator[Path]:
    for field, _ in message.ListFields():
        yield (*path, field.name)
    for field, content in message.ListFields():
        if field.message_type is None or len(path) > 12:
            continue
        if isinstance(content, Message):
            yield from _places(content, (*path, field.name))
        else:
            for index, item in enumerate(content):
                yield from _places(item, (*path, field.name, index))


def _reach(message: Any, path: Path) -> Any:
    for step in path:
        message = message[step] if isinstance(step, int) else getattr(message, step)
    return message


def _cuts(proto: onnx.ModelProto, path: Path) -> Iterator[Cut]:
    content = _reach(proto, path)
    if isinstance(content, (Message, str, bytes, int, float)):
        yield lambda message, name: message.ClearField(name)
        return
    step = len(content)
    while step:
        for start in range(0, len(content), step):
            yield partial(_delete, where=slice(start, start + step))
        step //= 2


def _delete(message: Any, name: str, where: slice) -> None:
    del getattr(message, name)[where]
