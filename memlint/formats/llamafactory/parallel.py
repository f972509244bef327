"""LLaMA-Factory: how many GPUs, and how the model is divided among them (DeepSpeed, FSDP, Megatron, DDP)."""

from __future__ import annotations

import json
import math
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Issue, MissingFile
from memlint.formats.fields import Fields, Section, as_words, root
from memlint.formats.issues import FILE_IS_AWAY
from memlint.formats.keys import FieldChange, Written
from memlint.formats.llamafactory.config import LlamaFactoryConfig
from memlint.formats.references import issue as reference_issue
from memlint.formats.training_arguments import Arguments, default_fsdp_version
from memlint.run import Origin
from memlint.source.document import Document, Path

_STAND_IN = "stand-in"  # name of a companion that stands for an absent file: nothing in it can be edited


class Companion(NamedTuple):
    """A further file of the run, or a mapping inside of the main one: the section's name, its content and its place."""

    name: str
    document: Document
    value: Any
    pointer: Path = ()


def _is_launch_file(document: Document) -> bool:
    from memlint.formats.engine_files import launch_file

    return launch_file.recognise(document).confidence != "no"


def read_world(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Put the number of GPUs: from a launch file, else from `ray_num_workers`, else unknown.

    No other key gives it: llamafactory-cli takes all GPUs that it sees (launcher.py:66).
    """
    for document in config.context.companions:
        if _is_launch_file(document):
            from memlint.formats.engine_files import launch_file

            launch_file.apply_world(fields, root(document, "companion"))
    if not isinstance(fields.get("parallelism.world_size"), int):
        workers = config.own.integer("ray_num_workers")
        if config.own.written("ray_num_workers") and workers:
            fields.put("parallelism.world_size", workers, config.own.origin("ray_num_workers"))
        else:
            reason = "nobody said how many GPUs (--gpus, a directive): llamafactory-cli takes all that it sees"
            fields.unknown("parallelism.world_size", reason)


def apply_unused_parameters(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Off for LoRA (hparams/parser.py:602) and, as the Trainer has it, wherever activations are checkpointed."""
    if not config.hf.written("ddp_find_unused_parameters"):
        lora = config.tuning == "lora"
        off = lora or fields.get("checkpointing.mode", "none") != "none"
        reason = "LLaMA-Factory sets it for LoRA" if lora else "Trainer: off with checkpointing, else on"
        fields.infer("parallelism.find_unused_parameters", not off, reason)


def apply_launch_files(fields: Fields, config: LlamaFactoryConfig) -> tuple[Companion, ...]:
    """Read the files that were given with the config: accelerate's launch file, or a DeepSpeed configuration."""
    if not config.context.companions:
        return ()
    from memlint.formats.engine_files import deepspeed_file, launch_file

    found = []
    for document in config.context.companions:
        if _is_launch_file(document):
            section = root(document, "companion")
            fields.issues.extend(launch_file.accelerate_issues(section, config.context))
            named = launch_file.apply_accelerate(fields, section, config.hf, config.context, config.architecture)
            found.append(Companion("accelerate", document, document.value))
            if named is not None:
                found.append(Companion("deepspeed", named.document, named.value, named.pointer))
            _no_reentrant_under_fsdp2(fields)
        elif deepspeed_file.recognise(document).confidence != "no" and not config.hf.get("deepspeed"):
            companion = Companion("deepspeed", document, document.value)
            found.extend(apply_deepspeed_companion(fields, config, companion, config.hf))
    return tuple(found)


def _no_reentrant_under_fsdp2(fields: Fields) -> None:
    """Put non-reentrant checkpointing for a run on FSDP2 (model/model_utils/checkpointing.py:181)."""
    if fields.get("parallelism.engine") == "fsdp" and fields.get("parallelism.fsdp.version") == 2:
        fields.infer("checkpointing.reentrant", False, "LLaMA-Factory switches it off under FSDP2")


def _apply_fsdp(fields: Fields, config: LlamaFactoryConfig) -> tuple[Companion, ...]:
    """`fsdp: full_shard auto_wrap` with `fsdp_config` (transformers TrainingArguments._process_fsdp_args)."""
    from memlint.formats.engine_files import fsdp

    written = config.hf.get("fsdp")
    words = as_words(written) or (("full_shard",) if written is True else ())
    section = config.section.below("fsdp_config")
    found: tuple[Companion, ...] = ()
    if isinstance(config.hf.get("fsdp_config"), str):
        document = config.context.read(config.hf.get("fsdp_config"), config.section.document.path)
        if isinstance(document, MissingFile):
            fields.issues.append(reference_issue(document, config.section.document, ("fsdp_config",)))
        else:
            section, found = root(document, "companion"), (Companion("fsdp", document, document.value),)
    transformers = config.versions["transformers"]
    source = f"transformers {'.'.join(map(str, transformers))} TrainingArguments"
    fsdp.apply_fsdp(fields, fsdp.trainer_options(section, words, transformers, source), config.hf.origin("fsdp"))
    _no_reentrant_under_fsdp2(fields)
    return found


# What trains with another engine, or generates and mends adapters in ways that shards do not allow.
_NOT_UNDER_FSDP = ("use_unsloth", "use_kt", "predict_with_generate", "pissa_init", "pure_bf16")


def read_what_starts_fsdp(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Whether `fsdp` in the config can share 4-bit weights (0.9.5 examples/extras/fsdp_qlora, docs/en/advanced/
    distributed/fsdp.md; model/model_utils/quantization.py:186). A launch file decides the engine where there is one."""
    others = on_megatron(config) or on_hyper_parallel(config) or any(map(_is_launch_file, config.context.companions))
    refused = any(config.own.flag(key) for key in _NOT_UNDER_FSDP) or config.own.word("stage") == "ppo"
    if not others and not refused:
        version = default_fsdp_version(config.versions["transformers"])
        source = "LLaMA-Factory 0.9.5 model/model_utils/quantization.py:186"
        fields.put("planning.starts_fsdp", version, Origin("framework", detail=source))


def apply_engine(fields: Fields, config: LlamaFactoryConfig) -> tuple[Companion, ...]:
    """`deepspeed:` or `fsdp:` of the config, and the files that they name; Megatron and HyperParallel need neither."""
    if on_megatron(config) or on_hyper_parallel(config):
        return ()
    if config.hf.get("deepspeed"):
        found = deepspeed_companion(fields, config.section, config.context.read, ("deepspeed",))
        return apply_deepspeed_companion(fields, config, found, config.hf)
    if config.hf.get("fsdp"):
        return _apply_fsdp(fields, config)
    if "deepspeed" in config.unresolved:
        fields.unknown("parallelism.zero.stage", "`deepspeed` is an interpolation")
    return ()


def apply_deepspeed_companion(
    fields: Fields, config: LlamaFactoryConfig, found: Companion | None, arguments: Arguments
) -> tuple[Companion, ...]:
    """Put the fields of a DeepSpeed configuration; without one the ZeRO stage is unknown."""
    if found is None:
        fields.put("parallelism.engine", "deepspeed", config.section.origin())
        fields.unknown("parallelism.zero.stage", "the DeepSpeed configuration cannot be read")
        return ()
    from memlint.formats.engine_files import deepspeed_file

    inside = found.document is config.section.document
    section = Section(found.document, found.value, found.pointer, "file" if inside else "companion")
    fields.issues.extend(deepspeed_file.config_issues(section, config.context))
    deepspeed_file.apply_deepspeed(fields, section, arguments, config.architecture)
    return () if found.name == _STAND_IN else (found,)


def deepspeed_companion(fields: Fields, section: Section, read: Any, keys: tuple[str, ...]) -> Companion | None:
    """The DeepSpeed configuration at `keys`: a mapping, JSON text, or a file's name. None where it is out of reach."""
    value: Any = section.value
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    pointer = (*section.pointer, *keys)
    if isinstance(value, dict):
        return Companion("deepspeed", section.document, value, pointer)
    if not isinstance(value, str):
        return None
    if value.lstrip().startswith("{"):
        return _from_json_text(section, value, pointer)
    return _from_file(fields, section, value, read, pointer)


def _from_json_text(section: Section, text: str, pointer: Path) -> Companion | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return Companion("deepspeed", section.document, value, pointer) if isinstance(value, dict) else None


def _from_file(fields: Fields, section: Section, name: str, read: Any, pointer: Path) -> Companion | None:
    found = _read(name, section.document.path, read)
    if isinstance(found, MissingFile):
        return _from_shipped_file(fields, section, name, reference_issue(found, section.document, pointer))
    from memlint.formats.engine_files import deepspeed_file

    if not isinstance(found.value, dict) or deepspeed_file.recognise(found).confidence == "no":
        message = f"`{name}` is no DeepSpeed configuration"
        fields.issues.append(section.issue("wrong-companion", message, *pointer[len(section.pointer) :]))
        return None
    found = deepspeed_file.as_read(found)
    return Companion("deepspeed", found, root(found, "companion").value)


# Folders of a clone in which training starts: names count from there.
_CLONES = ("LLaMA-Factory", "LlamaFactory", "llama-factory", "LLaMAFactory")


def _read(name: str, path: str, read: Any) -> Document | MissingFile:
    """The file that the config at `path` names, or that a clone of LLaMA-Factory beside it has under that name."""
    found: Document | MissingFile = read(name, path)
    if not isinstance(found, MissingFile) or found.code != "missing" or name.startswith(("/", ".")):
        return found
    cloned = (read(f"{folder}/{name}", path) for folder in _CLONES)
    return next((one for one in cloned if not isinstance(one, MissingFile)), found)


def _from_shipped_file(fields: Fields, section: Section, name: str, absent: Issue) -> Companion | None:
    """The file that LLaMA-Factory ships under this name, in place of one that is absent."""
    import memlint.formats.llamafactory.shipped_deepspeed as shipped

    value = shipped.shipped_deepspeed(name) if absent.code in FILE_IS_AWAY else None
    if value is None:
        # Training starts in a checkout of LLaMA-Factory's own, where the file may be.
        mild = absent.code == "missing-reference"
        fields.issues.append(absent._replace(severity="warning") if mild else absent)
        return None
    message = f"{absent.message}; its memory is estimated as with the file that LLaMA-Factory ships under that name"
    severity = "info" if shipped.in_its_folder(name) else absent.severity
    fields.issues.append(absent._replace(message=message, severity=severity))
    return Companion(_STAND_IN, section.document, value, absent.pointer)


# Keys of MegatronBridgeArguments and of mcore_adapter's arguments.
_MEGATRON_SWITCHES = ("use_mca", "use_megatron_bridge")
_MEGATRON_DEGREES = (
    *("tensor_model_parallel_size", "pipeline_model_parallel_size"),
    *("context_parallel_size", "expert_model_parallel_size"),
)


def on_megatron(config: LlamaFactoryConfig) -> bool:
    """Whether a key shows that Megatron trains the model.

    Megatron is switched on by environment variables (USE_MCA, USE_MEGATRON_BRIDGE), which no config has. Its degrees of
    parallelism are keys of its own parsers, so a config that has one is for Megatron.
    """
    return bool(_megatron_key(config))


def _megatron_key(config: LlamaFactoryConfig) -> str:
    """The first key that only Megatron's parsers have."""
    flags = (key for key in _MEGATRON_SWITCHES if config.own.flag(key))
    degrees = (key for key in _MEGATRON_DEGREES if config.own.written(key))
    return next(iter((*flags, *degrees)), "")


def read_megatron(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Put Megatron as the engine, whichever key shows it."""
    if on_megatron(config):
        fields.put("parallelism.engine", "megatron", config.own.origin(_megatron_key(config)))


def read_recomputation(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Megatron's checkpointing takes the place of the Trainer's: off unless it is given."""
    if on_megatron(config):
        mode = config.own.word("recompute_granularity")
        mode = mode if mode in ("full", "selective") else "none"
        config.put(fields, "checkpointing.mode", "recompute_granularity", mode)


def write_recomputation(change: FieldChange) -> Written | None:
    """`recompute_granularity`, which only Megatron reads."""
    full = change.run.parallelism.engine == "megatron" and change.value == "full"
    return {"recompute_granularity": "full"} if full else None


def on_hyper_parallel(config: LlamaFactoryConfig) -> bool:
    """HyperParallel's trainer, where Megatron is not asked for."""
    return config.own.flag("use_hyper_parallel") and not on_megatron(config)


def read_hyper_parallel(fields: Fields, config: LlamaFactoryConfig) -> None:
    """HyperParallel shards with FSDP2."""
    if on_hyper_parallel(config):
        config.put(fields, "parallelism.engine", "use_hyper_parallel", "fsdp")
        fields.infer("parallelism.fsdp.version", 2, "train/hyper_parallel/trainer.py: fsdp2_prepare_model")


def _model_ranks(fields: Fields) -> int:
    """GPUs that share one copy of the model; 0 where that is not known."""
    degrees = [fields.get(f"parallelism.{name}_parallel_size", 1) for name in ("tensor", "pipeline", "context")]
    return math.prod(degree if isinstance(degree, int) else 0 for degree in degrees)


def apply_launcher(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Put what the launcher decides: DDP or one process, the data-parallel size, and expandable segments."""
    world = fields.get("parallelism.world_size")
    many = isinstance(world, int) and world > 1
    if "parallelism.engine" not in fields.values:
        fields.infer("parallelism.engine", "ddp" if many else "single", "neither DeepSpeed nor FSDP is configured")
    model_ranks = _model_ranks(fields)
    if isinstance(world, int) and model_ranks and world % model_ranks == 0:
        fields.infer(
            "parallelism.data_parallel_size", world // model_ranks, "world size over the model-parallel degrees"
        )
    engine = fields.get("parallelism.engine")
    # 0.9.2 cli.py does not; 0.9.3 cli.py:97, 0.9.5 launcher.py:82
    launcher = config.since(0, 9, 3) and not any(map(_is_launch_file, config.context.companions))
    reason = "launcher.py:82 sets PYTORCH_CUDA_ALLOC_CONF for torchrun unless OPTIM_TORCH=0"
    if config.training and launcher:
        fields.put("planning.deepspeed_expands_segments", True, Origin("framework", detail=reason))
    if config.training and launcher and (many or engine in ("deepspeed", "megatron")):
        fields.put("stack.expandable_segments", True, Origin("inferred", detail=reason))
