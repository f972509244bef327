"""Trainings with Lightning's Trainer: strategy, precision, GPUs, and what the hooks of the module and its data say."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.api.calls import estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import UNKNOWN, Run

SCRIPT = """\
import torch
import lightning as L
from deepspeed.ops.adam import DeepSpeedCPUAdam
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")


class Texts(Dataset):
    def __init__(self, rows, max_length):
        self.rows, self.max_length = rows, max_length


class Data(L.LightningDataModule):
    def __init__(self, batch_size=4, max_length=1024):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        self.rows = Texts([], self.hparams.max_length)

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.rows, batch_size=64)


class Module(L.LightningModule):
    def __init__(self, name="Qwen/Qwen2.5-1.5B", lr=1e-5, **kwargs):
        super().__init__()
        self.save_hyperparameters()
        self.model = AutoModelForCausalLM.from_pretrained(self.hparams.name, torch_dtype=torch.float32)
        {prepares}

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def configure_optimizers(self):
        return {optimizer}


trainer = L.Trainer(max_steps=10, {arguments})
trainer.fit(Module(), datamodule=Data())
"""
ADAMW = "torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)"


def script(arguments: str = "devices=8", optimizer: str = ADAMW, prepares: str = "pass") -> str:
    found = SCRIPT.replace("{arguments}", arguments).replace("{optimizer}", optimizer)
    return found.replace("{prepares}", prepares)


def run_of(arguments: str = "devices=8", optimizer: str = ADAMW, prepares: str = "pass") -> Run:
    code = script(arguments, optimizer, prepares)
    return estimate(code, path="train.py", gpu="A100-80GB", isolated=True).run


def test_what_the_hooks_say() -> None:
    found = run_of("devices=2, accumulate_grad_batches=8, precision='bf16-mixed'")
    assert found.model.name == "Qwen/Qwen2.5-1.5B"
    assert (found.batch.micro_batch_size, found.batch.gradient_accumulation_steps) == (4, 8)
    assert found.sequence.length == 1024
    assert found.optimizer.name == "adamw_torch"
    assert (found.parallelism.engine, found.parallelism.world_size) == ("ddp", 2)
    assert (found.precision.compute, found.precision.autocast) == ("bfloat16", True)
    assert (found.model.weights_dtype, found.method.kind) == ("float32", "full")


@pytest.mark.parametrize(
    ("precision", "compute", "autocast", "weights"),
    [
        ("16", "float16", True, "float32"),
        ("'bf16'", "bfloat16", True, "float32"),
        ("'bf16-true'", "bfloat16", False, "bfloat16"),
        ("'16-true'", "float16", False, "float16"),
        ("32", "float32", False, "float32"),
        ("None", "float32", False, "float32"),
    ],
)
def test_precision(precision: str, compute: str, autocast: bool, weights: str) -> None:
    found = run_of(f"devices=1, precision={precision}")
    assert (found.precision.compute, found.precision.autocast) == (compute, autocast)
    assert found.model.weights_dtype == weights


@pytest.mark.parametrize("precision", ["64", "'transformer-engine'", "choose()"])
def test_a_precision_that_is_not_read(precision: str) -> None:
    assert run_of(f"devices=1, precision={precision}").precision.compute is UNKNOWN


@pytest.mark.parametrize(
    ("strategy", "stage", "optimizer", "parameters"),
    [
        ("'deepspeed'", 2, "none", "none"),
        ("'deepspeed_stage_1'", 1, "none", "none"),
        ("'deepspeed_stage_2_offload'", 2, "cpu", "none"),
        ("'deepspeed_stage_3_offload'", 3, "cpu", "cpu"),
        ("DeepSpeedStrategy(stage=3)", 3, "none", "none"),
        ("DeepSpeedStrategy(offload_optimizer=True)", 2, "cpu", "none"),
        ("DeepSpeedStrategy(config={'zero_optimization': {'stage': 1}})", 1, "none", "none"),
    ],
)
def test_deepspeed(strategy: str, stage: int, optimizer: str, parameters: str) -> None:
    found = run_of(f"devices=4, num_nodes=2, strategy={strategy}, precision='bf16-mixed'")
    assert (found.parallelism.engine, found.parallelism.zero.stage) == ("deepspeed", stage)
    assert (found.offload.optimizer, found.offload.parameters) == (optimizer, parameters)
    assert found.parallelism.world_size == 8
    assert found.precision.compute == "bfloat16"


def test_what_deepspeed_cannot_be_seen_to_do() -> None:
    engine: object = run_of(
        "devices=4, strategy=DeepSpeedStrategy(config='zero.json'), precision=16"
    ).parallelism.engine
    assert engine is UNKNOWN


POLICY = "auto_wrap_policy={Qwen2DecoderLayer}"


@pytest.mark.parametrize(
    ("strategy", "changes"),
    [
        ("'fsdp'", {"wrap": "none", "strategy": "FULL_SHARD"}),
        ("'fsdp_cpu_offload'", {"wrap": "none", "cpu_offload": True}),
        (f"FSDPStrategy({POLICY})", {"wrap": "transformer", "use_orig_params": True}),
        (f"FSDPStrategy({POLICY}, sharding_strategy='SHARD_GRAD_OP')", {"strategy": "SHARD_GRAD_OP"}),
        (f"FSDPStrategy({POLICY}, cpu_offload=True)", {"cpu_offload": True}),
    ],
)
def test_fsdp(strategy: str, changes: dict[str, Any]) -> None:
    found = run_of(f"devices=4, strategy={strategy}, precision='bf16-mixed'")
    assert found.parallelism.engine == "fsdp"
    assert found.parallelism.fsdp.param_dtype == "bfloat16"
    assert {name: getattr(found.parallelism.fsdp, name) for name in changes} == changes


def test_checkpointing_of_fsdp() -> None:
    given = f"devices=4, strategy=FSDPStrategy({POLICY}, activation_checkpointing_policy={{Qwen2DecoderLayer}})"
    assert run_of(given).checkpointing.mode == "full"


def test_strategies_that_are_not_read() -> None:
    for strategy in ("'colossalai'", "FSDPStrategy(process_group=groups)"):
        engine: object = run_of(f"devices=4, strategy={strategy}").parallelism.engine
        assert engine is UNKNOWN


@pytest.mark.parametrize(
    ("arguments", "gpus"),
    [
        ("devices=[0, 2, 3]", 3),
        ("devices='0,1'", 2),
        ("devices='4'", 4),
        ("gpus='0,'", 1),
        ("gpus=2, accelerator='ddp'", 2),
        ("devices=-1", UNKNOWN),
        ("devices='auto'", UNKNOWN),
        ("accelerator='gpu'", UNKNOWN),
    ],
)
def test_gpus(arguments: str, gpus: object) -> None:
    assert run_of(arguments).parallelism.world_size == gpus


def test_checkpointing_of_transformers_works_in_training_mode_alone() -> None:
    enables = "self.model.gradient_checkpointing_enable()"
    assert run_of(prepares=enables).checkpointing.mode is UNKNOWN
    assert run_of(prepares=f"{enables}; self.model.train()").checkpointing.mode == "full"


def test_accumulation_that_changes() -> None:
    assert run_of("devices=1, accumulate_grad_batches={0: 8, 4: 1}").batch.gradient_accumulation_steps is UNKNOWN


def test_adapters_and_optimizers() -> None:
    adapts = "from peft import LoraConfig, get_peft_model; self.model = get_peft_model(self.model, LoraConfig(r=4))"
    found = run_of("devices=1", "[torch.optim.SGD(self.model.parameters(), lr=1)], []", adapts)
    assert (found.method.kind, found.method.rank, found.optimizer.name) == ("lora", 4, "sgd")


FLAGS = """\
from argparse import ArgumentParser
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForSeq2SeqLM


