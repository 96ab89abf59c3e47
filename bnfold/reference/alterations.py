"""Changes of values in a run: what nodes read is another value than was stored or computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bnfold import ir
from bnfold.reference.precision import Datum


@dataclass(frozen=True, slots=True)
class Substitute:
    """A change of a value to another one, whatever it is: it is not read for that."""

    datum: Datum

    def __call__(self, _: Datum) -> Datum:
        """Return the other value."""
        return self.datum


Alterations = Mapping[ir.Value, Callable[[Datum], Datum]]
