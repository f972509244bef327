"""World size, engine and sharding of a Trainer file: its own `deepspeed` and `fsdp` keys, else the launch file."""

from __future__ import annotations

from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.formats.accelerate.trl_files import LAUNCH_FILES
from memlint.formats.base import Context, Issue, MissingFile
from memlint.formats.engine_files import deepspeed_file, fsdp, launch_file, not_deepspeed, recognises
from memlint.formats.fields import Fields, Section, as_bool, as_int, as_words, interpolated, root
from memlint.formats.references import issue as reference_issue
from memlint.formats.schema.suggest import nearest
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.own_engine import PLUGIN, apply_own_fsdp, is_loop
from memlint.formats.training_arguments import default_fsdp_version
from memlint.run import Origin, Reading
from memlint.source.document import Document, Start
from memlint.source.placeholders import is_placeholder

NAMED_LAUNCH_FILE = "accelerate_config"
_ONE_PROCESS = ("", "python")  # how a script is started that nobody starts several times
_OF_THE_PROGRAM = "`--deepspeed` turns DeepSpeed on, and the program makes its configuration"
_DEVICE_MAP = Origin("framework", detail="one process, and the program loads its model with a `device_map`")


class Companions(NamedTuple):
    """The launch file and the DeepSpeed file that were given with the training file; None where there is none."""

    accelerate: Section | None = None
    deepspeed: Section | None = None

    def precision(self) -> str:
        return launch_file.mixed_precision(self.accelerate) if self.accelerate is not None else "no"


def companions_of(context: Context, document: Document) -> Companions:
    """The first launch file and the first DeepSpeed file among the context's companions, else the launch file that the
    training file names."""
    accelerate = next((doc for doc in context.companions if recognises(launch_file, doc)), None)
    deepspeed = next((doc for doc in context.companions if recognises(deepspeed_file, doc)), None)
    return Companions(
        root(accelerate, "companion") if accelerate is not None else _named_launch_file(context, document),
        root(deepspeed, "companion") if deepspeed is not None else None,
    )


def _named_launch_file(context: Context, document: Document) -> Section | None:
    """`accelerate_config` of TRL's command: a file, or the name of one that comes with TRL (trl 1.16.0
    cli/accelerate_config.py)."""
    section = root(document)
    name = section.value.get(NAMED_LAUNCH_FILE)
    if not isinstance(name, str) or not name:
        return None
    found = context.read(name, document.path)
    if isinstance(found, Document):
        return root(found, "companion") if recognises(launch_file, found) else None
    return section._replace(value=LAUNCH_FILES[name], pointer=(NAMED_LAUNCH_FILE,)) if name in LAUNCH_FILES else None


def apply_launcher(fields: Fields, config: TrainerConfig, companions: Companions) -> None:
    """Put the number of GPUs of the launch file; that of the command which names it stands over the file's."""
    launcher = companions.accelerate
    if NAMED_LAUNCH_FILE in config.section.value:
        _put_own_world(fields, config.section)
        fields.issues.extend(_launch_file_issues(config, launcher))
    if launcher is not None:
        fields.issues.extend(launch_file.accelerate_issues(launcher, config.context))
        launch_file.apply_world(fields, launcher)


def _launch_file_issues(config: TrainerConfig, launcher: Section | None) -> Iterator[Issue]:
    """TRL's command raises ValueError where the name is neither a file nor a launch file of its own."""
    section = config.section
    name = section.value[NAMED_LAUNCH_FILE]
    if launcher is not None or not isinstance(name, str) or not name or interpolated(name):
        return
    found = config.context.read(name, section.document.path)
    if isinstance(found, Document):
        message = f"`{name}` is no launch file of accelerate"
        yield section.issue("wrong-companion", message, NAMED_LAUNCH_FILE)
    elif "/" in name or "." in name:
        yield reference_issue(found, section.document, (*section.pointer, NAMED_LAUNCH_FILE))
    else:
        meant = nearest(name, LAUNCH_FILES)
        hint = f": did you mean `{meant}`?" if meant else f": {', '.join(LAUNCH_FILES)}"
        message = f"`{name}` is neither a file nor a launch file that TRL has{hint}"
        yield section.issue("bad-value", message, NAMED_LAUNCH_FILE)


def leave_precision_open(fields: Fields, config: TrainerConfig, companions: Companions) -> None:
    """A launch file that nobody knows may set the precision of arguments that say none."""
    says = any(as_bool(config.args.get(name)) for name in ("bf16", "fp16"))
    if interpolated(companions.precision()) and not says:
        for field in ("precision.compute", "precision.autocast"):
            fields.unknown(field, "the launch file may set `mixed_precision`, and which file it is, is not known")


