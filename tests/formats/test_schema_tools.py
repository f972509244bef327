"""Reading argument dataclasses from source text: what becomes of an annotation and a default."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from dataclass_fields import Field, enums, fields, schema_of

SOURCE = '''
class Mode(StrEnum):
    """Two."""
    A = "a"
    B = "b"

@dataclass
class RunArguments:
    size: int = field(default=768 * 768)
    mode: Mode | None = field(default=Mode.A)
    words: Optional[Union[str, list[str]]] = field(default=None)
    derived: int = field(default=1, init=False)
    _private: int = 2
    kind: ClassVar[str] = "x"

class Other:
    ignored: int = 1
'''


def test_fields_are_those_that_the_parser_takes() -> None:
    found = list(fields(SOURCE, ("Arguments",)))
    assert [one.name for one in found] == ["size", "mode", "words"]
    assert found[0] == Field("size", "int", 768 * 768)
    assert found[1].default is ...  # a member is no literal


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("int", {"type": "integer"}),
        ("Optional[float]", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        ("Mode | None", {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}),
        ('Literal["x|y", "z"]', {"enum": ["x|y", "z"]}),
        ("list[str]", {"type": "array", "items": {"type": "string"}}),
        ("Union[dict[str, int], str]", {"anyOf": [{"type": "object"}, {"type": "string"}]}),
        ("SomethingElse", {}),
    ],
)
def test_annotations(annotation: str, schema: dict[str, Any]) -> None:
    assert schema_of(annotation, enums(SOURCE)) == schema


def test_schemas_of_equal_annotations_are_not_shared() -> None:
    schema_of("int", {})["x"] = 1
    assert schema_of("int", {}) == {"type": "integer"}
