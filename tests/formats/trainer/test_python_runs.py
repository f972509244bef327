"""Training runs that Python scripts set up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import memlint
from memlint.formats.trainer.python.python_run import PythonRun
from memlint.formats.trainer.python.runs import runs_of
from memlint.run import UNKNOWN
from memlint.source import load
from memlint.source.document import Document
from memlint.source.python.reader import Capability, CommandLine, ScriptFiles
from memlint.source.python.text import SourceText, parse
from memlint.source.python.values import Known, Undetermined
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
    assert (run.trainer, run.arguments, run.program.loads_model) == ("SFTTrainer", "SFTConfig", True)
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
        ("data = [cut(tokenizer(t)['input_ids'][:320]) for t in texts]", "", {"max_length": 320}),
        ("tokens = read()\nfor i in range(len(tokens)):\n    put(tokens[i : i + 256])", "", {"max_length": 256}),
        ("put(encode(text).input_ids[-512:])\nput(batch['input_ids'][:, :512])", "", {"max_length": 512}),
        ("put(prompt_ids[:512])\nput(text[:200])", "", {"max_length": None}),
        ("def some(rows, n=640):\n    return rows[:n]\nsome(load('x'))", "", {"max_length": None}),
    ],
)
def test_what_scripts_do_before_they_train(before: str, arguments: str, found: dict[str, Any]) -> None:
    seen = keys(TRAINER.format(before, arguments))
    assert {name: seen.get(name) for name in found} == found


@pytest.mark.parametrize("saved", ["", ", modules_to_save=['lm_head']"])
def test_unsloth_trains_the_embedding_whole(saved: str) -> None:
    code = (
        "from unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n"
        "model, tokenizer = FastLanguageModel.from_pretrained(model_name='unsloth/llama-3-8b-bnb-4bit')\n"
        "targets = ['q_proj', 'embed_tokens', 'lm_head']\n"
        f"model = FastLanguageModel.get_peft_model(model, target_modules=targets{saved})\n"
        "SFTTrainer(model=model, args=SFTConfig()).train()\n"
    )
    seen = keys(code)
    assert seen["lora_target_modules"] == ["q_proj", "lm_head"]
    assert seen["lora_modules_to_save"] == ["embed_tokens", *(["lm_head"] if saved else [])]


def test_degrees_of_a_parallelism_config() -> None:
    made = "ParallelismConfig(sp_backend='deepspeed', sp_size=4, dp_shard_size=2, sp_handler=Handler())"
    code = SFT.replace("bf16=True)", f"bf16=True, parallelism_config={made})")
    code = code.replace("import torch", "import torch\nfrom accelerate.utils import ParallelismConfig, Handler", 1)
    assert keys(code)["parallelism_config"] == {"sp_size": 4, "dp_shard_size": 2}


@pytest.mark.parametrize("arguments", ["SFTConfig(), max_seq_length=512", "SFTConfig(max_seq_length=512)"])
def test_unsloth(arguments: str) -> None:
    code = (
        "from unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n"
        "model, tokenizer = FastLanguageModel.from_pretrained(model_name='unsloth/llama-3-8b-bnb-4bit')\n"
        "model = FastLanguageModel.get_peft_model(model, r=32, use_gradient_checkpointing='unsloth')\n"
        f"SFTTrainer(model=model, args={arguments}).train()\n"
    )
    seen = keys(code)
    assert seen["use_unsloth"] is seen["load_in_4bit"] is seen["gradient_checkpointing"] is True
    assert (seen["max_length"], seen["lora_r"], seen["lora_alpha"]) == (512, 32, 16)
    assert "max_seq_length" not in seen


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
    assert not any(run.program.loads_model for run in found)


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


LOOP = """\
import argparse
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--max_length", type=int, default=512)
args = parser.parse_args()
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4)
model = AutoModelForCausalLM.from_pretrained(args.model)
model.gradient_checkpointing_enable()
groups = [{"params": [p for n, p in model.named_parameters() if "bias" not in n]}]
optimizer = torch.optim.AdamW(groups, lr=1e-5)
loader = DataLoader(rows, batch_size=args.batch_size, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    loss = model(**batch).loss
    accelerator.backward(loss)
    optimizer.step()
"""


def started(code: str, **options: str) -> dict[str, Any]:
    script = parse("train.py", code)
    assert isinstance(script, SourceText)
    words = {name: (Known(word),) if word else () for name, word in options.items()}
    command = CommandLine(options=words)
    (run,) = runs_of(script, ScriptFiles(lambda name: None, lambda name: None), command)
    return {name: shown(value) for name, value in run.keys.items()}


def test_deepspeeds_flags_leave_the_parser_as_it_is() -> None:
    """deepspeed 0.19.8 __init__.py, add_config_arguments."""
    code = "import deepspeed\n" + LOOP.replace("args = ", "parser = deepspeed.add_config_arguments(parser)\nargs = ")
    assert started(code, model="gpt2", batch_size="2") == started(LOOP, model="gpt2", batch_size="2")


def test_a_loop_without_a_trainer_is_said_in_the_trainers_words() -> None:
    (run,) = runs(LOOP)
    assert (run.trainer, run.framework, run.program.unmodelled) == ("", "torch", "")
    assert keys(LOOP) == {
        "model_name_or_path": "?",
        "gradient_checkpointing": True,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 4,
        "bf16": True,
        "fp16": False,
        "optim": "adamw_torch",
        "max_length": 512,
    }


def test_the_command_line_says_what_a_loop_trains() -> None:
    found = started(LOOP, model="Qwen/Qwen2.5-7B", batch_size="2")
    assert (found["model_name_or_path"], found["per_device_train_batch_size"]) == ("Qwen/Qwen2.5-7B", 2)


@pytest.mark.parametrize(
    ("old", "new", "key", "value"),
    [
        ("torch.optim.AdamW(groups", "bnb.optim.PagedAdamW8bit(groups", "optim", "paged_adamw_8bit"),
        ("torch.optim.AdamW(groups", "muon.MuonWithAuxAdam(groups", "optim", "?"),
        ("torch.optim.AdamW(groups", "torch.optim.SGD(groups", "optim", "sgd"),
        ('mixed_precision="bf16", ', "", "bf16", None),  # its launcher decides
        ("batch_size=args.batch_size, ", "", "per_device_train_batch_size", "?"),
        ("model.gradient_checkpointing_enable()", "", "gradient_checkpointing", False),
        ("model.gradient_checkpointing_enable()", "model.to(torch.bfloat16)", "dtype", "bfloat16"),
        ("model.gradient_checkpointing_enable()", "model = model.half().cuda()", "dtype", "float16"),
        (
            "model.gradient_checkpointing_enable()",
            "for name, p in model.named_parameters():\n    p.requires_grad_('head' in name)",
            "use_peft",
            "?",
        ),
    ],
)
def test_what_a_loop_says_in_other_ways(old: str, new: str, key: str, value: Any) -> None:
    assert keys(LOOP.replace(old, new)).get(key) == value


STEPS = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
ACCUM = 4
model = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters())
count = 0
for step, batch in enumerate(DataLoader(data, batch_size=2, shuffle=True)):
    loss = model(**batch).loss / ACCUM
    loss.backward()
    %s
"""


@pytest.mark.parametrize(
    ("rest", "steps"),
    [
        ("if (step + 1) % ACCUM == 0:\n        optimizer.step()", 4),
        ("if not (step + 1) % 8 or step == last:\n        self.optimizer.step()", 8),
        ("count += 1\n    if count == ACCUM:\n        optimizer.step()\n        count = 0", 4),
        ("if step % 100 == 0:\n        scheduler.step()\n    optimizer.step()", 1),
        ("if step % unknown() == 0:\n        optimizer.step()", "?"),
        ("optimizer.step()\n    if count == 4:\n        save()", 1),
    ],
)
def test_a_loop_that_steps_in_some_rounds_alone_accumulates(rest: str, steps: Any) -> None:
    assert keys(STEPS % rest)["gradient_accumulation_steps"] == steps


@pytest.mark.parametrize(
    ("over", "inner", "steps"),
    [
        ("range(ACCUM)", "loss.backward()", 4),
        ("range(ACCUM)", "scaler.scale(loss).backward()", 4),
        ("range(0, rows, 2)", "loss.backward()", "?"),
        ("range(epochs())", "loss.backward(); optimizer.step()", 1),
        ("range(ACCUM)", "loss.backward(); self.optim_step()", 1),
        ("range(ACCUM)", "print(loss)", 1),
    ],
)
def test_a_loop_in_a_loop_accumulates(over: str, inner: str, steps: Any) -> None:
    rounds = f"for micro in {over}:\n        loss = model(**batch).loss\n        {inner}\n    optimizer.step()"
    code = STEPS.replace("    loss.backward()\n", "").replace("%s", rounds)
    code += "\ndef other(loss):\n    loss.backward()\nother(1)\n"
    assert keys(code)["gradient_accumulation_steps"] == steps


def test_a_loop_trains_a_model_that_its_class_makes() -> None:
    """torch's own dtype is what its weights have, whatever the configuration says."""
    made = "GPT2LMHeadModel(GPT2Config(n_layer=4, torch_dtype='bfloat16'))"
    code = STEPS.replace('AutoModelForCausalLM.from_pretrained("gpt2")', made) % "optimizer.step()"
    found = keys(code.replace("AutoModelForCausalLM", "GPT2Config, GPT2LMHeadModel"))
    assert (found["model_name_or_path"], found["dtype"]) == ("?", "float32")


MODULE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
class Policy(nn.Module):
    def __init__(self, llm=None):
        super().__init__()
        self.head = nn.Linear(8, 8)
        self.llm = llm
policy = Policy(%s).to("cuda").train()
optimizer = torch.optim.AdamW(policy.parameters())
for batch in DataLoader(data, batch_size=2, shuffle=True):
    policy(model(**batch)).loss.backward()
    optimizer.step()
"""


def test_a_loop_that_trains_a_module_of_its_own_trains_the_model_that_it_holds_or_none() -> None:
    assert keys(MODULE % "llm=model")["model_name_or_path"] == "gpt2"
    assert runs(MODULE % "") == ()


CLICK = """\
import click
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
@click.command()
@click.option("--model", "name", default="gpt2")
@click.option("-b", "--batch-size", default=4)
@click.option("--bf16/--no-bf16", default=True)
def main(name, batch_size, bf16):
    args = TrainingArguments("out", per_device_train_batch_size=batch_size, bf16=bf16)
    Trainer(AutoModelForCausalLM.from_pretrained(name), args).train()
main()
"""
TYPER = """\
import typer
from typing import Annotated
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
def main(name: str = typer.Option("gpt2", "--model"), bf16: bool = True, n: Annotated[int, typer.Option("-b")] = 4):
    args = TrainingArguments("out", per_device_train_batch_size=n, bf16=bf16)
    Trainer(AutoModelForCausalLM.from_pretrained(name), args).train()
typer.run(main)
"""


@pytest.mark.parametrize("code", [CLICK, TYPER])
def test_a_command_sets_parameters_by_their_flags(code: str) -> None:
    wanted = ("model_name_or_path", "per_device_train_batch_size", "bf16")
    assert [keys(code)[name] for name in wanted] == ["gpt2", 4, True]
    found = started(code, model="a/b", b="8", no_bf16="")
    assert [found[name] for name in wanted] == ["a/b", 8, False]


PLUGIN = "gradient_accumulation_steps=4, deepspeed_plugin=DeepSpeedPlugin(%s))"


@pytest.mark.parametrize(
    ("arguments", "engine"),
    [
        ("zero_stage=2", {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}),
        (
            "zero_stage=3, offload_optimizer_device='cpu', gradient_clipping=1.0",
            {
                "train_micro_batch_size_per_gpu": "auto",
                "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
            },
        ),
        ("hf_ds_config='zero3.json'", "zero3.json"),
        ("", "?"),  # the environment decides
        ("zero_stage=3, transformer_moe_cls_names='x'", "?"),
        ("**given()", "?"),
    ],
)
def test_accelerates_deepspeed_plugin_is_the_engine(arguments: str, engine: Any) -> None:
    assert keys(LOOP.replace("gradient_accumulation_steps=4)", PLUGIN % arguments))["deepspeed"] == engine


@pytest.mark.parametrize(
    ("trainer", "argument", "newest"),
    [
        ("DPO", "max_prompt_length=512", {"trl": ((0, 28), "max_prompt_length")}),
        ("DPO", "max_prompt_length=512, use_liger_loss=True", {"trl": ((0, 27), "use_liger_loss")}),
        ("GRPO", "max_prompt_length=512", {"trl": ((0, 27), "max_prompt_length")}),
        ("RLOO", "max_prompt_length=512", {"trl": ((0, 28), "max_prompt_length")}),
        ("DPO", "max_length=512", {}),
        ("KTO", "max_prompt_length=512", {"trl": ((0, 26), "max_prompt_length")}),
        ("KTO", "max_length=512", {}),
    ],
)
def test_an_argument_that_newer_releases_refuse_dates_the_script(trainer: str, argument: str, newest: Any) -> None:
    code = f"from trl import {trainer}Config, {trainer}Trainer\n"
    code += f"{trainer}Trainer('Qwen/Qwen2.5-7B', args={trainer}Config('out', {argument})).train()\n"
    (run,) = runs(code)
    assert run.program.newest == newest


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("", {}),
        (
            "fsdp_version=2, auto_wrap_policy='transformer_based_wrap', transformer_cls_names_to_wrap=['Block']",
            {"version": 2, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "Block"},
        ),
        (
            "sharding_strategy=ShardingStrategy.FULL_SHARD, cpu_offload=True",
            {"sharding_strategy": "FULL_SHARD", "offload_params": True},
        ),
        ("reshard_after_forward=flag()", None),
        ("mixed_precision_policy=policy", None),
    ],
)
def test_fsdp_of_accelerates_plugin(arguments: str, options: Any) -> None:
    plugin = f"gradient_accumulation_steps=4, fsdp_plugin=FullyShardedDataParallelPlugin({arguments}))"
    found = keys(LOOP.replace("gradient_accumulation_steps=4)", plugin))
    assert (found["fsdp"], found.get("fsdp_config")) == (
        ("?", None) if options is None else (True, {"plugin": "accelerate", **options})
    )


def test_fsdp_of_torch_itself() -> None:
    code = f"from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n{LOOP}"
    wrapped = keys(code.replace("model.gradient_checkpointing_enable()", "model = FSDP(model, device_id=0)"))
    assert (wrapped["fsdp"], wrapped["fsdp_config"]["version"]) == (True, 1)
    assert "model_name_or_path" in wrapped


ENGINE = """\
import deepspeed
from transformers import AutoModelForCausalLM

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 8,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "zero_optimization": {"stage": 3},
}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
engine, _, loader, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
for batch in loader:
    loss = engine(**batch).loss
    engine.backward(loss)
    engine.step()
