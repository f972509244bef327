"""Loops that train a model of the repository's own, or an encoder with a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import UNKNOWN, Run
from tests.formats.trainer.test_python_runs import keys, runs

GPT = """\
import torch
import torch.nn as nn
from torch.nn import functional as F

class CausalSelfAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = CausalSelfAttention(width)

class GPT(nn.Module):
    def __init__(self, vocab_size=50304, width=768, layers=12):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocab_size, width), h=nn.ModuleList([Block(width) for _ in range(layers)])))
        self.lm_head = nn.Linear(width, vocab_size, bias=False)

    def configure_optimizers(self, lr):
        params = {name: p for name, p in self.named_parameters()}
        params = {name: p for name, p in params.items() if p.requires_grad}
        decay = [p for name, p in params.items() if p.dim() >= 2]
        rest = [p for name, p in params.items() if p.dim() < 2]
        return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest}], lr=lr)
"""
LOOP = """\
import os
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from model import GPT

batch_size = 12
block_size = 1024
gradient_accumulation_steps = 40
dtype = "bfloat16"
{config}
ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    gradient_accumulation_steps //= int(os.environ["WORLD_SIZE"])
model = GPT(){cast}
optimizer = model.configure_optimizers(6e-4)
if ddp:
    model = DDP(model)
context = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)

def get_batch(data):
    ix = torch.randint(len(data) - block_size, (batch_size,))
    return torch.stack([data[i : i + block_size] for i in ix])

while True:
    for micro_step in range(gradient_accumulation_steps):
        with context:
            logits, loss = model(get_batch(memory))
        loss.backward()
    optimizer.step()
"""


def loop(config: str = "", cast: str = "") -> str:
    return LOOP.format(config=config, cast=cast)


def started(command: str, files: Mapping[str, str]) -> Run:
    """The run of a command in a script beside `files`."""
    workspace = in_memory({"run.sh": command, **files})
    (document,) = workspace.documents("run.sh")
    (run,) = Engine(()).analyse(document, workspace.context()).runs
    return run


def test_a_model_of_the_repository_is_a_run_whose_layers_are_not_known() -> None:
    found = keys(loop(), {"model.py": GPT})
    assert found["model_name_or_path"] == "?"
    assert (found["per_device_train_batch_size"], found["max_length"], found["optim"]) == (12, 1024, "adamw_torch")
    assert (found["dtype"], found["bf16"], found["use_peft"], found["gradient_checkpointing"]) == (
        *("float32", True),
        *(False, False),
    )


def test_its_processes_engine_and_accumulation() -> None:
    run = started("torchrun --standalone --nproc_per_node=8 train.py\n", {"train.py": loop(), "model.py": GPT})
    assert (run.parallelism.world_size, run.parallelism.engine) == (8, "ddp")
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (12, 5)
    assert run.model.name is UNKNOWN and run.model.architecture is UNKNOWN


@pytest.mark.parametrize(
    ("cast", "dtype"), [(".to(torch.bfloat16)", "bfloat16"), (".half()", "float16"), (".to('cuda')", "float32")]
)
def test_what_it_is_cast_to(cast: str, dtype: str) -> None:
    assert keys(loop(cast=cast), {"model.py": GPT})["dtype"] == dtype


def test_code_that_may_checkpoint_or_freeze_leaves_it_open() -> None:
    checkpoints = GPT + "\n    def forward(self, x):\n        return checkpoint(self.block, x)\n"
    assert keys(loop(), {"model.py": checkpoints})["gradient_checkpointing"] == "?"
    off = checkpoints.replace(
        "super().__init__()\n        self.transformer", "self.use_checkpoint = False\n        self.transformer"
    )
    assert keys(loop(), {"model.py": off})["gradient_checkpointing"] is False
    frozen = loop(cast="\nfor p in model.lm_head.parameters():\n    p.requires_grad = False")
    assert keys(frozen, {"model.py": GPT})["use_peft"] == "?"


def test_a_network_that_reads_no_words_is_no_run() -> None:
    network = GPT.replace("nn.Embedding(vocab_size, width)", "nn.Conv2d(3, width, 16)")
    assert runs(loop(), {"model.py": network}) == ()
    images = GPT.replace("class GPT", "class VisionTransformer") + "\nGPT = VisionTransformer\n"
    assert runs(loop(), {"model.py": images}) == ()


CONFIGURATOR = """\
import sys
for arg in sys.argv[1:]:
    if '=' not in arg:
        exec(open(arg).read())
    else:
        key, val = arg.split('=')
        globals()[key[2:]] = val
