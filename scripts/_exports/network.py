"""What a network of the table is: a module with random weights, and what it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

BATCH = {0: "batch"}
"""An input whose first axis is open."""

TOKENS = {0: "batch", 1: "tokens"}
"""An input whose batch and length are open."""


class Built(NamedTuple):
    """A module, its inputs by name, and the axes of them that stay open."""

    module: nn.Module
    inputs: dict[str, torch.Tensor]
    dynamic: Mapping[str, Mapping[int, str]] = {}


class Network(NamedTuple):
    """A network by name; ``build`` makes it. Every call with one seed makes the same one."""

    name: str
    family: str
    build: Callable[[], Built]


class First(nn.Module):
    """The first result of a module that takes one input."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, data: torch.Tensor) -> Any:
        """Run the module."""
        found = self.inner(data)
        if isinstance(found, torch.Tensor):
            return found
        return found["out"] if "out" in found else found[0]


def image(size: int = 64, batch: int = 2) -> torch.Tensor:
    """Return random pixels."""
    return torch.randn(batch, 3, size, size)


def words(vocabulary: int = 99, length: int = 7, batch: int = 2) -> torch.Tensor:
    """Return random tokens."""
    return torch.randint(0, vocabulary, (batch, length))


def classified(module: nn.Module, size: int = 64, *, dynamic: bool = False) -> Built:
    """Return a module that takes images; ``dynamic`` leaves the batch open."""
    return Built(First(module), {"data": image(size)}, {"data": BATCH} if dynamic else {})