"""


def test_deepspeeds_dictionary_says_what_a_loop_trains_with() -> None:
    found = keys(ENGINE)
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (2, 8)
    assert (found["bf16"], found["fp16"], found["optim"]) == (True, False, "adamw_torch")
    assert found["deepspeed"]["zero_optimization"] == {"stage": 3}


@pytest.mark.parametrize(("old", "new", "key"), [('"AdamW"', '"OneBitAdam"', "optim"), ("config=CONFIG", "", "optim")])
def test_what_deepspeeds_dictionary_leaves_open(old: str, new: str, key: str) -> None:
    assert keys(ENGINE.replace(old, new))[key] == "?"


@pytest.mark.parametrize(
    ("old", "new", "key", "value"),
    [
        ('LoraConfig(r=64, target_modules=["q_proj"])', "LoraConfig(**given())", "lora_r", "?"),
        ('LoraConfig(r=64, target_modules=["q_proj"])', "LoraConfig(r=4, **given())", "lora_r", 4),
        ("quantization_config=bits", "**given()", "load_in_4bit", "?"),
    ],
)
def test_what_a_call_with_unknown_arguments_leaves_out(old: str, new: str, key: str, value: Any) -> None:
    assert keys(SFT.replace(old, new))[key] == value


UNSLOTH = """\
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen2.5-7B", max_seq_length=1024, dtype=None)
SFTTrainer(model=model, args=SFTConfig("o", per_device_train_batch_size=2)).train()
"""


@pytest.mark.parametrize(
    ("old", "new", "dtype"),
    [
        ("", "", "bfloat16"),
        (", dtype=None", "", "bfloat16"),
        ("dtype=None", "dtype=torch.float16", "float16"),
        (", dtype=None", ", **given()", None),
    ],
)
def test_unsloth_chooses_the_dtype_that_nobody_says(old: str, new: str, dtype: Any) -> None:
    assert keys("import torch\n" + UNSLOTH.replace(old, new)).get("dtype") == dtype


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    optimizer.step()\n", ""),  # gradients alone: no training
        ("    accelerator.backward(loss)\n", ""),
        ("AutoModelForCausalLM", "AutoModelForImageClassification"),
        ("optimizer = torch.optim.AdamW(groups, lr=1e-5)", "optimizer = make()"),
    ],
)
def test_what_is_no_training_of_a_language_model(old: str, new: str) -> None:
    assert runs(LOOP.replace(old, new)) == ()


def test_what_a_loop_keeps_beside_its_model() -> None:
    second = 'reference = AutoModelForCausalLM.from_pretrained("gpt2")\nfor batch in loader:'
    (run,) = runs(LOOP.replace("for batch in loader:", second))
    assert run.program.unmodelled == "loads several models"
    scored = "for batch in loader:\n    reward = score(model.generate(batch))"
    (run,) = runs(LOOP.replace("for batch in loader:", scored))
    assert run.program.unmodelled == "generates and scores sequences in its loop"
    assert isinstance(run.keys["max_length"], Undetermined)


ARGPARSE = """\
import argparse
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments, Trainer

