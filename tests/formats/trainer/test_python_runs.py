"""Training runs that Python scripts set up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memlint.formats.trainer.python.runs import PythonRun, runs_of
from memlint.source import load
from memlint.source.document import Document
from memlint.source.python.reader import CommandLine, ScriptFiles
from memlint.source.python.text import SourceText, parse
from tests.source.python.following import shown

SFT = """\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
import torch

bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype=torch.bfloat16, quantization_config=bits)
args = SFTConfig("out", per_device_train_batch_size=2, gradient_accumulation_steps=8, max_length=1024, bf16=True)
trainer = SFTTrainer(model=model, args=args, peft_config=LoraConfig(r=64, target_modules=["q_proj"]))
trainer.train()
"""


def runs(code: str, files: Mapping[str, str] = {}, config: str = "") -> tuple[PythonRun, ...]:
    def module(name: str) -> SourceText | None:
        found = parse(name, files[name]) if name in files and name.endswith(".py") else None
        return found if isinstance(found, SourceText) else None

    def document(name: str) -> Document | None:
        return load(files[name].encode(), name)[0] if name in files and not name.endswith(".py") else None

    script = parse("train.py", code)
    assert isinstance(script, SourceText), script
    return runs_of(script, ScriptFiles(module, document), CommandLine(config))


def keys(code: str, files: Mapping[str, str] = {}, config: str = "") -> dict[str, Any]:
    (run,) = runs(code, files, config)
    return {name: shown(value) for name, value in run.keys.items()}


def test_what_a_script_trains() -> None:
    (run,) = runs(SFT)
    assert (run.trainer, run.arguments, run.loads_model) == ("SFTTrainer", "SFTConfig", True)
    assert keys(SFT) == {
        "model_name_or_path": "Qwen/Qwen2.5-7B",
        "dtype": "bfloat16",
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "use_bnb_nested_quant": True,
        "use_peft": True,
        "lora_r": 64,
        "lora_alpha": 8,
        "lora_dropout": 0.0,
        "lora_target_modules": ["q_proj"],
        "lora_bias": "none",
        "use_dora": False,
        "use_rslora": False,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 8,
        "max_length": 1024,
        "bf16": True,
    }


TRAINER = (
    "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
    "model = AutoModelForCausalLM.from_pretrained('gpt2')\n{}\n"
    "Trainer(model, TrainingArguments('out', per_device_train_batch_size=4{}))\n"
)


@pytest.mark.parametrize(
    ("before", "arguments", "found"),
    [
        ("model.gradient_checkpointing_enable()", "", {"gradient_checkpointing": True}),
        ("model = model.to('cuda')", "", {"model_name_or_path": "gpt2"}),
        (
            "from peft import get_peft_model, LoraConfig\nmodel = get_peft_model(model, LoraConfig(r=4))",
            "",
            {"lora_r": 4},
        ),
        (
            "from peft import prepare_model_for_kbit_training\nmodel = prepare_model_for_kbit_training(model)",
            "",
            {"gradient_checkpointing": True},
        ),
        (
            "from peft import prepare_model_for_kbit_training\n"
            "model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)",
            "",
            {"gradient_checkpointing": False},
        ),
        ("import torch", ", bf16=torch.cuda.is_bf16_supported()", {"bf16": True}),
        ("import os", ", optim=os.environ.get('OPTIM', 'adamw_torch')", {"optim": "adamw_torch"}),
        (
            "if something():\n    n = 2\nelse:\n    n = 4",
            ", gradient_accumulation_steps=n",
            {"gradient_accumulation_steps": {2, 4}},
        ),
        ("n = 8 // int(__import__('os').environ['WORLD_SIZE'])", ", eval_steps=n", {"eval_steps": "?"}),
        ("extra = read()", ", **extra", {"gradient_checkpointing": "?", "optim": "?"}),
        (
            "def tokenize(row):\n"
            "    return tokenizer(row['text'], truncation=True, max_length=768)\n"
            "data = data.map(tokenize)",
            "",
            {"max_length": 768},
        ),
        ("data = data.map(lambda row: tokenizer(row['text'], truncation=True, max_length=96))", "", {"max_length": 96}),
        ("def cut(ids, n=640):\n    return ids[:n]\ncut(tokenizer('x'))", "", {"max_length": 640}),
    ],
)
def test_what_scripts_do_before_they_train(before: str, arguments: str, found: dict[str, Any]) -> None:
    seen = keys(TRAINER.format(before, arguments))
    assert {name: seen.get(name) for name in found} == found


def test_degrees_of_a_parallelism_config() -> None:
    made = "ParallelismConfig(sp_backend='deepspeed', sp_size=4, dp_shard_size=2, sp_handler=Handler())"
    code = SFT.replace("bf16=True)", f"bf16=True, parallelism_config={made})")
    code = code.replace("import torch", "import torch\nfrom accelerate.utils import ParallelismConfig, Handler", 1)
    assert keys(code)["parallelism_config"] == {"sp_size": 4, "dp_shard_size": 2}


def test_unsloth() -> None:
    code = (
        "from unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n"
        "model, tokenizer = FastLanguageModel.from_pretrained(model_name='unsloth/llama-3-8b-bnb-4bit')\n"
        "model = FastLanguageModel.get_peft_model(model, r=32, use_gradient_checkpointing='unsloth')\n"
        "SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2), max_seq_length=512).train()\n"
    )
    seen = keys(code)
    assert seen["use_unsloth"] is seen["load_in_4bit"] is seen["gradient_checkpointing"] is True
    assert (seen["max_length"], seen["lora_r"], seen["lora_alpha"]) == (512, 32, 16)


@pytest.mark.parametrize(
    "code",
    [
        "class MyTrainer(Trainer):\n"
        "    def __init__(self, model, args):\n"
        "        super().__init__(model=model, args=args)\n",
        "def build(model, args):\n    return SFTTrainer(model=model, args=args)\n",
        "from trl import SFTConfig\nARGS = SFTConfig(per_device_train_batch_size=2)\n",
        "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()\n"
        "Trainer(model=load(), args=args)\n",
        "class DogTrainer:\n    def __init__(self, args):\n        self.args = args\nDogTrainer(args={'a': 1})\n",
        "from lib import DogTrainer\nDogTrainer(args=['sit'])\n",
    ],
    ids=["subclass", "function", "arguments alone", "command line", "own trainer", "another trainer"],
)
def test_what_is_no_run(code: str) -> None:
    assert runs(code) == ()


def test_two_calls_are_two_runs() -> None:
    code = (
        "from transformers import Trainer, TrainingArguments\n"
        "def train(batch):\n"
        "    Trainer(model='gpt2', args=TrainingArguments('o', per_device_train_batch_size=batch)).train()\n"
        "for batch in (1, 2):\n    train(batch)\n"
    )
    found = runs(code)
    assert [shown(run.keys["per_device_train_batch_size"]) for run in found] == [1, 2]
    assert not any(run.loads_model for run in found)


def test_a_configuration_file_on_the_command_line() -> None:
    code = (
        "import argparse, yaml\nfrom transformers import Trainer, TrainingArguments\n"
        "p = argparse.ArgumentParser()\np.add_argument('--config', required=True)\na = p.parse_args()\n"
        "c = yaml.safe_load(open(a.config))\n"
        "Trainer(model=c['model'], args=TrainingArguments('o', per_device_train_batch_size=c['batch']))\n"
    )
    files = {"conf/a.yaml": "model: gpt2\nbatch: 16\n"}
    assert keys(code, files, "conf/a.yaml") == {"model_name_or_path": "gpt2", "per_device_train_batch_size": 16}
    (run,) = runs(code, files, "conf/a.yaml")
    value = run.keys["per_device_train_batch_size"]
    assert value.source.path == "conf/a.yaml"
