"""The names of `typing` that the modules of a start use: importing `typing` itself takes 3 % of a start.

Type checkers see those of `typing`. At run time nothing reads annotations, so that anything may stand for a type.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import Generic as Generic
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
    from typing import TextIO as TextIO
    from typing import TypeVar as TypeVar
    from typing import Union as Union
    from typing import cast as cast
else:
    Any = NoReturn = TextIO = Protocol = object

    class Generic:
        """`Generic[T]` and `Union[A, B]` are classes like any other."""

        def __class_getitem__(cls, _):
            return cls

    Union = Generic

    def TypeVar(name):
        return name

    def cast(_, value):
        return value