def yes(text):
    return text.lower() in ("yes", "true", "1")

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--bits", type=int, choices=[4, 8, 16], default=16)
parser.add_argument("-b", "--batch-size", type=int, required=True)
parser.add_argument("--checkpointing", type=yes, default=True)
parser.add_argument("--full", action="store_true")
args = parser.parse_args()
bits = BitsAndBytesConfig(load_in_4bit=True) if args.bits == 4 else None
model = AutoModelForCausalLM.from_pretrained(args.model, quantization_config=bits)
arguments = TrainingArguments("out", per_device_train_batch_size=args.batch_size, bf16=not args.full,
                              gradient_checkpointing=args.checkpointing)
Trainer(model, arguments).train()
"""


def test_a_program_is_followed_with_the_arguments_of_its_command() -> None:
    found = started(ARGPARSE, bits="4", batch_size="2", checkpointing="no", full="")
    assert found["load_in_4bit"] is True
    assert found["per_device_train_batch_size"] == 2
    assert (found["bf16"], found["gradient_checkpointing"]) == (False, False)
    assert "load_in_4bit" not in started(ARGPARSE, bits="16", batch_size="2")


PARSED = """\
from dataclasses import dataclass, field
from transformers import HfArgumentParser, TrainingArguments, Trainer, AutoModelForCausalLM
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser, get_peft_config

