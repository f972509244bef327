"""`memlint._record.NamedTuple` against `typing.NamedTuple`: the same values, and patterns that compile late."""

from __future__ import annotations

import pickle
import typing
from typing import Any

import pytest

from memlint import _record
from memlint._record_constructors import CONSTRUCTORS


class Mine(_record.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    names: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.x + self.y


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    names: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.x + self.y


BOTH = pytest.mark.parametrize("kind", [Mine, Theirs])


@BOTH
def test_a_record_is_a_tuple_with_names(kind: Any) -> None:
    one = kind(1, names=("a",))

    assert one == (1, 2, ("a",))
    assert (one.x, one.y, one.names, one.total) == (1, 2, ("a",), 3)
    assert one._replace(y=5) == (1, 5, ("a",))
    assert one._asdict() == {"x": 1, "y": 2, "names": ("a",)}
    assert kind._make([1, 2, 3]) == (1, 2, 3)
    assert kind._fields == kind.__match_args__ == ("x", "y", "names")
    assert kind._field_defaults == {"y": 2, "names": ()}
    assert repr(one) == f"{kind.__name__}(x=1, y=2, names=('a',))"
    assert kind.__doc__ == "A point."
    assert not hasattr(one, "__dict__")
    assert pickle.loads(pickle.dumps(one)) == one
    assert type(pickle.loads(pickle.dumps(one))) is kind


@BOTH
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda kind: kind(), TypeError),
        (lambda kind: kind(1, z=2), TypeError),
        (lambda kind: kind(1, 2, 3, 4), TypeError),
        (lambda kind: kind(1, x=2), TypeError),
        (lambda kind: kind(1)._replace(z=1), (ValueError, TypeError)),
        (lambda kind: kind._make([1]), TypeError),
        (lambda kind: setattr(kind(1), "x", 2), AttributeError),
    ],
)
def test_a_wrong_call_is_refused(kind: Any, call: Any, error: Any) -> None:
    with pytest.raises(error):
        call(kind)


def test_a_field_without_default_after_one_with_default_is_refused() -> None:
    with pytest.raises(TypeError):
        type(_record.NamedTuple)("Wrong", (_record.NamedTuple,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})


@pytest.mark.parametrize("count", range(len(CONSTRUCTORS)))
def test_a_constructor_takes_each_field_by_place_or_by_name(count: int) -> None:
    fields = [f"field_{number}" for number in range(count)]
    kind = type(_record.NamedTuple)("Wide", (_record.NamedTuple,), {"__annotations__": dict.fromkeys(fields, "int")})

    assert kind(*range(count)) == tuple(range(count)) == kind(**{name: at for at, name in enumerate(fields)})


def test_a_record_wider_than_any_constructor_is_refused_by_name() -> None:
    fields = {f"field_{number}": "int" for number in range(len(CONSTRUCTORS))}

    with pytest.raises(TypeError, match=r"Wide: _record_constructors\.py"):
        type(_record.NamedTuple)("Wide", (_record.NamedTuple,), {"__annotations__": fields})
