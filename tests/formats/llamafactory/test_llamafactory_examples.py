"""The example repository: every file is recognised, has nothing wrong with it, and gives a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.formats import recognise
from memlint.formats.base import Context
from memlint.formats.llamafactory import format as llamafactory
from memlint.formats.references import Files, reader
from memlint.source import in_dialect, load
from memlint.source.document import Document
from tests.formats.llamafactory.files import MODELS, context

FOLDER = Path(__file__).parents[3] / "examples" / "llamafactory"
CONFIGS = sorted(FOLDER.glob("*.yaml"))


def read(path: str) -> Document:
    return load(Path(path).read_bytes(), path)[0]


def outside() -> Context:
    root = str(FOLDER)
    files = Files(lambda p: Path(p).is_file(), lambda p: Path(p).exists(), lambda p: str(Path(p).resolve()), read)
    found = context().find_model("llama", "")
    return context()._replace(read=reader(root, root, files), find_model=lambda name, path: found, gpus=8)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_an_example_is_clean(path: Path) -> None:
    document = in_dialect(read(str(path)), llamafactory.DIALECT)
    found = recognise(document)
    assert found is not None and found[0].NAME == "llamafactory" and found[1].confidence == "certain"
    parsed = llamafactory.parse(document, outside())
    assert not [issue for issue in parsed.issues if issue.severity == "error"]
    assert parsed.runs[0].model.architecture == MODELS["llama"]
    assert "# memlint: gpu=" in document.text


def test_the_zero3_example_reads_its_deepspeed_file() -> None:
    document = in_dialect(read(str(FOLDER / "llama3_8b_full_zero3.yaml")), llamafactory.DIALECT)
    run = llamafactory.parse(document, outside()).runs[0]
    assert run.parallelism.zero.stage == 3
    assert run.related == (str(FOLDER / "deepspeed" / "zero3.json"),)