@dataclass
class Model:
    path: str = "gpt2"
    flash: bool = True

parser = HfArgumentParser((Model, TrainingArguments))
model, arguments = parser.parse_args_into_dataclasses()
attention = "flash_attention_2" if model.flash else "sdpa"
loaded = AutoModelForCausalLM.from_pretrained(model.path, attn_implementation=attention)
Trainer(loaded, arguments).train()
"""


ATTENTION = """\
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments
%s
Trainer(model, TrainingArguments("out")).train()
"""


@pytest.mark.parametrize(
    ("loading", "attention"),
    [
        ('model = AutoModelForCausalLM.from_pretrained("gpt2", _attn_implementation="eager")', "eager"),
        (
            'config = AutoConfig.from_pretrained("gpt2", attn_implementation="eager")\n'
            'model = AutoModelForCausalLM.from_pretrained("gpt2", config=config)',
            "eager",
        ),
        (
            'config = AutoConfig.from_pretrained("gpt2")\nconfig._attn_implementation = "flash_attention_2"\n'
            "model = AutoModelForCausalLM.from_config(config)",
            "flash_attention_2",
        ),
        (
            'config = AutoConfig.from_pretrained("gpt2", attn_implementation="eager")\n'
            'model = AutoModelForCausalLM.from_pretrained("gpt2", config=config, attn_implementation="sdpa")',
            "sdpa",
        ),
    ],
)
def test_the_attention_is_said_by_its_propertys_name_or_in_the_configuration(loading: str, attention: str) -> None:
    assert started(ATTENTION % loading)["attn_implementation"] == attention


@pytest.mark.parametrize(
    ("later", "attention"),
    [
        ('model.set_attn_implementation("eager")', "eager"),
        ('model.config._attn_implementation = "eager"', "?"),
        ('model.config._attn_implementation = "sdpa"', "sdpa"),
    ],
)
def test_the_attention_is_set_after_loading(later: str, attention: object) -> None:
    loading = 'model = AutoModelForCausalLM.from_pretrained("gpt2", attn_implementation="sdpa")'
    assert started(ATTENTION % f"{loading}\n{later}")["attn_implementation"] == attention


def test_dataclasses_take_the_options_that_are_theirs() -> None:
    found = started(PARSED, path="Qwen/Qwen2.5-7B", no_flash="", per_device_train_batch_size="4", bf16="True")
    assert found["model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert found["attn_implementation"] == "sdpa"
    assert (found["per_device_train_batch_size"], found["bf16"]) == (4, True)
    assert "path" not in found


TRL = """\
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser, get_peft_config, get_quantization_config
parser = TrlParser((SFTConfig, ModelConfig))
arguments, model = parser.parse_args_and_config()
arguments.model_init_kwargs = dict(quantization_config=get_quantization_config(model))
SFTTrainer(model.model_name_or_path, arguments, peft_config=get_peft_config(model)).train()
"""


def test_trls_model_arguments_make_an_adapter() -> None:
    found = started(TRL, model_name_or_path="gpt2", use_peft="", lora_r="8")
    assert (found["use_peft"], found["lora_r"], found["lora_alpha"]) == (True, 8, 32)
    assert "use_peft" not in started(TRL, model_name_or_path="gpt2")


def test_what_the_models_arguments_say_is_not_the_trainers() -> None:
    found = started(TRL, model_name_or_path="gpt2", attn_implementation="sdpa", bf16="true")
    assert "attn_implementation" not in found  # the script hands it to nothing
    assert found["bf16"] is True


def test_a_file_that_cannot_be_read_may_say_anything() -> None:
    found = started(TRL, config="away.yaml", model_name_or_path="gpt2")
    assert found["per_device_train_batch_size"] == "?"
    assert found["bf16"] == "?"


def test_a_trainer_with_a_second_model_says_so() -> None:
    code = PARSED.replace("Trainer(loaded, arguments)", 'Trainer(loaded, arguments, teacher_model="big")')
    (run,) = runs_of(
        parse("train.py", code),  # type: ignore[arg-type]
        ScriptFiles(lambda name: None, lambda name: None),
        CommandLine(options={"path": (Known("gpt2"),)}),
    )
    assert run.program.unmodelled == "gives its trainer a second model, `teacher_model`"


COMMANDS = """\
import argparse
from trl import SFTConfig, SFTTrainer

def train(args):
    SFTTrainer(args.model, SFTConfig("out", per_device_train_batch_size=args.batch)).train()

parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command")
one = commands.add_parser("evaluate")
two = commands.add_parser("train")
two.add_argument("--model", default="gpt2")
two.add_argument("--batch", type=int, default=3)
two.set_defaults(run=train)
args = parser.parse_args()
args.run(args)
"""


def test_the_subcommand_that_trains_is_followed() -> None:
    assert keys(COMMANDS)["per_device_train_batch_size"] == 3


PYDANTIC = """\
import yaml
from pydantic import BaseModel, Field
from trl import SFTConfig, SFTTrainer

class Training(BaseModel):
    batch: int = Field(2, gt=0)

class Config(BaseModel):
    model: str = "gpt2"
    training: Training = Field(default_factory=Training)

config = Config.model_validate(yaml.safe_load(open("config.yaml")))
SFTTrainer(config.model, SFTConfig("out", per_device_train_batch_size=config.training.batch)).train()
"""


def test_pydantic_validates_a_file() -> None:
    found = keys(PYDANTIC, {"config.yaml": "model: Qwen/Qwen2.5-7B\ntraining:\n  batch: 5\n"})
    assert (found["model_name_or_path"], found["per_device_train_batch_size"]) == ("Qwen/Qwen2.5-7B", 5)
    assert keys(PYDANTIC, {"config.yaml": "model: Qwen/Qwen2.5-7B\n"})["per_device_train_batch_size"] == 2


HYDRA = """\
import hydra
from transformers import Trainer

@hydra.main(config_path="conf", config_name="config")
def main(cfg):
    model = hydra.utils.instantiate(cfg.model)
    Trainer(model, hydra.utils.instantiate(cfg.training)).train()

main()
"""
HYDRA_YAML = """\
model:
  _target_: transformers.AutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: Qwen/Qwen2.5-7B
training:
  _target_: transformers.TrainingArguments
  output_dir: out
  per_device_train_batch_size: 6
