"""Names of the results of an IR: those of the tensors that its Results read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bnfold.interop.openvino.load import IrModel, tensor_names
from bnfold.interop.openvino.naming import output_port
from bnfold.ir.elements import Array


def output_names(model: IrModel, results: Mapping[str, Array]) -> list[str]:
    """One name for each output: of several that a tensor has, the first."""
    named = [name for name, _ in named_results(model, results)]
    aliases = {name for names in _result_names(model) for name in names}
    return list(dict.fromkeys([*named, *(name for name in results if name not in aliases)]))


def named_results(model: IrModel, results: Mapping[str, Array]) -> Iterator[tuple[str, str]]:
    """For each Result that has a tensor name: the name, and that of the value in the graph."""
    for names, (_, value) in zip(_result_names(model), model.scopes[0].results, strict=True):
        given = [name for name in names if name in results]
        if given:
            yield given[0], value.name


def _result_names(model: IrModel) -> Iterator[list[str]]:
    """The tensor names of what each Result reads."""
    scope = model.scopes[0]
    for _, value in scope.results:
        port = scope.made.get(value)
        yield tensor_names(output_port(scope, port)[1]) if port is not None else []
