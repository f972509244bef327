"""torchtune's own answer: the recipe's `__init__`, and every component of the file with the arguments that it is given.

Nothing is loaded: a model is built without storage, and components that read files are only asked for their arguments.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from benchmarks.mistakes.fields import Field, Place
from benchmarks.mistakes.judges import refusal
from benchmarks.refusals.drawn import MISSING, Options, Original

NAME, RELEASE, FILE = "torchtune", "0.6.1", "run.sh"
VERSIONS = {"torchtune": (0, 6, 1)}
# Where the recipe first counts steps, and where the first forward divides by the rank.
LATER = ("wants an integer", "`lora_rank: 0`")
_RECIPE = "recipe"  # the key of a configuration that is for the command
_CONFIG = "config.yaml"
_FULL: dict[str, Any] = {
    _RECIPE: "full_finetune_distributed",
    "output_dir": "/tmp/out",
    "tokenizer": {
        "_component_": "torchtune.models.llama3.llama3_tokenizer",
        "path": "/tmp/tokenizer.model",
        "max_seq_len": 2048,
    },
    "dataset": {"_component_": "torchtune.datasets.alpaca_dataset", "packed": False},
    "seed": None,
    "shuffle": True,
    "model": {"_component_": "torchtune.models.llama3_1.llama3_1_8b"},
    "checkpointer": {
        "_component_": "torchtune.training.FullModelHFCheckpointer",
        "checkpoint_dir": "/tmp/model/",
        "checkpoint_files": ["model-00001-of-00001.safetensors"],
        "output_dir": "/tmp/out",
        "model_type": "LLAMA3",
    },
    "resume_from_checkpoint": False,
    "batch_size": 2,
    "epochs": 1,
    "optimizer": {"_component_": "torch.optim.AdamW", "lr": 2e-5, "fused": True},
    "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
    "max_steps_per_epoch": None,
    "clip_grad_norm": None,
    "compile": False,
    "optimizer_in_bwd": False,
    "gradient_accumulation_steps": 1,
    "device": "cuda",
    "enable_activation_checkpointing": True,
    "enable_activation_offloading": False,
    "dtype": "bf16",
    "metric_logger": {"_component_": "torchtune.training.metric_logging.DiskLogger", "log_dir": "/tmp/logs"},
    "log_every_n_steps": 1,
    "log_peak_memory_stats": True,
}
_LORA_MODEL = {
    "_component_": "torchtune.models.llama3_1.lora_llama3_1_8b",
    "lora_attn_modules": ["q_proj", "v_proj", "output_proj"],
    "apply_lora_to_mlp": True,
    "lora_rank": 8,
    "lora_alpha": 16,
    "lora_dropout": 0.0,
}
_SCHEDULE = {
    "_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
    "num_warmup_steps": 100,
}
_LORA = {
    **_FULL,
    _RECIPE: "lora_finetune_single_device",
    "model": _LORA_MODEL,
    "lr_scheduler": _SCHEDULE,
    "gradient_accumulation_steps": 8,
    "save_adapter_weights_only": False,
}
_SINGLE = {**_FULL, _RECIPE: "full_finetune_single_device"}
_SWITCH = (True, False)
_OPTIONS: Options = {
    ("dtype",): ("bf16", "fp32", "fp16", "bfloat16", "float32"),
    ("optimizer_in_bwd",): _SWITCH,
    ("gradient_accumulation_steps",): (1, 4),
    ("clip_grad_norm",): (1.0, None),
    ("enable_activation_checkpointing",): _SWITCH,
    ("enable_activation_offloading",): _SWITCH,
    ("tensor_parallel_dim",): (1, 2, 3),
    ("optimizer", "_component_"): (
        *("torch.optim.AdamW", "torch.optim.Adamw", "torch.optim.SGD", "bitsandbytes.optim.PagedAdamW8bit", "AdamW"),
    ),
    ("optimizer", "lr"): (2e-5, MISSING, -1e-5),
    ("optimizer", "learning_rate"): (2e-5,),
    ("optimizer", "weight_decay"): (0.01, -0.1),
    ("optimizer", "betas"): ([0.9, 0.95], [0.9, 1.5]),
    ("loss", "_component_"): (
        *("torchtune.modules.loss.CEWithChunkedOutputLoss", "torch.nn.CrossEntropyLoss"),
        *("torchtune.modules.loss.LinearCrossEntropyLoss", "torchtune.modules.loss.ChunkedLoss"),
    ),
    ("model", "_component_"): (
        *("torchtune.models.llama3_1.llama3_1_8b", "torchtune.models.llama3.llama3_1_8b"),
        *("torchtune.models.llama3_1.lora_llama3_1_8b", "torchtune.models.qwen2_5.qwen2_5_7b_instruct"),
        *("torchtune.models.qwen2_5.qwen2_5_7b", "torchtune.models.llama4.llama4_scout"),
    ),
    ("model", "lora_rank"): (8, 16),
    ("model", "lora_alpha"): (16,),
    ("model", "lora_attn_modules"): (["q_proj", "v_proj"], ["q_proj", "o_proj"], ["all"]),
    ("model", "rank"): (8,),
    ("model", "use_dora"): _SWITCH,
    ("model", "quantize_base"): _SWITCH,
    ("dataset", "packed"): _SWITCH,
    ("dataset", "_component_"): (
        *("torchtune.datasets.alpaca_dataset", "torchtune.datasets.alpaca_cleaned_dataset"),
        *("torchtune.datasets.chat_dataset", "torchtune.datasets.alpaca"),
    ),
    ("dataset", "train_on_inputs"): _SWITCH,
    ("dataset", "max_seq_len"): (2048,),
    ("tokenizer", "max_seq_len"): (None, 4096),
    ("tokenizer", "max_length"): (2048,),
    ("checkpointer", "_component_"): (
        *("torchtune.training.FullModelHFCheckpointer", "torchtune.utils.FullModelHFCheckpointer"),
        *("torchtune.training.FullModelHfCheckpointer",),
    ),
    ("checkpointer", "model_type"): ("LLAMA3", "LLAMA3_1", "llama3", MISSING),
    ("checkpointer", "recipe_checkpoint"): (None,),
    ("lr_scheduler",): (_SCHEDULE, {**_SCHEDULE, "warmup_steps": 10}),
    ("batch_size",): (1, 2, MISSING),
    ("epochs",): (1, MISSING),
    ("loss",): (MISSING,),
    ("shuffle",): (MISSING, True),
    ("seed",): (MISSING, 42),
    ("resume_from_checkpoint",): (MISSING, False),
    ("metric_logger", "_component_"): ("torchtune.training.metric_logging.WandBLogger",),
    ("compile",): _SWITCH,
    ("fsdp_cpu_offload",): _SWITCH,
    ("ac_mode",): ("selective", "full"),
    ("max_seq_len",): (2048,),
    ("device",): ("cuda", "gpu"),
}
ORIGINALS: Mapping[str, Original] = {
    "full": Original(_FULL, _OPTIONS),
    "single": Original(_SINGLE, _OPTIONS),
    "lora": Original(_LORA, _OPTIONS),
}
KEPT = (("model", "_component_"),)


def fields() -> dict[Place, Field]:
    """The numbers and switches of the originals; a wrong word for a switch is Python's to read."""
    found: dict[Place, Field] = {}
    for original in ORIGINALS.values():
        for key, value in original.content.items():
            inner = value.items() if isinstance(value, dict) else ()
            found.update({(key, name): Field(type(item)) for name, item in inner if type(item) in (int, float, str)})
            if type(value) in (int, float, str) and key != _RECIPE:
                found[(key,)] = Field(type(value))
    return found