"""


def test_hydra_makes_what_a_target_names() -> None:
    found = keys(HYDRA, {"conf/config.yaml": HYDRA_YAML})
    assert (found["model_name_or_path"], found["per_device_train_batch_size"]) == ("Qwen/Qwen2.5-7B", 6)


def test_who_only_presses_enter_gets_the_default() -> None:
    code = 'from trl import SFTConfig, SFTTrainer\nbatch = int(input("Batch [4]: ").strip() or "4")\n'
    code += 'SFTTrainer("gpt2", SFTConfig("out", per_device_train_batch_size=batch)).train()\n'
    assert keys(code)["per_device_train_batch_size"] == 4


def test_a_model_that_scores_is_beside_the_policy() -> None:
    code = "from transformers import AutoModelForSequenceClassification\nfrom trl import GRPOConfig, GRPOTrainer\n"
    code += 'judge = AutoModelForSequenceClassification.from_pretrained("judge")\n'
    code += (
        'GRPOTrainer("gpt2", lambda texts: judge(texts), GRPOConfig("out", per_device_train_batch_size=2)).train()\n'
    )
    (run,) = runs(code)
    assert run.program.unmodelled == "loads `AutoModelForSequenceClassification` beside its policy"
    assert run.program.model_state == "all"


BESIDE = """\
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from trl import {name}Config, {name}Trainer
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B")
other = {loader}.from_pretrained("Qwen/Qwen2-1.5B", {more})
{name}Trainer(model=model, {given}, args={name}Config("out")).train()
"""


@pytest.mark.parametrize(
    ("name", "given", "key", "task"),
    [
        ("GKD", "teacher_model=other", "teacher_model_name_or_path", "gkd"),
        ("OnlineDPO", "reward_model=other", "reward_model_name_or_path", "online_dpo"),
        ("XPO", "reward_funcs=[other]", "reward_model_name_or_path", "xpo"),
        ("NashMD", "reward_funcs=other, ref_model=None", "reward_model_name_or_path", "nash_md"),
        ("GRPO", "reward_funcs=[score, other]", "reward_model_name_or_path", "grpo"),
        ("GRPO", "reward_funcs='Qwen/Qwen2-1.5B'", "reward_model_name_or_path", "grpo"),
    ],
)
def test_a_frozen_model_that_the_trainer_gets(name: str, given: str, key: str, task: str) -> None:
    by_name = "='" in given
    code = BESIDE.format(name=name, given=given, more="torch_dtype='auto'", loader="AutoModelForSequenceClassification")
    code = code.replace("other = ", "pass  # ") if by_name else code
    (run,) = runs(code)
    assert (run.program.unmodelled, run.task) == ("", task)
    assert shown(run.keys[key]) == "Qwen/Qwen2-1.5B"
    dtype = run.keys.get(f"{key.partition('_name')[0]}_init_kwargs")
    assert (dtype is None) is by_name


@pytest.mark.parametrize(
    ("given", "more", "unmodelled"),
    [
        ("teacher_model=other", "load_in_4bit=True", "gives its trainer a second model in 4 or 8 bits"),
        ("teacher_model=other", "", ""),
    ],
)
def test_a_packed_teacher_is_said_and_not_estimated(given: str, more: str, unmodelled: str) -> None:
    (run,) = runs(BESIDE.format(name="GKD", given=given, more=more, loader="AutoModelForCausalLM"))
    assert run.program.unmodelled == unmodelled


@pytest.mark.parametrize(("of", "counts"), [("Qwen/Qwen2-0.5B", True), ("Qwen/Qwen2-7B", False)])
def test_a_reference_with_the_policy_s_weights_is_a_copy_of_it(of: str, counts: bool) -> None:
    code = BESIDE.format(name="XPO", given="ref_model=other, judge=judge", more="", loader="AutoModelForCausalLM")
    (run,) = runs(code.replace("Qwen/Qwen2-1.5B", of))
    assert (run.program.unmodelled == "") is counts


def test_the_rest_of_the_command_line_comes_last() -> None:
    code = TRL.replace("arguments, model = parser.parse_args_and_config()", "arguments, model, _ = parser.parse_args_a")
    code = code.replace("parse_args_a", "parse_args_and_config(return_remaining_strings=True)")
    found = started(code, model_name_or_path="gpt2", per_device_train_batch_size="3")
    assert found["per_device_train_batch_size"] == 3


@pytest.mark.parametrize(("dtype", "expected"), [("torch.bfloat16", "bfloat16"), ("'float16'", "float16")])
def test_what_trl_loads_a_named_model_with(dtype: str, expected: str) -> None:
    text = (
        "import torch\nfrom trl import GRPOConfig, GRPOTrainer\n"
        f"args = GRPOConfig(output_dir='out', model_init_kwargs={{'torch_dtype': {dtype}}})\n"
        "GRPOTrainer(model='gpt2', args=args, reward_funcs=[f]).train()\n"
    )
    assert keys(text)["dtype"] == expected


@pytest.mark.parametrize(
    ("loading", "adapting", "said"),
    [
        ("", ", qat_scheme='int4'", "trains with fake-quantized weights (`qat_scheme`)"),
        ("", ", qat_scheme=None", ""),
        (", unsloth_tiled_mlp=True", "", "runs MLPs in tiles (`unsloth_tiled_mlp`)"),
        (", unsloth_tiled_mlp=False", "", ""),
    ],
)
def test_layers_that_unsloth_patches_are_said_and_not_estimated(loading: str, adapting: str, said: str) -> None:
    code = (
        "from unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n"
        f"model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen3-4B', load_in_4bit=False{loading})\n"
        f"model = FastLanguageModel.get_peft_model(model, r=32{adapting})\n"
        "SFTTrainer(model=model, args=SFTConfig('o', per_device_train_batch_size=1))\n"
    )
    (run,) = runs(code)
    assert run.program.unmodelled == said


def test_a_trainer_of_embeddings_is_said_and_not_estimated() -> None:
    (run,) = runs(
        "from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments\n"
        "args = SentenceTransformerTrainingArguments('o', per_device_train_batch_size=256)\n"
        "SentenceTransformerTrainer(model='Qwen/Qwen3-Embedding-0.6B', args=args)\n"
    )
    assert (run.program.unmodelled, run.program.model_state) == ("trains embeddings", "headless")


LOADED_FROM_ARGUMENTS = """\
import os
import sys
import torch
from transformers import AutoModelForCausalLM
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser

