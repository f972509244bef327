"""What a script or a notebook installs itself is the version that it runs with."""

from __future__ import annotations

import json

import pytest

import memlint
from memlint.repository.versions.own_installs import own_installs

NOTEBOOK = json.dumps(
    {"cells": [{"cell_type": "code", "source": ['!pip install -q trl==0.4.7 "peft==0.4.0"\n', "import trl\n"]}]},
    indent=1,
)


def versions(path: str, text: str) -> dict[str, tuple[int, ...]]:
    return {name: pin.version for name, pin in own_installs(path, text).items()}


def test_a_cell_of_a_notebook_installs() -> None:
    found = own_installs("a.ipynb", NOTEBOOK)
    assert {name: (pin.version, pin.origin.line) for name, pin in found.items()} == {
        "trl": ((0, 4, 7), 6),
        "peft": ((0, 4, 0), 6),
    }


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ("%pip install -q transformers==4.31.0", {"transformers": (4, 31, 0)}),
        ("!uv pip install trl==0.22.2", {"trl": (0, 22, 2)}),
        ("!pip install --no-deps xformers trl<0.9.0 peft", {"trl": (0, 8)}),
        ('!pip install transformers==4.31.0\\n", "!pip install -U transformers', {}),
        ('!pip install transformers==4.31.0\\n", "!pip install transformers', {"transformers": (4, 31, 0)}),
        ('!pip install trl==0.9.4\\n", "!pip install trl==0.9.6', {"trl": (0, 9, 6)}),
        (
            '%pip install --upgrade \\\\\\n", " \\"transformers==4.48.1\\" \\\\\\n", " \\"trl==0.14.0\\"',
            {"transformers": (4, 48, 1), "trl": (0, 14, 0)},
        ),
        ("# %pip install peft==0.14.0", {}),
        ("print('pip')", {}),
    ],
)
def test_commands_of_cells(commands: str, expected: dict[str, tuple[int, ...]]) -> None:
    found = versions("a.ipynb", f'{{"cells": [{{"cell_type": "code", "source": ["{commands}\\n"]}}]}}')
    assert found == expected


def test_commands_of_a_shell_script() -> None:
    text = "# pip install trl==0.1.0\npip install -q \\\n  transformers==4.44.0 trl==0.9.6 # pinned\npython t.py\n"
    assert versions("job.sh", text) == {"transformers": (4, 44, 0), "trl": (0, 9, 6)}
    assert versions("job.slurm", "source x && pip3 install torch==2.4.0 && python t.py\n") == {"torch": (2, 4, 0)}
    assert versions("train.py", text) == {}


SCRIPT = """\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments
from peft import LoraConfig
from trl import SFTTrainer

bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("NousResearch/Llama-2-7b-chat-hf", quantization_config=bits)
args = TrainingArguments("out", per_device_train_batch_size=4)
trainer = SFTTrainer(model=model, args=args, peft_config=LoraConfig(r=64), dataset_text_field="text",
                     max_seq_length=None)
trainer.train()
"""


@pytest.mark.parametrize(("release", "mode"), [("0.4.7", "full"), ("0.7.1", "full"), ("0.7.2", "none")])
def test_old_releases_of_trl_checkpoint_a_quantised_model(release: str, mode: str) -> None:
    """trl 0.7.1 trainer/sft_trainer.py:148 calls prepare_model_for_int8_training with its defaults."""
    cells = [f"!pip install trl=={release}\n"], SCRIPT.splitlines(keepends=True)
    notebook = json.dumps({"cells": [{"cell_type": "code", "source": list(one)} for one in cells], "nbformat": 4})
    run = memlint.estimate(notebook, path="train.ipynb").run
    assert (run.checkpointing.mode, run.model.quantization.upcast_rest_to_fp32) == (mode, True)
