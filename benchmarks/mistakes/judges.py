"""The frameworks' own answers: whether they refuse a configuration, and which of its keys they drop.

A judge runs what the framework does with a file up to its first training step, as far as a machine without a GPU goes:

- LLaMA-Factory 0.9.5: `get_train_args`, the template's registry, attention and adapters on a tiny model;
- Trainer (transformers 5.23.0): `HfArgumentParser` over the dataclasses of the language-modelling example's names;
- TRL 1.16.0: `TrlParser` over the classes of `trl sft`, `dpo`, `grpo`, `kto` and `reward`, which drops what it does
  not know;
- Axolotl 0.19.0: `validate_config` with the capabilities of one H100;
- DeepSpeed 0.19.8: `DeepSpeedConfig`, and the optimizer and the scheduler that it builds;
- accelerate 1.15.0: the launcher and the plug-ins that it fills, wrap classes on a tiny model.

Where a model is needed, a tiny one of the same class stands for it: its modules have the same names.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import importlib.machinery
import io
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

_ABSENT = (
    "fire",
    "uvicorn",
    "fastapi",
    "ray",
    "gradio",
    "modelscope",
    "av",
    "librosa",
    "soxr",
    "sse_starlette",
    "torchaudio",
)
_LINEAR_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Answer(NamedTuple):
    """`refusal` is the framework's error, "" where it takes the file; `dropped` are keys that nothing reads."""

    refusal: str = ""
    dropped: tuple[str, ...] = ()


Judge = Callable[[dict[str, Any]], Answer]


_parsers_alone = False


def judges(sources: Path, parsers_alone: bool = False) -> Mapping[str, Judge]:
    """The judge of each framework; `sources` holds the unpacked packages, in folders `<name>-<release>`.

    With `parsers_alone` no model or adapter is built: right for files whose model a tiny one cannot stand for.
    """
    global _parsers_alone
    _parsers_alone = parsers_alone
    folders = sorted(str(folder) for folder in sources.iterdir() if folder.is_dir())
    sys.path[:0] = folders
    os.environ.update(CUDA_VISIBLE_DEVICES="", DISABLE_VERSION_CHECK="1", DS_ACCELERATOR="cpu")
    os.environ.update(HF_HUB_OFFLINE="1", AXOLOTL_DO_NOT_TRACK="1", TRANSFORMERS_VERBOSITY="critical")
    for name in _ABSENT:
        _stub(name)
    trl = {f"trl-{name.lower()}": functools.partial(_trl, name) for name in ("SFT", "DPO", "GRPO", "KTO", "Reward")}
    return {
        "llamafactory": _llamafactory,
        "trainer": _trainer,
        **trl,
        "axolotl": _axolotl,
        "deepspeed": _deepspeed,
        "accelerate": _accelerate,
    }


def refusal(build: Callable[[], object]) -> str:
    """The error of `build` in one line, "" where there is none."""
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            build()
    except (Exception, SystemExit) as error:  # whatever ends the run
        said = "" if isinstance(error, SystemExit) else " ".join(str(error).split())
        words = said or quiet.getvalue().strip().rpartition("\n")[2]
        return f"{type(error).__name__}: {words}"
    return ""


def _stub(name: str) -> None:
    """A package that only training needs, if it is missing: every name in it exists and does nothing."""
    try:
        importlib.import_module(name)
    except ImportError:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        module.__getattr__ = _anything  # type: ignore[method-assign]
        sys.modules[name] = module


def _anything(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()


# ---- models


@functools.cache
def tiny_checkpoint(family: str) -> str:
    """A folder with a saved model of two layers, of the class that `family` has."""
    import transformers

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[family](
        **sizes, num_key_value_heads=2, vocab_size=64, max_position_embeddings=64
    )
    folder = tempfile.mkdtemp(prefix=f"tiny-{family}-")
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def _family(name: str | None) -> str:
    return "qwen2" if "qwen" in str(name).lower() else "llama"


def _model(name: str | None, **options: Any) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(tiny_checkpoint(_family(name)), **options)


def _adapted(model: Any, **options: Any) -> None:
    from peft import LoraConfig, get_peft_model

    trained = get_peft_model(model, LoraConfig(**options))
    if not any(parameter.requires_grad for parameter in trained.parameters()):
        raise ValueError("no parameter trains")


def _optimized(model: Any, arguments: Any) -> None:
    """The optimizer and the schedule of a Trainer, for ten steps."""
    from transformers import Trainer

    rows = [{"input_ids": [1, 2], "labels": [1, 2]}] * 4
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows)
    trainer.create_optimizer_and_scheduler(10)
    trainer.optimizer.step()
    trainer.lr_scheduler.step()


# ---- LLaMA-Factory

_CPU = {"use_cpu": True}  # else bf16 is refused where no card is


def _llamafactory(values: dict[str, Any]) -> Answer:
    parser = importlib.import_module("llamafactory.hparams.parser")
    parser._check_extra_dependencies = lambda *_: None
    kept = {"output_dir": values["output_dir"]} if "output_dir" in values else {}
    with tempfile.TemporaryDirectory() as folder:
        kept = {key: f"{folder}/{value}" for key, value in kept.items()}
        return Answer(refusal(lambda: _llamafactory_run(parser, {**values, **kept, **_CPU})))


