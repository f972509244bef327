"""Where a finding stands: keys, fields with an origin in a file, comments, and places that do not exist."""

from __future__ import annotations

from memlint.findings import Location
from memlint.formats.base import Parsed
from memlint.ruleset.places import Finder, location
from memlint.run import Origin, Run
from memlint.source import Document, load
from memlint.source.document import Path

TEXT = "# top\nrank: 8\nzero:\n  stage: 3\n  device:\n    cpu\nlist:\n- a\n- b: 1\n"


def document(text: str = TEXT, path: str = "a.yaml") -> Document:
    return load(text.encode(), path)[0]


def at(found: Location | None) -> tuple[int, int]:
    assert found is not None
    return found.line, found.column


def test_a_value_stands_at_its_value_and_on_request_at_its_key() -> None:
    assert at(location(document(), ("rank",))) == (2, 7)
    assert at(location(document(), ("rank",), on_key=True)) == (2, 1)
    assert location(document(), ("rank",)).pointer == ("rank",)


def test_a_mapping_of_several_lines_stands_at_its_key() -> None:
    assert at(location(document(), ("zero",))) == (3, 1)
    assert at(location(document(), ("zero", "device"))) == (6, 5)


def test_what_is_absent_stands_at_its_nearest_ancestor() -> None:
    assert at(location(document(), ("zero", "absent", "deeper"))) == (3, 1)
    assert at(location(document(), ("absent",))) == (2, 1)


def test_a_document_stands_at_its_first_key() -> None:
    assert at(location(document(), ())) == (2, 1)
    assert at(location(document(""), ())) == (1, 1)
    assert at(location(document("- a\n- b\n"), ())) == (1, 1)


def finder() -> Finder:
    main, companion = document(), document("stage: 2\n", "ds.yaml")
    raw_places: dict[str, tuple[str, Path]] = {
        "config": ("a.yaml", ()),
        "deepspeed": ("ds.yaml", ()),
        "gone": ("b", ()),
    }
    raw_places["zero"] = ("a.yaml", ("zero",))
    parsed = Parsed("trainer", (), (), (main, companion), raw={"hidden": {}}, raw_places=raw_places)
    origins = {
        "method.rank": Origin("file", "a.yaml", 2, 7, ("rank",)),
        "batch.micro_batch_size": Origin("default", detail="trl"),
        "parallelism.zero.stage": Origin("companion", "ds.yaml", 1, 8, ("stage",)),
        "hardware.gpu": Origin("directive", "a.yaml", 1, 0),
        "sequence.length": Origin("file", "elsewhere.yaml", 1, 1, ("x",)),
    }
    return Finder(parsed, Run("trainer", "a.yaml", origins=origins))


def test_a_key_is_found_by_its_section() -> None:
    found = finder()
    assert at(found.find("config.zero.stage")) == (4, 10)
    assert at(found.find("zero.stage")) == (4, 10)
    assert found.find("config.absent") is None
    assert found.find("gone.key") is None
    assert found.find("hidden") is None


def test_a_field_is_found_where_a_file_gives_it() -> None:
    found = finder()
    assert at(found.find("method.rank")) == (2, 7)
    companion = found.find("parallelism.zero.stage")
    assert at(companion) == (1, 8) and companion is not None and companion.path == "ds.yaml"
    assert at(found.find("hardware.gpu")) == (1, 1)
    for name in ("batch.micro_batch_size", "sequence.length", "loss.kind"):
        assert found.find(name) is None


def test_the_first_name_that_has_a_place_counts() -> None:
    found = finder()
    assert at(found.first(["batch.micro_batch_size", "config.absent", "method.rank", "config.zero"])) == (2, 7)
    assert at(found.first([])) == at(found.first(["config.absent"])) == (2, 1)
