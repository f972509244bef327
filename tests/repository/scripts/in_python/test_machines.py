"""The machines that Modal and submitit are asked for."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.source.document import Document

COMMAND = (
    "torchrun --nproc_per_node gpu train.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 True --learning_rate 1e-5 "
)
COMMAND += "--learning_rate 1e-5 --output_dir out --per_device_train_batch_size 3"
MODAL = "import modal, subprocess\napp = modal.App('train')\n{before}@app.function({gpu}timeout=60)\ndef train():\n"
MODAL += f"    subprocess.run({COMMAND.split()!r})\n"
SUBMITIT = "import submitit\nexecutor = submitit.AutoExecutor(folder='logs')\nexecutor.update_parameters({given})\n"
SUBMITIT += f"executor.submit(submitit.helpers.CommandFunction({COMMAND.split()!r}))"


def one(code: str) -> Document:
    (found,) = in_memory({"launch.py": code}).documents("launch.py")
    return found


@pytest.mark.parametrize(
    ("gpu", "card", "gpus"),
    [
        ("gpu='H100:4', ", "H100", 4),
        ("gpu='a100-80gb', ", "A100-80GB", 1),
        ("gpu='A100:2', ", "A100-40GB", 2),
        ("gpu='H100!', ", "H100", 1),
        ("gpu='any', ", "", 1),
        ("gpu=modal.gpu.A100(count=8, size='80GB'), ", "A100-80GB", 8),
        ("gpu=modal.gpu.H100(), ", "H100", 1),
        ("gpu=KIND + ':2', ", "L4", 2),
        ("", "", 0),
    ],
)
def test_modal_gives_a_function_the_cards_that_its_decorator_asks_for(gpu: str, card: str, gpus: int) -> None:
    start = one(MODAL.format(before="KIND = 'L4'\n", gpu=gpu)).start

    assert start is not None
    assert (start.machine.card, start.machine.gpus) == (card, gpus)


def test_the_card_of_one_function_is_not_that_of_another() -> None:
    code = MODAL.format(before="@app.function(gpu='H100:8')\ndef first():\n    pass\n", gpu="gpu='L4:2', ")
    start = one(code).start

    assert start is not None
    assert (start.machine.card, start.machine.gpus) == ("L4", 2)
    assert code[start.machine.card_at :].startswith("'L4:2'")


@pytest.mark.parametrize(
    ("given", "card", "gpus"),
    [
        ("nodes=2, gpus_per_node=4, tasks_per_node=1, slurm_constraint='h100'", "h100", 4),
        ("slurm_gres='gpu:a100:2', slurm_partition='main'", "a100", 2),
        ("timeout_min=60", "", 0),
    ],
)
def test_submitit_asks_slurm_for_the_machines(given: str, card: str, gpus: int) -> None:
    start = one(SUBMITIT.format(given=given)).start

    assert start is not None
    assert (start.machine.card, start.machine.gpus_per_node) == (card, gpus)