parser = TrlParser((SFTConfig, ModelConfig))
if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
    args, model_args = parser.parse_json_file(json_file=os.path.abspath(sys.argv[1]))
else:
    args, model_args = parser.parse_args_into_dataclasses()
dtype = model_args.dtype if model_args.dtype in ["auto", None] else getattr(torch, model_args.dtype)
model = AutoModelForCausalLM.from_pretrained(
    model_args.model_name_or_path, dtype=dtype, attn_implementation=model_args.attn_implementation
)
if getattr(model, "supports_gradient_checkpointing", False):
    model.gradient_checkpointing_enable()
SFTTrainer(model=model, args=args).train()
"""


@pytest.mark.parametrize(("said", "dtype"), [({}, "float32"), ({"torch_dtype": "bfloat16"}, "bfloat16")])
def test_what_a_command_leaves_out_of_trls_model_arguments_has_their_defaults(
    said: Mapping[str, str], dtype: str
) -> None:
    found = started(LOADED_FROM_ARGUMENTS, model_name_or_path="Qwen/Qwen3-0.6B", **said)
    assert found["model_name_or_path"] == "Qwen/Qwen3-0.6B"
    assert found["dtype"] == dtype
    assert found["attn_implementation"] is None
    assert found["gradient_checkpointing"] is True


@pytest.mark.parametrize(
    ("name", "said"), [("train.py", ""), ("train_dpo.py", "a loop of its own for dpo"), ("trl/a_rewarding.py", "")]
)
def test_a_loop_for_another_loss_is_said(name: str, said: str) -> None:
    script = parse(name, LOOP)
    assert isinstance(script, SourceText)
    (run,) = runs_of(script, ScriptFiles(lambda name: None, lambda name: None))
    assert run.program.unmodelled == said


RESUMED = """\
import fire
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def train(targets: list = ["q_proj"], resume: str = None):
    model = AutoModelForCausalLM.from_pretrained("a/b", load_in_8bit=True)
    model = get_peft_model(model, LoraConfig(r=8, target_modules=targets))
    if resume:
        model = set_peft_model_state_dict(model, torch.load(resume))
    Trainer(model=model, args=TrainingArguments("o", per_device_train_batch_size=4)).train()

fire.Fire(train)
"""


@pytest.mark.parametrize("words", ['["k_proj", "o_proj"]', "[k_proj,o_proj]", "['k_proj', 'o_proj']"])
def test_a_list_in_one_word_is_one_and_a_model_that_is_resumed_the_same(words: str) -> None:
    found = started(RESUMED, targets=words, resume="last")
    assert found["load_in_8bit"] is True
    assert found["lora_target_modules"] == ["k_proj", "o_proj"]


def test_the_start_of_a_flag_is_the_flag() -> None:
    found = started(LOADED_FROM_ARGUMENTS, model_name_or_path="a/b", save_step="20", per_device_train_batch="4")
    assert (found["save_steps"], found["per_device_train_batch_size"]) == (20, 4)
    assert started(LOADED_FROM_ARGUMENTS, model_name_or_path="a/b", save_s="20").get("save_steps") is None


OF_OWN_CLASS = """\
from dataclasses import dataclass, field
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class ModelArguments:
    model_name: str = field(default="a/b")
    token_rows: int = field(default=1)

given, args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
args = TrainingArguments("out", per_device_train_batch_size=given.token_rows)
Trainer(model=AutoModelForCausalLM.from_pretrained(given.model_name), args=args).train()
"""


def test_flags_that_no_class_of_the_parser_has_make_no_start_ambiguous() -> None:
    """`token_budget` is an argument of TRL's classes alone."""
    assert started(OF_OWN_CLASS, token="4")["per_device_train_batch_size"] == 4


def test_a_policy_that_either_of_two_classes_loads_is_one_model() -> None:
    code = """\
from importlib.util import find_spec
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

def made(name):
    if find_spec("liger_kernel") is not None:
        from liger_kernel.transformers import AutoLigerKernelForCausalLM
        return AutoLigerKernelForCausalLM.from_pretrained(name)
    else:
        return AutoModelForCausalLM.from_pretrained(name)

model = made("Qwen/Qwen3-0.6B")
GRPOTrainer(model=model, args=GRPOConfig("out")).train()
"""
    assert runs(code)[0].program.unmodelled == ""
    judged = code.replace("GRPOTrainer(", 'judge = AutoModelForCausalLM.from_pretrained("b")\nGRPOTrainer(')
    assert runs(judged)[0].program.unmodelled == "loads `AutoModelForCausalLM` beside its policy"


CLASSIFIER = (
    "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n"
    "from transformers import AutoModelForSequenceClassification, BitsAndBytesConfig, Trainer, TrainingArguments\n"
    "bits = BitsAndBytesConfig(load_in_4bit=True)\n"
    "model = AutoModelForSequenceClassification.from_pretrained('Qwen/Qwen2.5-0.5B', quantization_config=bits)\n"
    "if something():\n    model = prepare_model_for_kbit_training(model)\n"
    "model = get_peft_model(model, LoraConfig(r=8))\n"
    "Trainer(model, TrainingArguments('o', per_device_train_batch_size=1)).train()\n"
)


@pytest.mark.parametrize("old", ["", "if something():\n    "])
def test_a_classifier_is_one_below_adapters_and_conditions(old: str) -> None:
    (run,) = runs(CLASSIFIER.replace(old, "") if old else CLASSIFIER)
    assert run.program.unmodelled == ""
    assert run.program.model_state == "headless"


def test_trls_trainer_of_steps_gets_a_classifier_of_tokens() -> None:
    code = "from transformers import AutoModelForTokenClassification\nfrom trl import PRMConfig, PRMTrainer\n"
    code += "model = AutoModelForTokenClassification.from_pretrained('Qwen/Qwen2.5-0.5B', num_labels=2)\n"
    (run,) = runs(code + "PRMTrainer(model=model, args=PRMConfig('o', per_device_train_batch_size=1)).train()\n")
    assert (run.program.unmodelled, run.program.model_state) == ("", "headless")


def test_a_sample_of_several_texts_and_a_head_under_a_condition_have_no_figure() -> None:
    several = CLASSIFIER.replace("ForSequenceClassification", "ForMultipleChoice")
    (run,) = runs(several)
    assert run.program.unmodelled == "loads `AutoModelForMultipleChoice`, a classifier"
    other = "if something():\n    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
    mixed = CLASSIFIER.replace("BitsAndBytesConfig, Tr", "AutoModelForCausalLM, BitsAndBytesConfig, Tr")
    (run,) = runs(mixed.replace("if something():\n    model = prepare_model_for_kbit_training(model)\n", other))
    assert run.program.unmodelled == "loads `AutoModelForSequenceClassification`, a classifier"


