"""The grid of what-ifs: it answers what the estimator answers, and stays small."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from memlint.lint.what_if import MANY_FILES, detail_for
from tests.commands.history import LLAMA
from tests.commands.running import memlint, write


def grid(folder: Path) -> dict[str, Any]:
    page = memlint(folder, "train.yaml", "--format", "html", "--gpu", "A100-40GB", "--gpus", "1").out
    match = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    (run,) = json.loads(match[1])["files"][0]["runs"]
    told: dict[str, Any] = run["what_if"]
    return told


def test_each_cell_is_the_estimate_of_the_config_that_says_it(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA})
    told = grid(tmp_path)
    batches, lengths, checkpointing, attention = told["axes"]
    assert [axis[index] for axis, index in zip(told["axes"], told["now"])][:3] == [1, 2048, "full"]

    changed = LLAMA.replace("batch_size: 1", "batch_size: 4").replace("cutoff_len: 2048", "cutoff_len: 4096")
    write(tmp_path, {"train.yaml": changed})
    run = json.loads(
        memlint(tmp_path, "estimate", "train.yaml", "--gpu", "A100-40GB", "--gpus", "1", "--format", "json").out
    )["runs"][0]

    place = 0
    for axis, value in zip(told["axes"], (4, 4096, "full", attention[told["now"][3]])):
        place = place * len(axis) + axis.index(value)
    sizes = [run["peak"][f"device_{name}bytes"] for name in ("low_", "", "high_")]
    assert told["cells"][place] == [*(round(size / 2**10) for size in sizes), run["verdict"].replace("_", " ")]
    assert len(told["cells"]) == len(batches) * len(lengths) * len(checkpointing) * len(attention) <= 250


def test_large_repositories_get_small_grids() -> None:
    assert detail_for(MANY_FILES) == "full"
    assert detail_for(MANY_FILES + 1) == "small"
