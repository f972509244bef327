"""The name of a model family is written where its shape and its code are described, and nowhere else.

Homes are `architectures/` (its shape), `memory/families/` (what transformers' code of it does to memory), and one
`formats/<framework>/families.py` for what a framework does for it. All other code asks a row for a trait.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import memlint.memory.families as rows
from memlint.architectures.builder import families
from memlint.memory.families.lookup import DEFAULT, every, last_change, of_layer, of_model_type
from memlint.memory.families.traits import ALWAYS, NEVER, Family, Releases, before, since

PACKAGE = Path(rows.__file__).parents[2]
HOMES = ("architectures/", "memory/families/")
# Names that are something else too: a kind of mixer, and the last part of a module's name.
OTHER_MEANINGS = {"mamba2", "mamba"}
# Attributes that hold such a name, whose beginning or end must not be asked for.
NAMED = {"family", "class_name", "layer_class", "model_type"}


def sources() -> list[Path]:
    paths = (path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))
    return [PACKAGE / path for path in paths if not path.startswith(HOMES) and not _is_table(path)]


def _is_table(path: str) -> bool:
    return path.startswith("formats/") and path.endswith("/families.py") and path.count("/") == 2


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Model types that memlint knows, the names of layers' classes, and what rows say they begin with."""
    types = {*families(), *(name for row in every() for name in row.model_types)} - OTHER_MEANINGS
    return frozenset(types | _layer_classes() | {beginning for row in every() for beginning in row.classes})


def _layer_classes() -> set[str]:
    found = set()
    for path in (PACKAGE / "architectures").rglob("*.py"):
        texts = (node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant))
        found |= {text for text in texts if isinstance(text, str) and text.endswith(("DecoderLayer", "Block"))}
    return found


def is_a_name(text: str) -> bool:
    """Whether `text` names a family, or is what a layer's class begins with ("Qwen", "Llama4Text")."""
    others = ("Block", "Layer", "Hyper")  # Hyper is a terminal
    begins = len(text) > 3 and text[0].isupper() and text.isalnum() and text not in others
    return text in names() or (begins and any(name.startswith(text) for name in names()))


def questions_about_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings that name a family (documentation aside), and questions about the beginning of such a name."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if is_a_name(node.value):
                yield node.lineno, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.func.value
            if (
                node.func.attr in ("startswith", "endswith")
                and isinstance(asked, ast.Attribute)
                and asked.attr in NAMED
            ):
                yield node.lineno, f"{asked.attr}.{node.func.attr}"


def test_families_are_named_at_home_alone() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sources()
        for line, name in questions_about_names(ast.parse(path.read_text("utf-8")))
    ]
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        'if architecture.family == "gemma2": ...',
        'if shape.class_name.startswith("Cohere"): ...',
        "if tower.layer_class.startswith(NEW): ...",
        'EAGER = ("bloom", "mpt")',
        'OLD = {"llama": (4, 36)}',
        'rotates = name.startswith(("Qwen", "Glm4v"))',
    ],
)
def test_a_test_of_a_name_is_seen(code: str) -> None:
    assert list(questions_about_names(ast.parse(code)))


def test_each_name_has_one_row() -> None:
    counted = Counter(name for row in every() for name in (*row.model_types, *row.classes))
    assert [name for name, times in counted.items() if times > 1] == []
    assert all(row.model_types or row.classes for row in every())


def test_every_row_that_is_written_is_found() -> None:
    folder = Path(rows.__file__).parent
    assert every()
    for path in folder.glob("*.py"):
        module = __import__(f"memlint.memory.families.{path.stem}", fromlist=["*"])
        written = [value for name, value in vars(module).items() if isinstance(value, Family) and value is not DEFAULT]
        assert all(any(value is row for row in every()) for value in written), path.stem


def test_the_index_has_each_name() -> None:
    done = subprocess.run(
        [sys.executable, str(PACKAGE.parent / "tools" / "family_index.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_name_leads_to_its_row() -> None:
    found = tuple(every())
    assert found
    for row in found:
        assert all(of_model_type(name) is row for name in row.model_types)
        assert all(of_layer(name) is row for name in row.classes)


def test_a_name_imports_the_module_of_its_row_alone() -> None:
    code = (
        "import sys, memlint.memory.families.lookup as lookup; lookup.of_layer('LlamaDecoderLayer');"
        "lookup.of_model_type('bloom'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    loaded = {name for name in done.stdout.split() if name.startswith(f"{rows.__name__}.")}
    assert loaded == {f"{rows.__name__}.{name}" for name in ("lookup", "traits", "gpt")}


def test_the_longest_beginning_decides() -> None:
    assert of_layer("Llama4VisionEncoderLayer").tower.unfolds_pixels
    assert not of_layer("Llama4TextDecoderLayer").tower.unfolds_pixels
    assert of_layer("LlamaDecoderLayer") is of_model_type("never heard of") is DEFAULT


@pytest.mark.parametrize(
    ("releases", "included", "left_out"),
    [
        (ALWAYS, [(), (4, 30), (5, 23)], []),
        (NEVER, [], [(), (4, 30), (5, 23)]),
        (since(4, 36), [(), (4, 36), (4, 36, 2), (5,)], [(4, 35, 2)]),
        (before(4, 49), [(4, 48, 3)], [(), (4, 49), (5, 1)]),
        (Releases((4, 46), (5, 21)), [(4, 46), (5, 20)], [(), (4, 45), (5, 21)]),
    ],
)
def test_no_version_means_the_newest_release(
    releases: Releases, included: list[tuple[int, ...]], left_out: list[tuple[int, ...]]
) -> None:
    assert all(map(releases.include, included))
    assert not any(map(releases.include, left_out))


def test_releases_that_change_a_family_are_read_from_its_row() -> None:
    assert last_change("gemma2") == (5, 21)
    assert last_change("gemma3") == (5, 17)
    assert last_change("qwen3") == ()