def _llamafactory_run(parser: Any, values: dict[str, Any]) -> None:
    import trl

    if not hasattr(trl, "AutoModelForCausalLMWithValueHead"):  # for stages that no mistake here reaches
        trl.AutoModelForCausalLMWithValueHead = object
    from llamafactory.data.template import TEMPLATES
    from llamafactory.model.model_utils.attention import configure_attn_implementation

    model, data, training, tuning, _ = parser.get_train_args(copy.deepcopy(values))
    if data.template is not None and data.template not in TEMPLATES:
        raise ValueError(f"Template {data.template} does not exist.")  # data/template.py:639
    if _parsers_alone:
        return
    tiny = _model(model.model_name_or_path)
    if model.flash_attn not in ("auto", "disabled", "fa2"):
        configure_attn_implementation(tiny.config, model)
    if tuning.finetuning_type == "lora":
        targets = list(_LINEAR_TARGETS) if tuning.lora_target[0] == "all" else tuning.lora_target
        more = {"modules_to_save": tuning.additional_target, "use_rslora": tuning.use_rslora}
        ranks = {"r": tuning.lora_rank, "lora_alpha": tuning.lora_alpha, "lora_dropout": tuning.lora_dropout}
        _adapted(tiny, target_modules=targets, **ranks, **more)
    elif tuning.finetuning_type == "freeze":
        from llamafactory.model.adapter import _setup_freeze_tuning

        _setup_freeze_tuning(tiny, tuning, True, False)
    _optimized(tiny, training)


# ---- Trainer and TRL


@functools.cache
def _example_classes() -> tuple[type, ...]:
    """The dataclasses of a script in the manner of transformers' run_clm.py (examples/pytorch/language-modeling)."""
    from dataclasses import field, make_dataclass

    model = [("model_name_or_path", str, field(default=None)), ("attn_implementation", str, field(default=None))]
    names = ("config_name", "tokenizer_name", "cache_dir", "token", "dtype")
    model += [(name, str, field(default=None)) for name in names]
    data = [("dataset_name", str, field(default=None)), ("block_size", int, field(default=None))]
    data += [(name, int, field(default=None)) for name in ("max_train_samples", "preprocessing_num_workers")]
    data += [(name, str, field(default=None)) for name in ("dataset_config_name", "train_file", "validation_file")]
    return make_dataclass("ModelArguments", model), make_dataclass("DataTrainingArguments", data)


def _trainer(values: dict[str, Any]) -> Answer:
    return Answer(refusal(lambda: _trainer_run({**values, **_CPU})))


def _trainer_run(values: dict[str, Any]) -> None:
    from transformers import HfArgumentParser, TrainingArguments

    parser = HfArgumentParser((*_example_classes(), TrainingArguments))
    model, _, training = parser.parse_dict(copy.deepcopy(values))
    if _parsers_alone:
        return
    options = {"attn_implementation": model.attn_implementation, "dtype": model.dtype}
    _optimized(_model(model.model_name_or_path, **{key: value for key, value in options.items() if value}), training)


def _trl(name: str, values: dict[str, Any]) -> Answer:
    import trl
    import yaml
    from trl.scripts.utils import DatasetMixtureConfig

    classes = (trl.ScriptArguments, getattr(trl, f"{name}Config"), trl.ModelConfig, DatasetMixtureConfig)
    dropped: list[str] = []

    def run() -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({**values, **_CPU}, file)
            file.flush()
            parser = trl.TrlParser(classes)
            found = parser.parse_args_and_config(["--config", file.name], return_remaining_strings=True)
        dropped.extend(word.removeprefix("--") for word in found[-1] if word.startswith("--"))
        if not _parsers_alone:
            _trl_model(found[1], found[2])

    return Answer(refusal(run), tuple(dropped))


def _trl_model(training: Any, model: Any) -> None:
    from trl import get_peft_config

    options = {"attn_implementation": model.attn_implementation, "dtype": model.dtype}
    tiny = _model(model.model_name_or_path, **{key: value for key, value in options.items() if value})
    adapter = get_peft_config(model)
    if adapter is not None:
        from peft import get_peft_model

        tiny = get_peft_model(tiny, adapter)
    _optimized(tiny, training)


# ---- Axolotl


def _axolotl(values: dict[str, Any]) -> Answer:
    from axolotl.utils.config import validate_config
    from axolotl.utils.dict import DictDefault

    found: dict[str, Any] = {}
    capabilities = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": 8, "compute_capability": "sm_90"}

    def run() -> None:
        checked = validate_config(
            DictDefault(copy.deepcopy(values)),
            capabilities=capabilities,
            env_capabilities={"torch_version": "2.11.0"},
        )
        found.update(checked.to_dict())
        if not _parsers_alone:
            _axolotl_model(found)

    error = refusal(run)
    names = _axolotl_names()
    return Answer(error, tuple(sorted(key for key in values if key not in names and key not in found)))


