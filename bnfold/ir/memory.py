"""What is concluded of models, kept for as long as a block of code runs in which nothing may edit them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from bnfold.ir.model import Model

Content = TypeVar("Content")


class Memory(Generic[Content]):
    """One content for each model that some block of code keeps; ``end`` is called when the outermost block ends."""

    def __init__(self, make: Callable[[], Content], end: Callable[[Content], object] = lambda _: None) -> None:
        self.make, self.end = make, end
        self.contents: dict[Model, Content] = {}

    def of(self, model: Model) -> Content | None:
        """Return the content that is kept for the model; None outside of every block."""
        return self.contents.get(model)

    def keeping(self, model: Model) -> Keeping[Content]:
        """Return the context of a block that keeps the model's content; one inside another shares it."""
        return Keeping(self, model)


class Keeping(Generic[Content]):
    """A block that keeps a content; `contextlib` takes as long as what most of these blocks do."""

    __slots__ = ("_is_outermost", "_memory", "_model")

    def __init__(self, memory: Memory[Content], model: Model) -> None:
        self._memory, self._model, self._is_outermost = memory, model, False

    def __enter__(self) -> None:
        self._is_outermost = self._model not in self._memory.contents
        if self._is_outermost:
            self._memory.contents[self._model] = self._memory.make()

    def __exit__(self, *_: object) -> None:
        if self._is_outermost:
            self._memory.end(self._memory.contents.pop(self._model))