"""


def test_a_configurator_that_is_executed() -> None:
    files = {
        "train.py": loop('exec(open("configurator.py").read())'),
        "model.py": GPT,
        "configurator.py": CONFIGURATOR,
        "config/big.py": "batch_size = 60\nblock_size = 2048\ngradient_accumulation_steps = 16\n",
    }
    run = started("torchrun --nproc_per_node=8 train.py config/big.py --batch_size=30\n", files)
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (30, 2)
    assert run.sequence.length == 2048


def test_a_loader_of_the_script_s_own() -> None:
    code = loop().replace(
        "context = torch",
        "class Lite:\n    def __init__(self, files, B, T):\n        self.B, self.T = B, T\n"
        "valid = Lite('val_*.bin', B=64, T=512)\nloader = Lite('train_*.bin', B=16, T=256)\ncontext = torch",
    )
    code = code.replace("ix = torch.randint(len(data) - block_size, (batch_size,))", "ix = draw(data)")
    code = code.replace("data[i : i + block_size]", "data[i]")
    found = keys(code, {"model.py": GPT})
    assert (found["per_device_train_batch_size"], found["max_length"]) == (16, 256)


ENCODER = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, BertForSequenceClassification, BertModel
{more}
model = {model}
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
def collate(rows):
    return tokenizer(rows, truncation=True, max_length=128, padding="max_length")
for batch in DataLoader([], batch_size=32, shuffle=True, collate_fn=collate):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
"""
AROUND = """\
class Scorer(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.bert = BertModel.from_pretrained(name)
        self.head = torch.nn.Linear(768, 2)
    def forward(self, ids):
        {forward}
"""
TRAINS = "return self.head(self.bert(ids).pooler_output)"
SCORES = 'BertForSequenceClassification.from_pretrained("bert-base-uncased")'


@pytest.mark.parametrize(
    ("more", "model", "changes", "unmodelled"),
    [
        ("", SCORES, {}, ""),
        (AROUND.format(forward=TRAINS), 'Scorer("bert-base-uncased")', {}, "trains `BertModel` in a module of its own"),
        (
            "from peft import LoraConfig, get_peft_model\n" + AROUND.format(forward=TRAINS),
            'get_peft_model(model=Scorer("bert-base-uncased"), peft_config=LoraConfig(r=8))',
            {"use_peft": True, "lora_r": 8},
            "trains `BertModel` in a module of its own",
        ),
        (
            AROUND.format(forward="with torch.no_grad():\n            x = self.bert(ids)"),
            'Scorer("bert-base-uncased")',
            {"use_peft": "?"},
            "trains `BertModel` in a module of its own",
        ),
    ],
)
def test_an_encoder(more: str, model: str, changes: Mapping[str, Any], unmodelled: str) -> None:
    code = ENCODER.format(more=more, model=model)
    (run,) = runs(code)
    found = keys(code)
    assert found["model_name_or_path"] == "bert-base-uncased"
    assert (found["per_device_train_batch_size"], found["max_length"]) == (32, 128)
    assert {name: found.get(name) for name in changes} == changes
    assert (run.program.unmodelled, run.program.model_state) == (unmodelled, "headless")


def test_an_encoder_whose_features_alone_are_used_is_no_run() -> None:
    code = ENCODER.format(more="head = torch.nn.Linear(768, 2)", model='BertModel.from_pretrained("bert-base-uncased")')
    assert runs(code.replace("AdamW(model.parameters()", "AdamW(head.parameters()")) == ()


def test_a_chat_model_of_the_repository_s_own() -> None:
    code = ENCODER.format(
        more="from transformers import PreTrainedModel\nclass OwnChatModel(PreTrainedModel):\n    pass",
        model='OwnChatModel.from_pretrained("OpenGVLab/InternVL3_5-1B")',
    )
    (run,) = runs(code)
    assert keys(code)["model_name_or_path"] == "OpenGVLab/InternVL3_5-1B"
    assert run.program.unmodelled == "loads `OwnChatModel`, a class of the repository"


APEX = "\nfrom apex import amp\nmodel, optimizer = amp.initialize(model, optimizer{level})\n"