@functools.cache
def _axolotl_names() -> frozenset[str]:
    from axolotl.utils.schemas.config import AxolotlConfigWCapabilities

    fields = AxolotlConfigWCapabilities.model_fields
    return frozenset(fields) | {str(field.alias) for field in fields.values() if field.alias}


def _axolotl_model(values: dict[str, Any]) -> None:
    """Adapters as loaders/adapter.py makes them, the wrap class as accelerate finds it."""
    tiny = _model(values["base_model"])
    if values.get("adapter") in ("lora", "qlora"):
        targets = list(values.get("lora_target_modules") or [])
        if values.get("lora_target_linear"):
            targets += list(_LINEAR_TARGETS)
        _adapted(
            tiny,
            r=values.get("lora_r"),
            lora_alpha=values.get("lora_alpha"),
            lora_dropout=values.get("lora_dropout") or 0,
            target_modules=targets or None,
        )
    wrapped = (values.get("fsdp_config") or {}).get("transformer_layer_cls_to_wrap")
    if wrapped:
        _wrap(tiny, wrapped)


def _wrap(model: Any, names: str) -> None:
    """As accelerate 1.15 utils/dataclasses.py, FullyShardedDataParallelPlugin.set_auto_wrap_policy, does."""
    from accelerate.utils.dataclasses import get_module_class_from_name

    for name in names.split(","):
        if get_module_class_from_name(model, name.strip()) is None:
            raise ValueError(f"Could not find the transformer layer class {name} in the model.")


# ---- DeepSpeed


def _deepspeed(values: dict[str, Any]) -> Answer:
    from deepspeed.runtime.config import DeepSpeedConfig

    def run() -> None:
        config = DeepSpeedConfig(copy.deepcopy(values))
        _deepspeed_step(config)

    return Answer(refusal(run), _unread_by_deepspeed(values))


def _deepspeed_step(config: Any) -> None:
    """The optimizer and the scheduler as engine.py:1512 and :1105 build them, where torch has the same ones."""
    import torch
    from deepspeed.runtime.engine import DeepSpeedEngine

    weights = [torch.nn.Parameter(torch.ones(2))]
    options = dict(config.optimizer_params or {})
    with contextlib.suppress(AttributeError):  # its first line refuses max_grad_norm, the others need an engine
        DeepSpeedEngine._configure_basic_optimizer(types.SimpleNamespace(optimizer_params=lambda: options), weights)
    if (config.optimizer_name or "").lower() in ("adam", "adamw"):
        for key in ("torch_adam", "adam_w_mode", "bias_correction"):
            options.pop(key, None)
        optimizer: Any = torch.optim.AdamW(weights, **options)
    else:
        optimizer = torch.optim.SGD(weights, lr=1e-3)
    if config.scheduler_name is not None:
        from deepspeed.runtime import lr_schedules

        if not hasattr(lr_schedules, config.scheduler_name):
            raise ValueError(f"DeepSpeed does not recognize LR scheduler {config.scheduler_name}")
        getattr(lr_schedules, config.scheduler_name)(optimizer, **(config.scheduler_params or {}))


def _unread_by_deepspeed(values: dict[str, Any]) -> tuple[str, ...]:
    """Top-level keys that no line of runtime/ asks for: DeepSpeed reads them one by one and never lists the rest."""
    return tuple(sorted(key for key in values if f'"{key}"' not in _deepspeed_text()))


@functools.cache
def _deepspeed_text() -> str:
    import deepspeed

    root = Path(deepspeed.__file__).parent
    files = [*root.glob("runtime/**/*.py"), *root.glob("*.py"), *root.glob("*/config.py"), *root.glob("*/constants.py")]
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


# ---- accelerate


def _accelerate(values: dict[str, Any]) -> Answer:
    from benchmarks.corpus.engine_refusals import launcher_refuses

    answer = launcher_refuses(values)
    section = values.get("fsdp_config")
    wrapped = section.get("fsdp_transformer_layer_cls_to_wrap") if isinstance(section, dict) else None
    if not (answer or _parsers_alone) and isinstance(wrapped, str) and values.get("distributed_type") == "FSDP":
        answer = refusal(lambda: _wrap(_model(wrapped), wrapped))
    return Answer(answer, _unread_by_accelerate(values))


def _unread_by_accelerate(values: dict[str, Any]) -> tuple[str, ...]:
    """Keys of a section that are no option of `accelerate launch`: it takes arguments from sections, and no more."""
    from accelerate.commands.launch import launch_command_parser

    known = set(vars(launch_command_parser().parse_args(["x.py"])))
    sections = ("fsdp_config", "deepspeed_config")
    found = [(name, key) for name in sections if isinstance(values.get(name), dict) for key in values[name]]
    read = {name for name in found if {name[1], f"fsdp_{name[1]}"} & known or name[1] in _TRANSLATED}  # launch.py:1273
    return tuple(f"{name}.{key}" for name, key in found if (name, key) not in read)


_TRANSLATED = frozenset({"deepspeed_config_file", "deepspeed_multinode_launcher", "deepspeed_hostfile"})


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