class Module(pl.LightningModule):
    @staticmethod
    def add_model_specific_args(parent):
        parser = ArgumentParser(parents=[parent], add_help=False)
        parser.add_argument("--batch_size", type=int, default=48)
        parser.add_argument("--model_name", default="google/flan-t5-base")
        return parser

    def __init__(self, *args, **kwargs):
        super().__init__()
        self.save_hyperparameters()
        self.model = AutoModelForSeq2SeqLM.from_pretrained(self.hparams.model_name)

    def train_dataloader(self, shuffle=True):
        return DataLoader([], batch_size=self.hparams.batch_size, shuffle=shuffle)

    def configure_optimizers(self):
        groups = [{"params": [p for n, p in self.model.named_parameters()], "weight_decay": 0.1}]
        return [torch.optim.AdamW(groups)], []


if __name__ == "__main__":
    parser = Module.add_model_specific_args(ArgumentParser())
    parser = pl.Trainer.add_argparse_args(parser)
    args = parser.parse_args()
    trainer = pl.Trainer.from_argparse_args(args, max_steps=5)
    trainer.fit(Module(**vars(args)))
"""


def launched(script: str, files: dict[str, str]) -> Run:
    workspace = in_memory({"go.sh": script, **files})
    return Engine(()).analyse(workspace.documents("go.sh")[0], workspace.context()).runs[0]


def test_flags_of_the_trainer() -> None:
    command = "#SBATCH --gres=gpu:8\npython train.py --gpus 4 --accelerator ddp --precision 16 --batch_size 16\n"
    found = launched(f"#!/bin/bash\n{command}", {"train.py": FLAGS})
    assert found.model.name == "google/flan-t5-base"
    assert (found.batch.micro_batch_size, found.precision.compute) == (16, "float16")
    assert (found.parallelism.engine, found.parallelism.world_size) == ("ddp", 4)


CLI = SCRIPT.partition("trainer = L.Trainer")[0].replace("{optimizer}", ADAMW).replace("{prepares}", "pass")
CLI += "from lightning.pytorch.cli import LightningCLI\nLightningCLI(Module, Data)\n"
CONFIG = """\
trainer:
  devices: 2
  precision: bf16-mixed
  accumulate_grad_batches: 4
  strategy:
    class_path: DeepSpeedStrategy
    init_args: {stage: 3}
