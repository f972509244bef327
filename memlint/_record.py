"""A fast `NamedTuple`: memlint defines some 150 of these classes each time it starts.

`typing.NamedTuple` compiles a constructor for each class and wraps each annotation: 150 to 250 us a class,
30 ms of a start. Here constructors of the same number of fields share one code object (`_record_constructors.py`),
renamed for each class, and annotations stay the strings that they are: about 10 us. Instances are the same: tuples
without a dict.

Needs `from __future__ import annotations` in the module that defines a class (the annotations are the fields).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter

    from memlint._record_constructors import CONSTRUCTORS

    _FUNCTION = type(lambda: None)
    _new = tuple.__new__
    _QUALNAMES = hasattr((lambda: None).__code__, "co_qualname")
    _GETTERS = []  # field number -> descriptor

    class _Record(tuple):
        """The methods of all records, as those of `collections.namedtuple`."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            made = _new(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            made, places = list(self), self._places
            try:
                for name, value in changes.items():
                    made[places[name]] = value
            except KeyError:
                unknown = [name for name in changes if name not in places]
                raise ValueError(f"Got unexpected field names: {unknown!r}") from None
            return _new(self.__class__, made)

        def _asdict(self):
            return dict(zip(self._fields, self))

        def __repr__(self):
            inner = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
            return f"{self.__class__.__name__}({inner})"

        def __getnewargs__(self):
            return tuple(self)

    class _Maker(type):
        """The metaclass: turns a class statement into a plain subclass of tuple."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            count = len(fields)
            if count >= len(CONSTRUCTORS):
                raise TypeError(f"{name}: _record_constructors.py has none for {count} fields")
            given = tuple(field for field in fields if field in body)
            if given != fields[count - len(given) :]:
                raise TypeError(f"{name}: a field without a default follows one with a default")
            defaults = tuple(map(body.pop, given))
            body.update(zip(fields, _getters(count)))
            code = CONSTRUCTORS[count].__code__
            code = code.replace(co_varnames=("_cls", *fields), co_name="__new__", **_qualified_name(name))
            body["__new__"] = _FUNCTION(code, globals(), "__new__", defaults)
            body["__slots__"] = ()
            body["__match_args__"] = body["_fields"] = fields
            body["_field_defaults"] = dict(zip(given, defaults))
            body["_places"] = dict(zip(fields, range(count)))
            return type.__new__(type, name, (_Record,), body)

    def _qualified_name(name):
        """The name that Python 3.11 and later show in the error of a wrong call."""
        return {"co_qualname": f"{name}.__new__"} if _QUALNAMES else {}

    def _getters(count):
        for index in range(len(_GETTERS), count):
            _GETTERS.append(_tuplegetter(index, f"Alias for field number {index}"))
        return _GETTERS[:count]

    class NamedTuple(metaclass=_Maker):
        """The base class to write in a class statement. The resulting class does not inherit from it."""
