"""The doors to files: below the root, each read once, nothing but regular files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memlint.formats.base import MissingFile
from memlint.repository.workspace import in_memory, on_disk, read_bytes
from memlint.source.document import Document

LOOP = """import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters())
for batch in torch.utils.data.DataLoader([], batch_size=8):
    model(**batch).loss.backward()
    optimizer.step()
"""


def test_a_reference_is_read_below_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "configs").mkdir(parents=True)
    (root / "ds.json").write_text('{"a": 1}')
    (tmp_path / "secret.json").write_text('{"b": 2}')
    (root / "link.json").symlink_to(tmp_path / "secret.json")
    read = on_disk(str(root), str(root)).context().read

    found = read("../ds.json", "configs/train.yaml")
    assert isinstance(found, Document)
    assert (found.path, found.value) == ("ds.json", {"a": 1})
    for reference in ("../../secret.json", str(tmp_path / "secret.json"), "link.json", "/etc/passwd"):
        refused = read(reference, "configs/train.yaml")
        assert isinstance(refused, MissingFile)
        assert refused.code == "outside"


def test_a_python_file_without_a_run_can_be_referred_to() -> None:
    read = in_memory({"a/conf.py": "batch = 8\n"}).context().read
    assert isinstance(read("conf.py", "a/train.sh"), Document)


def test_a_command_names_a_python_file_as_its_config() -> None:
    files = {"run.sh": "python train.py --config conf.py\n", "conf.py": "batch = 8\n", "train.py": LOOP}
    (found,) = in_memory(files).documents("run.sh")
    assert found.path == "run.sh"


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    workspace = on_disk(str(tmp_path), str(tmp_path))
    first = workspace.documents("a.yaml")
    path.write_text("a: 2")

    assert workspace.documents("a.yaml") is first


def test_files_that_refer_to_each_other_end(tmp_path: Path) -> None:
    read = in_memory({"a.yaml": "x: b.yaml", "b.yaml": "x: a.yaml"}).context().read

    assert isinstance(read("b.yaml", "a.yaml"), Document)
    back = read("a.yaml", "b.yaml")
    assert isinstance(back, MissingFile)
    assert back.code == "cyclic"


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(OSError, match="not a regular file"):
        read_bytes(str(pipe))


def test_models_are_looked_up_once_per_folder() -> None:
    workspace = in_memory({"a/train.yaml": "", "b/train.yaml": ""})

    first = workspace.find_model("no/such-model", "a/train.yaml")
    assert workspace.find_model("no/such-model", "a/train.yaml") is first
    assert first.architecture is None