def read_world(fields: Fields, config: TrainerConfig) -> None:
    """Some recipes note `num_processes` for `accelerate launch --num_processes`; TRL's command reads it."""
    _put_own_world(fields, config.section)
    if not isinstance(fields.get("parallelism.world_size"), int):
        fields.unknown("parallelism.world_size", "nobody said how many GPUs (--gpus, a directive, an accelerate file)")


def _put_own_world(fields: Fields, section: Section) -> None:
    count = as_int(section.value.get("num_processes"))
    if count is not None and count > 0 and not isinstance(fields.get("parallelism.world_size"), int):
        fields.put("parallelism.world_size", count, section.origin("num_processes"))


# Of accelerate's ParallelismConfig (accelerate 1.14 parallelism_config.py, transformers 5.23 training_args.py:1314).
_DEGREES = {"cp_size": "context", "sp_size": "sequence", "tp_size": "tensor"}


def read_degrees(fields: Fields, config: TrainerConfig) -> None:
    """`parallelism_config` of the training arguments, an object that a script makes."""
    given = config.section.value.get("parallelism_config")
    if not isinstance(given, dict):
        return
    origin = config.section.origin("parallelism_config")
    for key, name in _DEGREES.items():
        size, field = given.get(key), f"parallelism.{name}_parallel_size"
        if isinstance(size, int) and size > 0:
            fields.put(field, size, origin)
        elif size is not None:
            fields.put("stack.unmodelled", f"a ParallelismConfig whose `{key}` is not known", origin)


def apply_engine(fields: Fields, config: TrainerConfig, companions: Companions) -> tuple[Section, ...]:
    """Put the engine; returns the sections that it was read from (DeepSpeed's first). The file's own keys win."""
    launcher = companions.accelerate
    deepspeed = _deepspeed(fields, config) or companions.deepspeed
    if deepspeed is not None:
        fields.issues.extend(deepspeed_file.config_issues(deepspeed, config.context))
        deepspeed_file.apply_deepspeed(fields, deepspeed, config.args, config.architecture)
        return _without_none(deepspeed, launcher)
    if fields.get("parallelism.engine") == "deepspeed":  # its file is not there, and the launcher has no say
        return _without_none(launcher)
    if _wants_fsdp(config):
        return _fsdp_of_the_program(fields, config, launcher)
    named = None
    if launcher is not None and not _gives_plugin(config.section.document.start):
        named = launch_file.apply_accelerate(fields, launcher, config.args, config.context, config.architecture)
    if "parallelism.engine" not in fields.values:
        _single_or_ddp(fields, config.section.document.start)
    return _without_none(named, launcher)


def read_what_starts_fsdp(fields: Fields, config: TrainerConfig) -> None:
    """What lets FSDP share 4-bit weights: TRL's arguments, or a launch file beside a program that loads them. A script
    may load its model before it makes its arguments, and a launch file that says another engine stands over them."""
    can_store = fields.get("planning.stores_4_bits_in_half", "") == "asked"
    document = config.section.document
    in_program = document.syntax == "python" or (document.start is not None and document.start.accepted.has_none)
    if can_store and not in_program and not config.context.companions:
        version = default_fsdp_version(config.transformers)
        source = "trl 1.16 trainer/model_config.py, bnb_4bit_quant_storage"
        fields.put("planning.starts_fsdp", version, Origin("framework", detail=source))
    elif not is_loop(document.start):
        source = "peft 0.21.2 docs, accelerate/fsdp.md, Use PEFT QLoRA and FSDP"
        fields.put("planning.fsdp_by_launch_file", _FSDP_BY_LAUNCH_FILE, Origin("framework", detail=source))


_FSDP_BY_LAUNCH_FILE = (
    "accelerate launch --config_file with FSDP (fsdp_version: 1, fsdp_cpu_ram_efficient_loading: true{offload}), and"
    " bnb_4bit_quant_storage=torch.bfloat16 in the program's BitsAndBytesConfig, without device_map"
)


