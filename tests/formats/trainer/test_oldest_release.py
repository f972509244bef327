"""Keys that transformers 5 took away prove no older release where the model's family came with transformers 5."""

from __future__ import annotations

import pytest

from memlint.hardware import find
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine, analyse
from memlint.ruleset.shipped import shipped
from memlint.run import Origin, get

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


@pytest.mark.parametrize(("key", "severity"), [("completion_only_loss", "error"), ("cast_lm_head_to_fp32", "warning")])
def test_a_pin_that_would_refuse_the_file_carries_no_error(key: str, severity: str) -> None:
    """trl 0.18 has no `cast_lm_head_to_fp32`: what is installed is newer, and may skip the logits of an evaluation."""
    config = FILE.format(model="Qwen/Qwen2.5-0.5B").replace("overwrite_output_dir: true", f"{key}: true")
    more = "use_liger_kernel: true\nmax_length: 1024\npacking: true\n"
    more += "eval_strategy: epoch\nper_device_eval_batch_size: 1024\n"
    workspace = in_memory({"sft.yaml": config + more})
    (document,) = workspace.documents("sft.yaml")
    versions = {"trl": (0, 18, 0), "transformers": (4, 52, 3)}
    pins = {name: Origin("setting", "setup.py", 1, 1, (), "pinned in setup.py") for name in versions}
    context = workspace.context(versions=versions, version_origins=pins, gpu=find("H100"))
    found = Engine(shipped()).analyse(document, context).findings
    assert {one.severity for one in found if one.rule == "EVA002"} == {severity}
