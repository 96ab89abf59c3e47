"""Arrays whose sizes are known and whose numbers are not: kernels run on them, and compute next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bnfold.reference.precision import Datum


class UnknownNumbers(Exception):
    """Raised if a result depends on numbers that are not known."""


class Outline(np.ndarray[Any, Any]):
    """An array whose shape and type are known, but not its numbers. One element stands for all of them.

    A ufunc computes that element alone. Other functions run on all elements, for the shape of their result. Reading a
    number as a Python number, or choosing elements by numbers, raises UnknownNumbers.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Return outlines of the results. What is written in place keeps its numbers."""
        out = options.pop("out", (None,))[0]
        arrays = [np.asarray(value) for value in inputs]
        result: Any
        if ufunc is np.matmul:
            result = outline(_product_shape(*arrays), np.result_type(*arrays))
        elif method == "__call__" and ufunc.nout == 1 and not ufunc.signature:
            options.pop("where", None)
            number = np.asarray(ufunc(*map(_one_of, arrays), **options))
            result = outline(np.broadcast_shapes(*(array.shape for array in arrays)), number.dtype, number)
        else:
            result = forget_numbers(getattr(ufunc, method)(*arrays, **options))
        if out is None:
            return result
        np.broadcast_to(result, out.shape)
        return out

    def __array_function__(self, function: Callable[..., Any], _: Any, args: Any, options: Any) -> Any:
        """Return outlines of the results of numpy's other functions."""
        if function in _COUNTING:
            raise UnknownNumbers
        shaped = _SHAPED.get(function)
        if shaped is not None and not options:
            return shaped(*args)
        return forget_numbers(function(*_plain(args), **{name: _plain(value) for name, value in options.items()}))

    def __getitem__(self, key: Any) -> Any:
        """Return an outline of the elements."""
        if _is_mask(key):
            raise UnknownNumbers
        return forget_numbers(super().__getitem__(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep the numbers; raise ValueError if the shapes do not fit."""
        np.broadcast_to(value, self[key].shape)

    def __iter__(self) -> Iterator[Any]:
        """Yield outlines of what the first axis holds."""
        return (self[place] for place in range(len(self)))

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """Return an outline of another type."""
        return outline(self.shape, dtype, _one_of(np.asarray(self)))

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnknownNumbers

    item = tolist = __int__ = __float__ = __index__ = _refuse


def outline(shape: tuple[int, ...], dtype: npt.DTypeLike, number: Any = 0) -> Any:
    """Return an array of this shape and type that takes no memory; what is written to it means nothing."""
    made = np.broadcast_to(np.asarray(number).astype(dtype), shape)
    made.flags.writeable = True  # some kernels write in place
    return made.view(Outline)


def forget_numbers(value: Datum) -> Datum:
    """Return a value with outlines in place of its arrays."""
    if isinstance(value, list | tuple):
        return type(value)(map(forget_numbers, value))
    if isinstance(value, np.ndarray | np.generic):
        return outline(value.shape, value.dtype, _one_of(np.asarray(value)))
    return value


def has_outline(value: Datum) -> bool:
    """Whether a number somewhere in a value is unknown."""
    return any(map(has_outline, value)) if isinstance(value, list | tuple) else isinstance(value, Outline)


def _is_mask(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return any(isinstance(part, np.ndarray) and part.dtype == bool for part in keys)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return np.asarray(value) if isinstance(value, Outline) else value


def _one_of(array: npt.NDArray[Any]) -> Any:
    return array[(0,) * array.ndim] if array.size else np.zeros((), array.dtype)


def _product_shape(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return the shape of a product of matrices, or of stacks of them."""
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise ValueError(f"a product of arrays of the shapes {a.shape} and {b.shape}")
    return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))


def _where(condition: Any, *sides: Any) -> Any:
    if not sides:
        raise UnknownNumbers
    shapes = (np.shape(value) for value in (condition, *sides))
    return outline(np.broadcast_shapes(*shapes), np.result_type(*sides))


def _concatenate(parts: Any, axis: int = 0) -> Any:
    shapes = [part.shape for part in parts]
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) != 1 or len(set(map(len, shapes))) != 1:
        raise ValueError(f"parts of the shapes {', '.join(map(str, shapes))} along axis {axis}")
    length = sum(shape[axis] for shape in shapes)
    return outline((*shapes[0][:axis], length, *shapes[0][axis + 1 :]), np.result_type(*parts))


_SHAPED: dict[Any, Callable[..., Any]] = {np.where: _where, np.concatenate: _concatenate}
"""Functions that would take long, by what they make of shapes."""
_COUNTING = frozenset({np.nonzero, np.flatnonzero, np.unique, np.compress, np.argwhere})
"""The size of their result is a number of elements that are so or so."""