def _fsdp_of_the_program(fields: Fields, config: TrainerConfig, launcher: Section | None) -> tuple[Section, ...]:
    """Put the FSDP of the arguments, of accelerate's plug-in in a loop, or of torch itself there."""
    section, origin = config.section.below("fsdp_config"), config.section.origin("fsdp")
    if PLUGIN in section.value:
        options = _plugin_options(section, launcher)
    elif is_loop(config.section.document.start):
        apply_own_fsdp(fields, section, origin)
        return ()
    else:
        options = _fsdp_options(config, _fsdp_section(fields, config))
    fsdp.apply_fsdp(fields, options, origin)
    if fields.get("parallelism.fsdp.wrap") == "none" and config.context.repository.wraps_models():
        reason = "the repository's code wraps models in FSDP itself, which takes a policy"
        fields.infer("parallelism.fsdp.wrap", "transformer", reason)
    return _without_none(launcher)


def _gives_plugin(start: Start | None) -> bool:
    """Whether a loop gives its Accelerator a plug-in of FSDP that is not read: it stands over what a launcher says
    (accelerate 1.15 accelerator.py, Accelerator.__init__; utils/dataclasses.py, FullyShardedDataParallelPlugin)."""
    return is_loop(start) and start is not None and ("fsdp",) in start.values.unknown


def read_loading(fields: Fields, start: Start | None) -> None:
    """Weights that ZeRO-3 divides only after the whole model is on each GPU: a script loads it too early."""
    if start is not None and start.program.loads_before_engine and fields.get("parallelism.zero.stage") == 3:
        reason = "the script loads the model before it makes its training arguments, so zero.Init does not divide it"
        fields.infer("parallelism.zero.shards_on_load", False, reason)


def _without_none(*sections: Section | None) -> tuple[Section, ...]:
    return tuple(section for section in sections if section is not None)


def _single_or_ddp(fields: Fields, start: Start | None) -> None:
    """Nothing shards the run. That is certain where a script shows the launch and the program's own flags are known;
    `accelerate launch` may still read a file of the user's."""
    world = fields.get("parallelism.world_size")
    unknown = start.values.unknown if start is not None else {}
    reason = unknown.get(("fsdp",), "") or unknown.get(("deepspeed",), "")
    if reason:
        fields.unknown("parallelism.engine", reason)
        return
    several = isinstance(world, int) and world > 1
    if spreads_layers(start):
        fields.put("parallelism.engine", "single", _DEVICE_MAP)
        return
    if start is not None and start.program.engine:
        engine = start.program.engine
        fields.put("parallelism.engine", engine, Origin("framework", detail="what the loop itself sets up"))
        return
    engine = "ddp" if several else "single"
    if start is not None and start.accepted.defined and isinstance(world, int) and start.launcher != "accelerate":
        fields.put("parallelism.engine", engine, Origin("framework", detail=f"{start.launcher}, and no flag shards it"))
    else:
        fields.infer("parallelism.engine", engine, f"Trainer on {world or 'one'} GPU(s), nothing else said")


def spreads_layers(start: Start | None) -> bool:
    """Whether one process puts its model's layers on all GPUs: launchers of several refuse such a model (accelerate
    1.15 accelerator.py, prepare_model: "in any distributed mode")."""
    return start is not None and start.program.spreads_layers and start.launcher in _ONE_PROCESS


_REFUSES_SPREAD_LAYERS = (0, 22)


def refused_device_map(fields: Fields, config: TrainerConfig) -> Iterator[Issue]:
    """A model whose layers are on all GPUs, in several processes (accelerate 0.22.0 and 1.15.0 accelerator.py,
    prepare_model and verify_device_map). Unsloth puts it on the process's own card then (2026.3.4 models/loader.py,
    prepare_device_map)."""
    start = config.section.document.start
    world = fields.values.get("parallelism.started_processes") or fields.get("parallelism.world_size")
    if start is None or not start.program.device_map or start.launcher in _ONE_PROCESS or is_loop(start):
        return
    if config.is_on("use_unsloth"):
        return
    release = config.context.versions.get("accelerate")
    if isinstance(world, int) and world > 1 and (not release or release >= _REFUSES_SPREAD_LAYERS):
        word = f'`device_map="{start.program.device_map}"` of {start.program.entry}'
        message = f"{word} puts the model's layers on all GPUs: accelerate raises ValueError in {world} processes"
        yield config.section.issue("conflict", message)