def test_unknown_init_kwargs_may_name_the_dtype() -> None:
    seen = keys(
        "from trl import GRPOConfig, GRPOTrainer\n"
        "args = GRPOConfig(output_dir='out', model_init_kwargs=somewhere())\n"
        "GRPOTrainer(model='gpt2', args=args, reward_funcs=[f]).train()\n"
    )
    assert (seen["model_name_or_path"], seen["dtype"], seen["load_in_4bit"]) == ("gpt2", "?", "?")


def test_labels_that_are_counted_make_a_classifier_of_a_model_that_nobody_sees() -> None:
    code = (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "@dataclass\nclass Own(TrainingArguments):\n    num_labels: int = 2\n"
        "Trainer(MODELS[kind].from_pretrained('gpt2'), Own('o', per_device_train_batch_size=1)).train()\n"
    )
    (run,) = runs("MODELS = find()\nkind = find()\n" + code)
    assert run.program.unmodelled == "trains a classifier (`num_labels`)"


@pytest.mark.parametrize("made", ["TrainingArguments", "SFTConfig"])
def test_what_is_read_while_the_arguments_are_made_is_not_set_later(made: str) -> None:
    """`__post_init__` makes an engine of `deepspeed` and of the precision; the batch is read when training starts."""
    code = (
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\nfrom trl import SFTConfig\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        f'args = {made}("out", fp16=False, per_device_train_batch_size=8)\n'
        'args.fp16 = True\nargs.deepspeed = "ds.json"\nargs.eval_steps = 5\nargs.per_device_train_batch_size = 2\n'
        "Trainer(model=model, args=args).train()\n"
    )
    found = keys(code)
    assert (found["fp16"], found["eval_steps"], found["per_device_train_batch_size"]) == (False, 5, 2)
    assert "deepspeed" not in found


def test_a_class_of_arguments_sets_its_own_engine_while_it_is_made() -> None:
    code = (
        "from dataclasses import dataclass\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        "@dataclass\nclass Own(TrainingArguments):\n    def __post_init__(self):\n        self.bf16 = True\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\nTrainer(model, Own("out")).train()\n'
    )
    assert keys(code)["bf16"] is True


def test_a_model_is_what_the_code_makes_of_it() -> None:
    """Fields of the script's own arguments that are called like a model's say nothing of a model that is loaded."""
    code = (
        "from dataclasses import dataclass, field\nimport transformers\n"
        "from peft import FourierConfig, get_peft_model\n"
        "@dataclass\nclass Arguments(transformers.TrainingArguments):\n"
        "    use_peft: bool = field(default=False)\n    load_in_4bit: bool = field(default=False)\n"
        "args = Arguments(output_dir='out', per_device_train_batch_size=1)\n"
        "bits = transformers.BitsAndBytesConfig(load_in_4bit=True)\n"
        "model = transformers.AutoModelForCausalLM.from_pretrained('gpt2', quantization_config=bits)\n"
        "model = get_peft_model(model, FourierConfig())\n"
        "transformers.Trainer(model=model, args=args).train()\n"
    )
    (run,) = runs(code)
    assert isinstance(run.keys["use_peft"], Undetermined)
    assert shown(run.keys["load_in_4bit"]) is True


def test_older_releases_switches_are_read() -> None:
    """transformers 4.51.3 modeling_utils.py:1998; peft 0.9.0 utils/other.py:144"""
    load = (
        "from peft import prepare_model_for_int8_training\n"
        "model = AutoModelForCausalLM.from_pretrained('gpt2', load_in_8bit=True, use_flash_attention_2=True)\n"
        "model = prepare_model_for_int8_training(model)"
    )
    found = keys(TRAINER.format(load, ""))
    assert found["load_in_8bit"] is True and found["use_flash_attention_2"] is True
    assert found["gradient_checkpointing"] is True


@pytest.mark.parametrize(
    ("arguments", "newest"),
    [
        ("", {}),
        (", tokenizer=tokenizer", {"trl": ((0, 15), "tokenizer")}),
        (", tokenizer=tokenizer, max_seq_length=512", {"trl": ((0, 12), "max_seq_length")}),
        (", dataset_text_field='text'", {"trl": ((0, 12), "dataset_text_field")}),
    ],
)
def test_arguments_of_a_trainer_date_its_trl(arguments: str, newest: object) -> None:
    """trl 0.12.2, 0.13.0, 0.15.2 and 0.16.1 trainer/sft_trainer.py, __init__."""
    (run,) = runs(SFT.replace("args=args", f"args=args{arguments}"))
    assert run.program.newest == newest


_CASTS_BACK = (
    "for name, module in model.named_modules():\n"
    "    if 'lm_head' in name or 'embed_tokens' in name:\n"
    "        if hasattr(module, 'weight') and module.weight.dtype == torch.float32:\n"
    "            module = module.to(torch.bfloat16)\n"
)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("", ""),
        ("model = prepare_model_for_kbit_training(model)\n", "peft"),
        ("prepare_model_for_kbit_training(model)\n", "peft"),  # it changes the model in place
        ("model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=8))\n", "peft"),
        ("if args.bits == 4:\n    model = prepare_model_for_kbit_training(model)\n", "peft"),
        ("model = prepare_model_for_kbit_training(model)\n" + _CASTS_BACK, "qlora"),
        ("other = prepare_model_for_kbit_training(AutoModelForCausalLM.from_pretrained('teacher'))\n", ""),
        (_CASTS_BACK, ""),
    ],
)
def test_how_a_script_prepares_a_quantised_model(code: str, found: str) -> None:
    """peft 0.21.2 utils/other.py; qlora.py of artidoro/qlora, get_accelerate_model."""
    imports = "import torch\nfrom peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n"
    (run,) = runs(imports + TRAINER.format(code, ", bf16=True"))
    assert run.program.quantized_preparation == found


LOADS = "model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
ARGUMENTS = "args = TrainingArguments('out', deepspeed='zero3.json')\n"
TRAINS = "Trainer(model, args).train()\n"


