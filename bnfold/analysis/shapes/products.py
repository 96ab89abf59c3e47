"""Products of sizes; if a factor is dynamic, the product has a name, which says its factors.

Equal products have equal names, and no name of one size has a sign of multiplication in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from bnfold.ir.value import Dim

_TIMES = "*"
_MOST = 8
"""Dynamic sizes that a product may have."""


def factors(sizes: Iterable[int | str]) -> tuple[Counter[str], int]:
    """Return the dynamic sizes of a product, and the product of the others."""
    names: Counter[str] = Counter()
    number = 1
    for size in sizes:
        for part in size.split(_TIMES) if isinstance(size, str) else (size,):
            if isinstance(part, str) and not part.isdecimal():
                names[part] += 1
            else:
                number *= int(part)
    return names, number


def product(sizes: Iterable[Dim]) -> Dim:
    """Return the product of sizes, by name if one of them is dynamic; None if one is not known."""
    told = [*sizes]
    known = [size for size in told if size is not None]
    if len(known) < len(told):
        return None
    names, number = factors(known)
    return named(names, number) if number >= 0 or not names else None


def multiplied(one: Dim, other: Dim) -> Dim:
    """Return the product of two items, which may be no sizes if they are numbers."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other if abs(one * other) < 1 << 31 else None
    return product((one, other))


def named(names: Counter[str], number: int) -> Dim:
    """Return the product of dynamic sizes and a number; None if it has too many factors to be of use."""
    if not names or number == 0:
        return number
    if names.total() > _MOST:
        return None
    return _TIMES.join([*sorted(names.elements()), *([str(number)] if number != 1 else [])])


def replaced(size: Dim, names: Mapping[str, int | str]) -> Dim:
    """Return a size, or a product of sizes, whose ``names`` are others by now."""
    if not isinstance(size, str) or size in names:
        return names[size] if isinstance(size, str) else size
    if _TIMES not in size:
        return size
    made = product(names.get(part, part) for part in size.split(_TIMES))
    return size if made is None else made


def is_product(size: Dim) -> bool:
    """Whether a size is a product with dynamic sizes, which may be larger than any one size."""
    return isinstance(size, str) and _TIMES in size
