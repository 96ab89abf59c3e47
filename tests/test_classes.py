"""What `frozen` and `mutable` make is what ``dataclass(slots=True)`` makes, method by method."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field

import pytest

from bnfold.classes import frozen, mutable


@frozen
class Point:
    """A class with every kind of field."""

    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.x + self.y


@frozen(eq=False)
class Place:
    """One that is only equal to itself."""

    x: int


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """What `Point` has to behave like."""

    x: int
    y: int = 2
    names: list[str] = field(default_factory=list)


def test_arguments_defaults_and_properties() -> None:
    assert (Point(1).y, Point(1, 5).y, Point(x=1, y=5).total) == (2, 5, 6)
    assert Point(1).names == []
    assert Point(1).names is not Point(1).names
    given = ["a"]
    assert Point(1, names=given).names is given


@pytest.mark.parametrize("arguments", [(), (1, 2, [], 4)])
def test_wrong_arguments_are_told_with_the_classs_name(arguments: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
        Point(*arguments)  # type: ignore[arg-type]


def test_it_looks_like_the_standard_one() -> None:
    assert repr(Point(1, names=["a"])) == "Point(x=1, y=2, names=['a'])"
    assert repr(Standard(1)) == repr(Point(1)).replace("Point", "Standard")
    assert str(inspect.signature(Point)) == str(inspect.signature(Standard))
    assert Point.__match_args__ == Standard.__match_args__
    assert not hasattr(Point(1), "__dict__")


def test_nothing_can_be_set_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
        del point.x
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        point.other = 3  # type: ignore[attr-defined]
    assert point.x == 1


def test_equality_and_hash_go_by_the_fields_of_one_class() -> None:
    assert Point(1) == Point(1, 2, [])
    assert Point(1) != Point(2)
    assert Point(1) != Standard(1)  # type: ignore[comparison-overlap]
    assert len({Point(1, 2, ()), Point(1, 2, ())}) == 1  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_without_equality_there_is_identity() -> None:
    place = Place(1)
    assert place == place  # noqa: PLR0124
    assert place != Place(1)
    assert len({place, Place(1)}) == 2


def test_the_helpers_of_dataclasses_work() -> None:
    point = Point(1, names=["a"])
    assert dataclasses.is_dataclass(point)
    assert dataclasses.replace(point, y=3) == Point(1, 3, ["a"])
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "names": ["a"]}
    assert [member.name for member in dataclasses.fields(point)] == ["x", "y", "names"]


def test_copies_and_processes() -> None:
    point = Point(1, names=["a"])
    assert pickle.loads(pickle.dumps(point)) == point
    assert copy.copy(point).names is point.names
    assert copy.deepcopy(point) == point
    assert copy.deepcopy(point).names is not point.names


@mutable
class Count:
    """One that changes, with every kind of field."""

    name: str
    number: int = 0
    parts: list[int] = field(default_factory=list)
    later: int = field(init=False)


def test_a_mutable_one_is_set_field_by_field_and_equal_only_to_itself() -> None:
    count = Count("a", parts=[1])
    count.number += 1
    count.later = 3
    assert dataclasses.asdict(count) == {"name": "a", "number": 1, "parts": [1], "later": 3}
    assert repr(count) == "Count(name='a', number=1, parts=[1], later=3)"
    assert str(inspect.signature(Count)) == "(name: 'str', number: 'int' = 0, parts: 'list[int]' = <factory>) -> None"
    assert count != Count("a", 1, [1])
    assert len({count, Count("a", 1, [1])}) == 2
    with pytest.raises(AttributeError):
        count.other = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        Count("b").later  # noqa: B018 - nobody has set it