model: {name: Qwen/Qwen2.5-0.5B}
data: {batch_size: 8}
"""


def test_lightning_cli() -> None:
    command = "python main.py fit --config run.yaml --trainer.accumulate_grad_batches 2\n"
    found = launched(command, {"main.py": CLI, "run.yaml": CONFIG})
    assert found.model.name == "Qwen/Qwen2.5-0.5B"
    assert (found.batch.micro_batch_size, found.batch.gradient_accumulation_steps) == (8, 2)
    assert (found.parallelism.zero.stage, found.parallelism.world_size) == (3, 2)


def test_a_module_without_a_language_model_is_no_run() -> None:
    code = script().replace("AutoModelForCausalLM.from_pretrained(self.hparams.name, torch_dtype=torch.float32)", "net")
    workspace = in_memory({"train.py": code})
    assert workspace.documents("train.py") == ()


FABRIC = """\
import lightning as L
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

fabric = L.Fabric(devices=4, strategy={strategy}, precision="bf16-mixed")
fabric.launch()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = fabric.setup(model, optimizer)
for step, batch in enumerate(fabric.setup_dataloaders(DataLoader([], batch_size=2, shuffle=True))):
    loss = model(**batch).loss
    fabric.backward(loss)
    if (step + 1) % 8 == 0:
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("strategy", "engine", "stage"),
    [("'ddp'", "ddp", 0), ("'auto'", "ddp", 0), ("'deepspeed_stage_3'", "deepspeed", 3)],
)
def test_fabric(strategy: str, engine: str, stage: int) -> None:
    code = FABRIC.replace("{strategy}", strategy)
    found = estimate(code, path="train.py", gpu="A100-80GB", isolated=True).run
    assert (found.batch.micro_batch_size, found.batch.gradient_accumulation_steps) == (2, 8)
    assert (found.parallelism.engine, found.parallelism.zero.stage) == (engine, stage)
    assert (found.precision.compute, found.parallelism.world_size) == ("bfloat16", 4)


LAUNCHED = """\
from lightning.fabric.strategies import FSDPStrategy
import lightning as L
import torch
from jsonargparse import CLI
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

def setup(devices: int = 4):
    strategy = FSDPStrategy(auto_wrap_policy={Qwen2DecoderLayer})
    fabric = L.Fabric(devices=devices, strategy=strategy, precision="bf16-mixed")
    fabric.launch(main, 8)

def main(fabric, steps):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters())
    state = {"model": fabric.setup(model), "optimizer": fabric.setup_optimizers(optimizer), "iter_num": 0}
    for batch in fabric.setup_dataloaders(DataLoader([], batch_size=2, shuffle=True)):
        is_accumulating = (state["iter_num"] + 1) % steps != 0
        fabric.backward(model(**batch).loss)
        if not is_accumulating:
            state["optimizer"].step()
        state["iter_num"] += 1

if __name__ == "__main__":
    CLI(setup)
"""


@pytest.mark.parametrize(
    ("command", "gpus"),
    [
        ("fabric run --devices 2 --num-nodes 2 train.py --devices 2", 4),
        ("lightning run model --node-rank=0 --accelerator=cuda --devices=8 train.py --devices 8", 8),
        ("lightning run app train.py", 0),
        ("python train.py", 4),
    ],
)
def test_fabric_that_starts_a_function(command: str, gpus: int) -> None:
    workspace = in_memory({"go.sh": f"{command}\n", "train.py": LAUNCHED})
    found = workspace.documents("go.sh")
    assert bool(found) is bool(gpus)
    for document in found:
        (run,) = Engine(()).analyse(document, workspace.context()).runs
        assert (run.parallelism.world_size, run.parallelism.engine) == (gpus, "fsdp")
        assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (2, 8)


RAY = """\
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def train(config):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
    Trainer(model, TrainingArguments("out", per_device_train_batch_size=config["size"])).train()

TorchTrainer(train, train_loop_config={"size": 4}, scaling_config=ScalingConfig({scaling})).fit()
"""


@pytest.mark.parametrize(
    ("scaling", "gpus"),
    [
        ("num_workers=8, use_gpu=True", 8),
        ("num_workers=8, use_gpu=True, resources_per_worker={'GPU': 2}", UNKNOWN),
        ("num_workers=8", UNKNOWN),
    ],
)
def test_workers_of_ray(scaling: str, gpus: object) -> None:
    found = estimate(RAY.replace("{scaling}", scaling), path="train.py", gpu="A100-80GB", isolated=True).run
    assert (found.batch.micro_batch_size, found.parallelism.world_size) == (4, gpus)
