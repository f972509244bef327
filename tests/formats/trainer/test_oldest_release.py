"""Keys that transformers 5 took away prove no older release where the model's family came with transformers 5."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from memlint.run import get

FILE = """\
model_name_or_path: {model}
output_dir: o
overwrite_output_dir: true
per_device_train_batch_size: 1
learning_rate: 1.0e-4
bf16: true
gradient_checkpointing: true
"""


@pytest.mark.parametrize(
    ("model", "reentrant"), [("Qwen/Qwen3.5-2B", False), ("google/gemma-4-E2B-it", False), ("Qwen/Qwen2.5-7B", True)]
)
def test_the_release_of_the_family_comes_first(model: str, reentrant: bool) -> None:
    """transformers 4 checkpoints re-entrantly, 5 does not; 4.57.6 is the last that takes `overwrite_output_dir`."""
    workspace = in_memory({"sft.yaml": FILE.format(model=model)})
    (document,) = workspace.documents("sft.yaml")
    (run,) = analyse(document, workspace.context(), ()).runs
    assert get(run, "checkpointing.reentrant") is reentrant


def test_a_stated_release_is_heard() -> None:
    files = {"sft.yaml": FILE.format(model="Qwen/Qwen3.5-2B"), "requirements.txt": "transformers==4.57.1\n"}
    workspace = in_memory(files)
    (document,) = workspace.documents("sft.yaml")
    context = workspace.context()._replace(versions={"transformers": (4, 57, 1)})
    (run,) = analyse(document, context, ()).runs
    assert get(run, "checkpointing.reentrant") is True
