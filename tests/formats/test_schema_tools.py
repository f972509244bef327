"""Reading argument dataclasses from source text: what becomes of an annotation and a default."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import pydantic_models
from dataclass_fields import Field, enums, fields, schema_of
from key_tables import Table, tables
from pydantic_schema import Compiler
from schema_descriptions import described

from memlint.formats.keys import Key, Keys

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


MODELS = """
Recipe = Literal["rowwise", "tensorwise"]

class Base(BaseModel):
    size: int = Field(default=4, ge=1)
    name: str

class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    on: bool = False

class Config(Base):
    name: str | None = Field(None, alias="title", deprecated="use another")
    recipe: Recipe | None = None
    part: Part | bool | None = None
    parts: Annotated[list[Part], MinLen(1)] | None = None
    either: list[str] | str | None = None
    pair: tuple[int, int] | int = 1
    made: dict[str, str] = Field(default_factory=dict)
"""


def test_pydantic_fields_are_inherited_and_overridden() -> None:
    found = pydantic_models.fields("Config", pydantic_models.read([MODELS]))
    assert [(name, field.required) for name, field in found.items()][:2] == [("size", False), ("name", False)]
    assert found["size"].bounds == {"minimum": 1}
    assert (found["name"].aliases, found["name"].deprecated, found["name"].default) == (("title",), "use another", None)
    assert not found["made"].required
    assert pydantic_models.fields("Base", pydantic_models.read([MODELS]))["name"].required


def test_pydantic_annotations_become_one_schema_where_possible() -> None:
    sources = pydantic_models.read([MODELS])
    compiler = Compiler(sources, {}, {})
    found = {name: compiler.of(field.annotation) for name, field in pydantic_models.fields("Config", sources).items()}
    reference = {"$ref": "#/$defs/Part"}
    assert found["recipe"] == {"enum": ["rowwise", "tensorwise", None]}
    assert found["part"] == reference
    assert found["parts"] == {"type": ["array", "null"], "items": reference, "minItems": 1}
    assert found["either"] == {"type": ["array", "string", "null"], "items": {"type": "string"}}
    assert found["made"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert found["pair"]["anyOf"][0] == {"$ref": "#/$defs/integer"}
    assert compiler.kinds("Part")["type"] == ["object", "boolean", "null", "integer", "string"]
    assert "forbid" in pydantic_models.config_of("Part", sources)


def test_keys_are_described_where_a_table_has_them() -> None:
    section = {"type": "object", "properties": {"device": {"$ref": "#/$defs/word"}, "path": {"description": "old"}}}
    schema: dict[str, Any] = {
        "description": "of the whole",
        "anyOf": [{"$ref": "#/$defs/v0"}],
        "$defs": {"word": {"type": "string"}, "v0": {"properties": {"offload": {"anyOf": [section]}, "rate": {}}}},
    }
    keys = Keys(
        Key("offload.device", "word", about="Where it is."),
        Key("learning_rate", "number", about="How fast.", older=("rate",)),
        Key("offload.gone", "flag", about="No schema lists it."),
    )

    described(schema, [Table("some", "", keys)])

    inner = schema["$defs"]["v0"]["properties"]
    assert schema["description"] == "of the whole"
    assert inner["rate"] == {"description": "How fast."}
    assert inner["offload"]["anyOf"][0]["properties"] == {
        "device": {"$ref": "#/$defs/word", "description": "Where it is."},
        "path": {},
    }
    assert schema["$defs"]["word"] == {"type": "string"}


def test_every_key_of_every_table_says_what_it_does() -> None:
    found = list(tables())
    assert {"deepspeed", "accelerate"} <= {table.format for table in found}
    assert [(table.format, key.name) for table in found for key in table.keys if not key.about] == []
