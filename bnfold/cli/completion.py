"""What a shell completes behind options: names of optimisers and operators, opsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")

Completion = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem]"]


def script(command: click.Command, shell: str) -> str:
    """Return the script that makes a shell complete ``command``."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(command, {}, "bnfold", "_BNFOLD_COMPLETE").source()


def among(values: Callable[[], Iterable[str]], *, several: bool = False) -> Completion:
    """Complete one of ``values``; of ``several``, which commas separate, the last."""

    def complete(_ctx: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, last = typed.rpartition(",") if several else ("", "", typed)
        return [CompletionItem(f"{before}{comma}{value}") for value in values() if value.startswith(last)]

    return complete


def operators() -> list[str]:
    """Return the names of onnx's operators."""
    import onnx

    return sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def rewrites() -> list[str]:
    """Return the names of rewrites that can be left out."""
    from bnfold.report.rewrites import NAMED

    return [*NAMED]


def opsets() -> list[str]:
    """Return what an opset may be."""
    import onnx

    return ["keep", "latest", "lowest", *map(str, range(onnx.defs.onnx_opset_version(), 0, -1))]


def ir_versions() -> list[str]:
    """Return what an IR version may be."""
    import onnx

    from bnfold.settings import LOWEST_IR_VERSION

    return ["auto", "keep", *map(str, range(onnx.IR_VERSION, LOWEST_IR_VERSION - 1, -1))]


def choices(hint: Any) -> list[str]:
    """Return the values of a field that holds some of a few names."""
    from typing import get_args

    return list(get_args(get_args(hint)[0]))
