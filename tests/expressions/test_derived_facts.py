"""Facts that follow from a run and its model."""

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

CONFIG = """model_name_or_path: {name}
dataset_name: trl-lib/Capybara
per_device_train_batch_size: 1
max_length: 32768
learning_rate: 0.0001
bf16: true
output_dir: out
"""


@pytest.mark.parametrize(
    ("name", "known"),
    [("Qwen/Qwen2.5-Math-7B", True), ("open-r1/OpenR1-Distill-7B", False), ("OpenR1-Distill-7B", False)],
)
def test_a_tuned_model_may_have_more_positions_than_its_base(name: str, known: bool) -> None:
    workspace = in_memory({"sft.yaml": CONFIG.format(name=name)})
    found = Engine(tuple(shipped())).analyse(workspace.documents("sft.yaml")[0], workspace.context())
    assert ("DAT001" in {one.rule for one in found.findings}) is known