@pytest.mark.parametrize(
    ("level", "fp16"),
    [("", True), (', opt_level="O1"', True), (', opt_level="O0"', False), (', opt_level="O2"', "?")],
)
def test_the_precision_of_apex(level: str, fp16: bool | str) -> None:
    code = ENCODER.format(more="", model=SCORES).replace("\ntokenizer =", APEX.format(level=level) + "tokenizer =")
    assert keys(code)["fp16"] == fp16


def test_an_engine_of_a_model_that_only_scores() -> None:
    code = ENCODER.format(
        more="import deepspeed\nfrom transformers import AutoModelForCausalLM",
        model='AutoModelForCausalLM.from_pretrained("gpt2")\n'
        'reference = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        'reference, *_ = deepspeed.initialize(model=reference, config={"bf16": {"enabled": True}})',
    )
    found = keys(code)
    assert "deepspeed" not in found and found["bf16"] is False
    assert "deepspeed" in keys(code.replace("model=reference", "model=model"))


def test_parts_of_what_a_loop_writes_are_not_the_batch_of_its_prompts() -> None:
    code = ENCODER.format(
        more="from transformers import AutoModelForCausalLM", model='AutoModelForCausalLM.from_pretrained("gpt2")'
    ).replace("    loss = model", "    reward = score(model.generate(batch))\n    loss = model")
    assert keys(code)["per_device_train_batch_size"] == 32
    in_parts = code.replace("    loss.backward()", "    for micro_batch in split(batch):\n        loss.backward()")
    assert keys(in_parts)["per_device_train_batch_size"] == "?"


def test_layers_that_are_appended_one_by_one() -> None:
    network = GPT.replace("h=nn.ModuleList([Block(width) for _ in range(layers)])))", "))")
    network = network.replace("        self.lm_head", "        self.layers = nn.ModuleList()\n        self.lm_head")
    network = network.replace("class GPT", "class Net") + "\nGPT = Net\n"
    assert runs(loop(), {"model.py": network}) == ()  # no part of it reads like a language model's
    appended = network.replace("        self.lm_head", "        self.layers.append(Block(width))\n        self.lm_head")
    assert keys(loop(), {"model.py": appended})["per_device_train_batch_size"] == 12


SPLIT = """\
for batch in DataLoader([], batch_size={size}, shuffle=True):
    for micro_batch in batch["input_ids"].split(2, dim=0):
        loss = model(micro_batch).loss
        loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("size", "micro", "steps"), [("8", 2, 4), ("1", 1, 1), ("len(rows)", 2, "?")])
def test_a_batch_that_the_loop_takes_apart(size: str, micro: int, steps: int | str) -> None:
    code = ENCODER.format(more="", model=SCORES)
    code = code[: code.index("for batch")] + SPLIT.format(size=size)
    found = keys(code)
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (micro, steps)


PLACE = "ix = torch.randint(len(data) - block_size, (batch_size,))"


def test_one_place_drawn_says_nothing_of_the_batch() -> None:
    rounds = "ix = [torch.randint(0, len(data), (1,)) for _ in range(batch_size)]"
    assert keys(loop().replace(PLACE, rounds), {"model.py": GPT})["per_device_train_batch_size"] == "?"


@pytest.mark.parametrize(("part", "batch", "parts"), [(6, 6, 2), (5, 12, 1)])
def test_a_batch_that_torch_splits(part: int, batch: int, parts: int) -> None:
    """Parts that do not divide the batch are parts of something else."""
    code = loop().replace(
        "for micro_step in range(gradient_accumulation_steps):", f"for one in torch.split(all, {part}):"
    )
    code = code.replace("while True:", "for all in torch.utils.data.DataLoader(data, batch_size=12):")
    found = keys(code, {"model.py": GPT})
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (batch, parts)


@pytest.mark.parametrize(("scaler", "is_half"), [("GradScaler()", True), ("GradScaler(enabled=False)", False)])
def test_a_scaler_tells_autocast(scaler: str, is_half: bool) -> None:
    context = f"scaler = torch.cuda.amp.{scaler}\ncontext = torch.cuda.amp.autocast(enabled=scaler.is_enabled())"
    code = loop().replace('context = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)', context)
    assert keys(code, {"model.py": GPT})["fp16"] is is_half