def written(value: Mapping[str, Any]) -> str:
    distributed = "distributed" in value[_RECIPE]
    return f"tune run {'--nproc_per_node 8 ' if distributed else ''}{value[_RECIPE]} --config {_CONFIG}\n"


def gpus(value: Mapping[str, Any]) -> int:
    return 8 if "distributed" in value[_RECIPE] else 1


def beside(value: Mapping[str, Any]) -> dict[str, str]:
    """The other files, by name."""
    return {_CONFIG: yaml.safe_dump({key: item for key, item in value.items() if key != _RECIPE}, sort_keys=False)}


def refuses(value: Mapping[str, Any]) -> str:
    return refusal(lambda: _run(value[_RECIPE], beside(value)[_CONFIG]))


@functools.cache
def _recipe(name: str) -> tuple[Any, frozenset[str]]:
    """The recipe's class, and the keys that its code takes without a default."""
    folder = next(Path(path) for path in sys.path if Path(path).name.startswith("torchtune-"))
    path = folder / "recipes" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    asked = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "cfg")
    needed = frozenset(node.attr for node in asked) - {"get", "pop", "items"}
    return next(one for name_, one in vars(module).items() if "Recipe" in name_ and one.__module__ == name), needed


def _run(name: str, text: str) -> None:
    import torch
    from omegaconf import OmegaConf

    recipe, needed = _recipe(name)
    config = OmegaConf.create(text)
    for key in sorted(needed - {"profiler"}):
        getattr(config, key)  # raises where the file has none
    world = (gpus({_RECIPE: name}), 0)
    stand_ins = {one: mock.MagicMock() for one in ("init_process_group", "CheckpointClient")}
    with (
        mock.patch("torchtune.utils.get_device", torch.device),
        mock.patch("torchtune.utils.get_world_size_and_rank", lambda: world),
        mock.patch("torchtune.training.precision.verify_bf16_support", lambda *_, **__: True),
        mock.patch.dict(recipe.__init__.__globals__, stand_ins),
    ):
        recipe(config)
    _components(config)


def _components(config: Any) -> None:
    """setup(): each section's component with what the recipe gives it besides."""
    import torch
    from torchtune import config as own

    with torch.device("meta"):
        own.instantiate(config.model)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = own.instantiate(config.optimizer, [parameter])
    own.instantiate(config.loss)
    if config.get("lr_scheduler"):
        own.instantiate(config.lr_scheduler, optimizer, num_training_steps=10, last_epoch=-1)
    for section in ("tokenizer", "dataset", "checkpointer", "metric_logger"):
        _bind(config[section], (None,) if section == "dataset" else ())
    _check(config)


def _bind(section: Any, given: tuple[Any, ...]) -> None:
    from torchtune.config._utils import _get_component_from_path

    component = _get_component_from_path(section["_component_"])
    inspect.signature(component).bind(*given, **{key: None for key in section if key != "_component_"})


def _check(config: Any) -> None:
    """What the tokenizer, the data and the checkpointer raise as they are made."""
    from torchtune.training.checkpointing._utils import ModelType

    ModelType[config.checkpointer.model_type]
    if config.dataset.get("packed") and config.tokenizer.get("max_seq_len") is None:
        raise ValueError("PackedDataset requires a max_seq_len to be set on the tokenizer.")