def read_spread_layers(fields: Fields) -> Iterator[Reading]:
    """Where `device_map` spreads the layers: how much each GPU holds is not modelled, at most the whole model."""
    if fields.origins.get("parallelism.engine") is not _DEVICE_MAP or fields.get("parallelism.world_size") == 1:
        return
    if "hardware.gpu" not in fields.values:
        return  # no verdict to take back
    changes = (("stack.unmodelled", "training with the layers spread over the GPUs (`device_map`)"),)
    given = (("parallelism.engine", "single"),)
    label, itself = "with its layers spread over all GPUs", "whole on one GPU"
    reason = "`device_map` spreads the layers over all GPUs"
    yield Reading(reason, label, itself, changes, given, only_where_over=True)


def _deepspeed(fields: Fields, config: TrainerConfig) -> Section | None:
    """`deepspeed`: a path, or the configuration itself."""
    value = config.section.value.get("deepspeed")
    if isinstance(value, dict) and value:
        return config.section.below("deepspeed")
    if value is True and config.section.document.start is not None:  # deepspeed 0.19.8 __init__.py:611: a switch
        fields.put("parallelism.engine", "deepspeed", config.section.origin("deepspeed"))
        fields.unknown("parallelism.zero.stage", _OF_THE_PROGRAM)
        return None
    if not isinstance(value, str) or not value.strip() or _is_worked_out(config, "deepspeed"):
        return None
    found = config.context.read(value, config.section.document.path)
    if isinstance(found, MissingFile):
        pointer = (*config.section.pointer, "deepspeed")
        fields.issues.append(reference_issue(found, config.section.document, pointer))
        fields.put("parallelism.engine", "deepspeed", config.section.origin("deepspeed"))
        fields.unknown("parallelism.zero.stage", f"{found.message}: the DeepSpeed file says it")
        return None
    if _is_of_a_command(found):
        fields.put("parallelism.engine", "deepspeed", config.section.origin("deepspeed"))
        fields.unknown("parallelism.zero.stage", f"what the script writes into `{value}` is not known")
        return None
    message = not_deepspeed(found, value)
    if message:
        fields.issues.append(config.section.issue("wrong-companion", message, "deepspeed"))
        return None
    return root(deepspeed_file.as_read(found), "companion")


def _is_of_a_command(found: Document) -> bool:
    """Whether a file is what a command of the script prints into it (`sed ... > ds.json`), which nobody knows."""
    whole = found.value
    return is_placeholder(whole) or (isinstance(whole, str) and whole.startswith("$("))


def _is_worked_out(config: TrainerConfig, key: str) -> bool:
    """Whether the program that a command starts works the argument out: the command names no file."""
    start = config.section.document.start
    return start is not None and (key,) in start.values.unknown and config.section.value.get(key) == f"${{{key}}}"


def _wants_fsdp(config: TrainerConfig) -> bool:
    """`fsdp: true`, `fsdp: full_shard auto_wrap` or a list of options; empty and false mean no."""
    value = config.section.value.get("fsdp")
    return bool(value) and as_bool(value) is not False and value not in ([], [""])


def _fsdp_section(fields: Fields, config: TrainerConfig) -> Section:
    """`fsdp_config`: a mapping, or a JSON file's."""
    value = config.section.value.get("fsdp_config")
    if isinstance(value, str) and value.strip():
        found = config.context.read(value, config.section.document.path)
        if isinstance(found, MissingFile):
            pointer = (*config.section.pointer, "fsdp_config")
            fields.issues.append(reference_issue(found, config.section.document, pointer))
        elif isinstance(found.value, dict):
            return root(found, "companion")
    return config.section.below("fsdp_config")


def _plugin_options(section: Section, launcher: Section | None) -> fsdp.FsdpOptions:
    """Options of accelerate's plug-in in a program; what it leaves open is the launcher's."""
    said = launcher.below("fsdp_config").value if launcher is not None else {}
    defaults = {**fsdp.LAUNCH_DEFAULTS, **{str(key).removeprefix("fsdp_"): value for key, value in said.items()}}
    return fsdp.FsdpOptions(section, defaults, "accelerate's launcher")


def _fsdp_options(config: TrainerConfig, section: Section) -> fsdp.FsdpOptions:
    """Options under the words of a legacy `fsdp` string (training_args.py:_apply_legacy_fsdp_to_config)."""
    value = config.section.value.get("fsdp")
    words = value.split() if isinstance(value, str) else as_words(value)
    source = f"transformers {'.'.join(map(str, config.transformers))} TrainingArguments.fsdp_config"
    options = fsdp.trainer_options(section, words, config.transformers, source)
    for word in words:
        if word in ("full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2", "no_shard"):
            options.defaults["reshard_after_forward"] = word == "full_shard" if options.version() == 2 else word
    return options
