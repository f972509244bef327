"""A folder that another run of the repository writes holds the model of that run."""

from __future__ import annotations

import pytest

from memlint.architectures.model import Resolution
from memlint.repository.workspace import in_memory
from memlint.repository.written_models import output_folders

SFT = (
    "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\ndo_train: true\nfinetuning_type: {kind}\ndataset: d\n"
    "template: qwen\noutput_dir: saves/{name}\nper_device_train_batch_size: 1\nbf16: true\n"
)
FULL = SFT.format(kind="full", name="sft")
DEEPSPEED = '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}}'
PYTHON = """from trl import SFTConfig, SFTTrainer
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = SFTTrainer(model=model, args=SFTConfig(output_dir="out/sft"), train_dataset=data)
trainer.train()
"""
SHELL = """OUT=/data/{name}
FLAGS="--bf16 --per_device_train_batch_size 1"
accelerate launch sft.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir $OUT-sft $FLAGS
accelerate launch dpo.py --model_name_or_path $OUT-sft --output_dir $OUT-dpo $FLAGS
"""


def found(files: dict[str, str], name: str, path: str = "dpo.yaml") -> Resolution:
    return in_memory(files).find_model(name, path)


@pytest.mark.parametrize("name", ["saves/sft", "./saves/sft/", "saves/sft/checkpoint-500"])
def test_a_second_stage_starts_from_what_the_first_writes(name: str) -> None:
    model = found({"configs/sft.yaml": FULL}, name)

    assert model.name == "Qwen/Qwen2.5-7B"
    assert model.architecture is not None and model.architecture.class_name == "Qwen2ForCausalLM"
    assert model.inferred.startswith("configs/sft.yaml writes `saves/sft")


@pytest.mark.parametrize("name", ["saves/other", "saves", "saves/sft-2", "x/saves/sft", "", "/", "."])
def test_another_folder_is_nobodys(name: str) -> None:
    assert found({"configs/sft.yaml": FULL}, name).architecture is None


def test_stages_follow_each_other() -> None:
    dpo = SFT.format(kind="full", name="dpo").replace("Qwen/Qwen2.5-7B", "saves/sft")

    assert found({"sft.yaml": FULL, "dpo.yaml": dpo}, "saves/dpo").name == "saves/sft"
    assert found({"sft.yaml": FULL, "dpo.yaml": dpo}, "saves/dpo").architecture is not None


def test_runs_that_go_on_from_themselves_or_in_a_circle_end() -> None:
    itself = FULL.replace("Qwen/Qwen2.5-7B", "saves/sft")
    one, two = (FULL.replace("Qwen/Qwen2.5-7B", "b/x").replace("saves/sft", "a/x"), FULL.replace("saves/sft", "b/x"))
    two = two.replace("Qwen/Qwen2.5-7B", "a/x")

    assert found({"sft.yaml": itself}, "saves/sft").architecture is None
    assert found({"one.yaml": one, "two.yaml": two}, "a/x").architecture is None


def test_runs_of_several_models_leave_it_open() -> None:
    small = FULL.replace("7B", "0.5B")

    assert found({"a.yaml": FULL, "b.yaml": small}, "saves/sft").architecture is None
    assert found({"a.yaml": FULL, "b.yaml": FULL}, "saves/sft").architecture is not None


def test_a_merge_writes_its_model() -> None:
    merge = (
        "model_name_or_path: Qwen/Qwen2.5-7B\nadapter_name_or_path: saves/lora\ntemplate: qwen\n"
        "finetuning_type: lora\nexport_dir: models/merged\n"
    )

    assert found({"merge.yaml": merge}, "models/merged").name == "Qwen/Qwen2.5-7B"


def test_scripts_and_programs_write_models_too() -> None:
    assert found({"sft.py": PYTHON}, "out/sft", "dpo.py").name == "Qwen/Qwen2.5-0.5B"
    files = {"run.sh": SHELL.format(name="7b")}
    assert found(files, "/data/7b-sft", "eval.sh").name == "Qwen/Qwen2.5-7B"
    assert found(files, "/data/7b-dpo", "eval.sh").architecture is not None


@pytest.mark.parametrize(
    ("kind", "more", "dtype"),
    [("full", "", "float32"), ("full", "pure_bf16: true\n", "bfloat16"), ("lora", "", "bfloat16")],
)
def test_weights_are_stored_as_the_run_had_them(kind: str, more: str, dtype: str) -> None:
    """LLaMA-Factory trains every weight in fp32 beside autocast; adapters are loaded into their base."""
    model = found({"sft.yaml": SFT.format(kind=kind, name="sft") + more}, "saves/sft")

    assert model.architecture is not None and model.architecture.dtype == dtype


def test_a_deepspeed_engine_saves_what_it_computes_with() -> None:
    model = found({"sft.yaml": FULL + "deepspeed: ds.json\n", "ds.json": DEEPSPEED}, "saves/sft")

    assert model.architecture is not None and model.architecture.dtype == "bfloat16"


def test_plain_folders_of_any_syntax() -> None:
    text = b'output_dir: a/b\n"output_dir": "c",\noutput_dir="d/e/", --output_dir f --save_path=g\n'
    text += b"model.save_pretrained(\"h\")\ntrainer.save_model('i')\noutput_dir: ${OUT}\noutput_dir: ./\n"

    assert output_folders(text) == ("a/b", "c", "d/e", "f", "g", "h", "i")
    assert output_folders(text + b"#" * 70_000) == ()