@pytest.mark.parametrize(
    ("code", "before"),
    [
        (LOADS + ARGUMENTS + TRAINS, True),
        (ARGUMENTS + LOADS + TRAINS, False),
        (LOADS + "model = get_peft_model(model, LoraConfig(r=8))\n" + ARGUMENTS + TRAINS, True),
        ("accelerator = Accelerator()\n" + LOADS + ARGUMENTS + TRAINS, False),
        ("keep = HfDeepSpeedConfig('zero3.json')\n" + LOADS + ARGUMENTS + TRAINS, False),
        (
            "def load():\n    return AutoModelForCausalLM.from_pretrained('gpt2')\n"
            + ARGUMENTS
            + "model = load()\n"
            + TRAINS,
            False,
        ),
        (LOADS + "SFTTrainer(model, args=SFTConfig('out', deepspeed='zero3.json')).train()\n", True),
        ("SFTTrainer('gpt2', args=SFTConfig('out', deepspeed='zero3.json')).train()\n", False),
    ],
    ids=[
        "loads first",
        "arguments first",
        "with adapter",
        "accelerator",
        "config",
        "loads when called",
        "trl",
        "by name",
    ],
)
def test_a_model_that_is_loaded_before_the_training_arguments_is_not_divided_by_zero3(code: str, before: bool) -> None:
    imports = (
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        "from transformers.integrations import HfDeepSpeedConfig\n"
        "from accelerate import Accelerator\nfrom peft import LoraConfig, get_peft_model\n"
        "from trl import SFTConfig, SFTTrainer\n"
    )
    (run,) = runs(imports + code)
    assert run.program.loads_before_engine is before


@pytest.mark.parametrize(("where", "spreads"), [("'auto'", True), ("{'': 0}", False), ("'cuda'", False)])
def test_a_device_map_may_spread_layers(where: str, spreads: bool) -> None:
    load = f"model = AutoModelForCausalLM.from_pretrained('gpt2', device_map={where})"
    (run,) = runs(TRAINER.format(load, ""))
    assert run.program.spreads_layers is spreads


@pytest.mark.parametrize(
    ("said", "argument", "unmodelled", "state"),
    [
        ("convert_to_float8_training(model)", "", "converts its linear layers (`convert_to_float8_training`)", "all"),
        ("quantize_(model, config)", "", "converts its linear layers (`quantize_`)", ""),
        ("pass", ", experts_implementation='sonicmoe'", "runs experts by `sonicmoe`", "all"),
        ("pass", ", experts_implementation='grouped_mm'", "", ""),
    ],
)
def test_other_products_than_the_models_own_are_said_and_not_estimated(
    said: str, argument: str, unmodelled: str, state: str
) -> None:
    code = (
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        "from torchao.float8 import convert_to_float8_training\nfrom torchao.quantization import quantize_\n"
        f"model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-30B-A3B'{argument})\n{said}\n"
        "Trainer(model=model, args=TrainingArguments('o', per_device_train_batch_size=1)).train()\n"
    )
    (run,) = runs(code)
    assert (run.program.unmodelled, run.program.model_state) == (unmodelled, state)


BY_CARD = (
    "import torch\nfrom transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n"
    "major, minor = torch.cuda.get_device_capability()\n"
    "model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
    "SFTTrainer(model, SFTConfig('o', per_device_train_batch_size=1, bf16={test})).train()\n"
)
AMPERE_AT_LEAST, TURING, ADA = Capability(8, 0, is_least=True), Capability(7, 5), Capability(8, 9)


@pytest.mark.parametrize(
    ("test", "at_least_ampere", "turing", "ada"),
    [
        ("major >= 8", True, False, True),
        ("torch.cuda.get_device_capability()[0] > 7", True, False, True),
        ("8 <= torch.cuda.get_device_properties(0).major", True, False, True),
        ("torch.cuda.get_device_properties(0).major >= 8", True, False, True),
        ("not major < 8", True, False, True),
        ("major != 7", True, False, True),
        ("(major, minor) >= (8, 0)", True, False, True),
        ("(major, minor) >= (8, 9)", None, False, True),
        ("major >= 9", None, False, False),
        ("(major, minor) == (7, 5)", False, True, False),
    ],
)
def test_a_script_that_asks_for_its_card(test: str, at_least_ampere: Any, turing: Any, ada: Any) -> None:
    script = parse("train.py", BY_CARD.replace("{test}", test))
    assert isinstance(script, SourceText)
    found = []
    for card in (AMPERE_AT_LEAST, TURING, ADA, None):
        (run,) = runs_of(script, ScriptFiles(lambda name: None, lambda name: None), CommandLine(card=card))
        assert run.asks_for_card
        value = run.keys["bf16"]
        found.append(value.value if isinstance(value, Known) else None)
    assert found == [at_least_ampere, turing, ada, None]


LOADED = """\
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("{}", trust_remote_code=True)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=d).train()
"""


@pytest.mark.parametrize(
    ("model", "release", "dtype"),
    [
        ("THUDM/chatglm2-6b", "4.30.1", "float16"),
        ("THUDM/chatglm2-6b", "4.57.0", "float32"),
        ("meta-llama/Llama-2-7b-hf", "4.30.1", "float32"),
    ],
)
def test_some_models_make_their_layers_in_the_dtype_of_their_config(model: str, release: str, dtype: str) -> None:
    versions = {"transformers": release, "peft": "0.4.0"}
    run = memlint.estimate(LOADED.format(model), path="train.py", versions=versions).run
    assert (run.model.weights_dtype, run.precision.compute) == (dtype, dtype)


PREPARED = """\
{first}
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.bfloat16{quantized})
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=8))
Trainer(model=model, args=TrainingArguments("out", bf16=True)).train()
"""


@pytest.mark.parametrize(
    ("quantized", "dtype"),
    [("", "float32"), (", quantization_config=BitsAndBytesConfig(load_in_4bit=True)", "bfloat16")],
)
def test_a_model_that_is_prepared_without_quantised_weights_is_fp32(quantized: str, dtype: str) -> None:
    run = memlint.estimate(PREPARED.format(first="", quantized=quantized), path="train.py").run
    assert run.model.weights_dtype == dtype


@pytest.mark.parametrize(
    ("first", "gpus"),
    [
        ('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"', 1),
        ('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0,1"', UNKNOWN),
        ('import os\nif x:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"', UNKNOWN),
    ],
)
def test_a_script_that_sees_one_card_trains_on_one(first: str, gpus: object) -> None:
    run = memlint.estimate(PREPARED.format(first=first, quantized=""), path="train.py").run
    assert run.parallelism.world_size == gpus
