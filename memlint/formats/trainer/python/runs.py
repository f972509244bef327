"""Training runs of a script: follows its code, nothing of which is executed, and makes a run of each trainer.

A script goes in:

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
    SFTTrainer(model, args=SFTConfig(max_length=2048))

Its runs come out, here one whose keys are those of a config for TRL: `model_name_or_path`, `dtype`, `max_length`.

`follow_script` finds each call of a library that the code reaches, in the order in which they run (`calls`, below). The
trainers are among them, and what the other calls say of a run is one module each: `trainer_call` (its arguments),
`model`, `other_models`, `lengths`, `frozen`, `unmodelled` (what no key says) and `taken` (the releases that accept it).
A script without a trainer may have a loop of its own (`loop`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from memlint.formats.trainer.python.embeddings import OF_EMBEDDINGS, loss_over_batch, texts_per_sample
from memlint.formats.trainer.python.frozen import BESIDE_ADAPTER, frozen_parts, trains_beside_adapter
from memlint.formats.trainer.python.images import takes_texts_alone
from memlint.formats.trainer.python.lengths import (
    beside_the_command,
    fills,
    length_of_dataset,
    lengths_of,
    lengths_of_calls,
    lengths_of_options,
    lengths_of_sides,
    truncates,
    writes_targets,
)
from memlint.formats.trainer.python.libraries import (
    ASKS_FOR_CARD,
    CHECKPOINTS,
    CONSTANTS,
    LIBRARIES,
    MODEL_ARGUMENT_NAME,
    TRAINS,
)
from memlint.formats.trainer.python.load_order import loads_before_engine
from memlint.formats.trainer.python.loop import GENERATES, is_prepared, loop_of
from memlint.formats.trainer.python.loop_batch import of_own_loader
from memlint.formats.trainer.python.model import (
    STANDBY,
    Keys,
    adapter_keys,
    loading_call,
    model_keys,
    spreading_device_map,
    spreads_layers,
)
from memlint.formats.trainer.python.other_models import keys_of_others
from memlint.formats.trainer.python.own_optimizer import own_optimizer
from memlint.formats.trainer.python.python_run import TRANSFORMERS, TRL, PythonRun
from memlint.formats.trainer.python.refused import refused_arguments
from memlint.formats.trainer.python.swift_calls import swift_runs
from memlint.formats.trainer.python.taken import ASKS_FOR_FIELDS, TAKES_WHAT_IT_ASKS, newest, no_release, outdated
from memlint.formats.trainer.python.trained_before import going_on
from memlint.formats.trainer.python.trainer_call import (
    argument_keys,
    argument_values,
    arguments_of,
    is_trainer,
    model_of,
    trains_by_itself,
)
from memlint.formats.trainer.python.unmodelled import divides_sequences, extends_language_model, unmodelled_features
from memlint.source.document import StartedProgram
from memlint.source.python.follow import asks_modal, follow_script
from memlint.source.python.members import OBJECT
from memlint.source.python.reader import BARE, CommandLine, ScriptFiles
from memlint.source.python.text import SourceText
from memlint.source.python.values import (
    Either,
    Instance,
    Known,
    Made,
    PythonFunction,
    Table,
    Undetermined,
    Value,
    either,
    is_on,
    source_of,
)

MAX_RUNS = 32  # of one script
# Arguments of the trainers themselves that older releases of trl had beside the configuration (trl 0.12), as far as
# they decide about memory.
_TRAINER_ARGUMENTS = ("max_seq_length", "packing", "dataset_text_field", "max_length", "beta")
_LENGTHS = frozenset({"max_length", "max_seq_length"})
_SEVERAL_LENGTHS = "several lengths are tokenized to"
# A branch that shards the model: where no command is known, an option may have taken it.
_SHARDS = re.compile(r"\b(?:FSDP|FullyShardedDataParallel|fully_shard)\(")
# `os.environ["UNSLOTH_VLLM_STANDBY"] = "1"` (unsloth_zoo 2026.8 vllm_utils.py, load_vllm).
_STANDBY = re.compile(r"""^\s*os\.environ\[["']UNSLOTH_VLLM_STANDBY["']\]\s*=\s*["']?[^"'0]""", re.MULTILINE)
# `os.environ["CUDA_VISIBLE_DEVICES"] = "-1"`: the program sees no card.
_NO_CARD = re.compile(r"""^os\.environ\[["']CUDA_VISIBLE_DEVICES["']\]\s*=\s*["'](?:-1)?["']""", re.MULTILINE)

# `os.environ["CUDA_VISIBLE_DEVICES"] = "0"`: it sees one card, whatever the machine has.
_CARDS = re.compile(r"""^os\.environ\[["']CUDA_VISIBLE_DEVICES["']\]\s*=\s*["']([^"']*)["']""", re.MULTILINE)


def runs_of(script: SourceText, files: ScriptFiles, command: CommandLine = BARE) -> tuple[PythonRun, ...]:
    """The runs that `script` starts, in its order. `command`: how it is started."""
    calls: list[Made] = []
    follow_script(script, files, calls.append, LIBRARIES, CONSTANTS, command)
    of_swift = swift_runs(calls)[:MAX_RUNS]
    if of_swift:
        return tuple(of_swift)
    trainers = [made for made in calls if is_trainer(made)][:MAX_RUNS]
    if trainers:
        trained = [one for one in trainers if trains_by_itself(one)]
        runs = going_on((one, _run_of_trainer(one, calls, script.text)) for one in trained)
    else:
        runs = _run_of_loop(calls, script, command)
    if trainers and _NO_CARD.search(script.text):
        runs = list(map(_on_the_cpu, runs))
    asks = any(made.name == ASKS_FOR_CARD for made in calls)
    gpus = _workers_of_ray(calls) or _lone_card(script.text)
    return tuple(
        run._replace(asks_for_card=asks, gpus=run.gpus or gpus, asked_of_modal=_asked_of_modal(run, calls))
        for run in runs
    )


def _asked_of_modal(run: PythonRun, calls: Sequence[Made]) -> Made | None:
    """The decorator `@app.function(gpu="H100")` that was read last before the trainer was made."""
    before = list(takewhile(lambda made: made.source != run.source, calls))
    return next(filter(asks_modal, reversed(before)), None)


def _lone_card(text: str) -> int:
    """1 where a script itself says that it sees one card, else 0."""
    said = _CARDS.findall(text)
    return 1 if said and all(re.fullmatch(r"\d+", cards) for cards in said) else 0


def _workers_of_ray(calls: list[Made]) -> int:
    """The GPUs of `TorchTrainer(..., scaling_config=ScalingConfig(num_workers=4, use_gpu=True))`: one for each worker
    unless it asks for others (ray 2.50 air/config.py, ScalingConfig); 0 where that is not said."""
    trainer = next((made for made in calls if made.last == "TorchTrainer"), None)
    scaling = trainer.arguments.get("scaling_config") if trainer is not None else None
    if not isinstance(scaling, Made) or "resources_per_worker" in scaling.arguments:
        return 0
    workers = scaling.arguments.get("num_workers") or next(iter(scaling.positional), None)
    is_number = isinstance(workers, Known) and isinstance(workers.value, int)
    uses = scaling.arguments.get("use_gpu")
    return int(workers.value) if is_number and is_on(uses) else 0  # type: ignore[union-attr, arg-type]


def _run_of_loop(calls: list[Made], script: SourceText, command: CommandLine) -> list[PythonRun]:
    """The run of a script's own training loop; empty without one."""
    loaders = [made for made in calls if made.last == "DataLoader"]
    own = next((length for one in loaders for length in map(length_of_dataset, one.positional[:1]) if length), [])
    of_loader = of_own_loader(calls)[1]
    lengths = own or lengths_of(calls) or ([of_loader] if of_loader is not None else [])
    lengths = lengths or lengths_of_calls(calls) or lengths_of_options(calls)
    loop = loop_of(calls, beside_the_command(lengths, calls), script.text)
    if loop is None:
        return []
    divided = divides_sequences(calls)
    unmodelled = loop.unmodelled or _other_loss(script.path) or divided
    may_shard = not command.is_given and _SHARDS.search(script.text) is not None
    program = StartedProgram(
        unmodelled=unmodelled,
        model_state="all" if unmodelled and unmodelled in (GENERATES, divided) else loop.model_state,
        loads_model=True,
        quantized_preparation=_preparation(loop.prepares_quantized, script.text),
        frozen=loop.frozen,
        engine="" if may_shard else loop.engine,
        whole_copies=loop.whole_copies,
        loads_before_engine=loop.loads_before_engine,
        spreads_layers=loop.spreads_layers,
        refused=refused_arguments(calls, script.text),
    )
    run = PythonRun("", "", loop.keys, loop.source, program)
    return [run._replace(gpus=loop.gpus, gpus_per_node=loop.gpus_per_node)]


def _on_the_cpu(run: PythonRun) -> PythonRun:
    return run._replace(keys={**run.keys, "use_cpu": Known(True, run.source)})


_OTHER_LOSS = re.compile(r"(?:^|[_./-])(dpo|ppo|grpo|rloo|orpo|kto|simpo|rlhf|reward)(?=[_./-])")


def _other_loss(path: str) -> str:
    """A loop whose file is called after another loss than the next token's; "" for others."""
    found = _OTHER_LOSS.search(path.rpartition("/")[2].lower())
    return f"a loop of its own for {found[1]}" if found else ""


def _run_of_trainer(trainer: Made, calls: list[Made], text: str) -> PythonRun:
    """The run of a trainer. `calls`: all calls of the script; `text`: its code."""
    arguments, model = arguments_of(trainer), model_of(trainer)
    # TRL's trainers before 0.13 take `model_init_kwargs` themselves (0.12.2 trainer/sft_trainer.py:143).
    loaded_with = trainer.arguments.get("model_init_kwargs") or argument_values(arguments).get("model_init_kwargs")
    name, own = _own_arguments(arguments, model)
    keys = _keys_of(trainer, model, loaded_with, own)
    keys |= _length_keys(trainer, keys, calls)
    keys |= _keys_by_pattern(keys, trainer, text)
    if isinstance(model, Undetermined):  # how it is loaded, and what is added to it, is not seen
        keys["dtype"] = model
    unsure, frozen = _what_trains(keys, model, calls, text)
    unmodelled, state = unmodelled_features(trainer, model, calls, own)
    program = _program_of_trainer(trainer, calls, text)._replace(
        unmodelled=unmodelled,
        model_state=state,
        frozen=frozen,
        spreads_layers=model is not None and spreads_layers(_by_name(model, loaded_with)),
    )
    return PythonRun(
        trainer=trainer.last,
        arguments=name,
        keys=keys | unsure,
        source=trainer.source,
        program=_with_releases(program, trainer, calls, text, "use_unsloth" in keys),
        arguments_call=arguments.source.span if isinstance(arguments, Made) else None,
        loading_call=loading_call(model),
        set_later=frozenset(arguments.attributes) if isinstance(arguments, Made) else frozenset(),
    )


def _keys_by_pattern(keys: Keys, trainer: Made, text: str) -> Keys:
    """Keys that the code changes in a way that is told by its text alone."""
    found: Keys = {}
    if _MULTIPLIES_BATCH.search(text):
        found["per_device_train_batch_size"] = Undetermined(_SPLITS_BATCH, trainer.source)
    if "fast_inference" in keys and _STANDBY.search(text):
        found[STANDBY] = Known(True, trainer.source)
    return found


def _program_of_trainer(trainer: Made, calls: list[Made], text: str) -> StartedProgram:
    """What the trainer's call and the script's other calls show of the run, beside its keys and what trains."""
    model = model_of(trainer)
    texts, compares = texts_per_sample(trainer) if trainer.last in OF_EMBEDDINGS else (0, "")
    return StartedProgram(
        loads_model=not isinstance(model, Known),
        is_plain_trainer=OBJECT not in trainer.attributes,
        quantized_preparation=_preparation(model is not None and is_prepared(calls, model), text),
        gives_reference=isinstance(trainer.arguments.get("ref_model"), Made),
        keeps_logits=_keeps_logits(trainer, arguments_of(trainer)),
        takes_texts_alone=takes_texts_alone(trainer, calls),
        evaluates_nothing=_evaluates_nothing(trainer),
        texts_per_sample=texts,
        compares_texts=compares,
        compares_samples=loss_over_batch(trainer),
        cuts_nothing=_cuts_nothing(trainer, calls),
        fills_length=trainer.last in TRANSFORMERS and fills(calls),
        device_map=spreading_device_map(model) if model is not None else "",
        loads_before_engine=model is not None and loads_before_engine(model, calls),
        trainer_call=_call_of(trainer, calls),
    )


# A program that makes one batch of those that are accumulated has a trainer that splits it again before the forward.
_MULTIPLIES_BATCH = re.compile(
    r"per_device_train_batch_size\s*(?:\*=|=\s*[\w.]*per_device_train_batch_size\s*\*)\s*[\w.]*gradient_accumulation_steps"
)
_SPLITS_BATCH = "the program multiplies it by `gradient_accumulation_steps`, and its trainer splits the batch again"


def _with_releases(
    program: StartedProgram, trainer: Made, calls: list[Made], text: str, has_unsloth: bool
) -> StartedProgram:
    """`program` with the releases that accept what the trainer is given. Unsloth translates older arguments, and a
    script that asks what a release takes gives it nothing else."""
    if has_unsloth:
        return program
    arguments = arguments_of(trainer)
    framework = "trl" if trainer.last in TRL else "transformers" if trainer.last in TRANSFORMERS else ""
    if TAKES_WHAT_IT_ASKS.search(text) is not None:
        asks = ASKS_FOR_FIELDS.search(text) is not None
        return program._replace(newest=newest(trainer, framework, arguments, calls, ()), asks_for_fields=asks)
    gone = outdated(trainer, framework)
    return program._replace(
        newest=newest(trainer, framework, arguments, calls, gone),
        outdated=gone,
        refused=refused_arguments(calls, text),
        no_release=no_release(trainer, arguments),
    )


def _own_arguments(arguments: Value | None, model: Value | None) -> tuple[str, Keys]:
    """The class of the trainer's arguments and what they say; not the model's name where it was loaded before."""
    name, own = argument_keys(arguments)
    if isinstance(model, (Made, Either)):
        own = {key: value for key, value in own.items() if not MODEL_ARGUMENT_NAME.match(key)}
    return name, own


def _keys_of(trainer: Made, model: Value | None, loaded_with: Value | None, own: Keys) -> Keys:
    """What the calls of the model, the adapter, the trainer and its arguments say; the later ones count."""
    adapter = trainer.arguments.get("peft_config")
    keys: Keys = {
        **(_model_of_trainer(model, loaded_with) if model is not None else {}),
        **(adapter_keys(adapter) if adapter is not None else {}),
        **keys_of_others(trainer),
    }
    checkpoints = keys.pop(CHECKPOINTS, None)
    has_unsloth = "use_unsloth" in keys
    for given in (_of_trainer(trainer), own):
        keys |= _as_unsloth_reads(given) if has_unsloth else given
    if checkpoints is not None and not is_on(keys.get(CHECKPOINTS)):
        keys[CHECKPOINTS] = checkpoints
    if isinstance(model, Known) and isinstance(loaded_with, Table) and not loaded_with.is_open:
        keys.pop("model_init_kwargs", None)  # the model's keys say what stands in it
    return {**keys, **own_optimizer(trainer)}


def _length_keys(trainer: Made, keys: Keys, calls: list[Made]) -> Keys:
    """The length that the script tokenizes to, where its trainer cuts nothing itself: one of transformers, or TRL's
    beside a collator of the script's own."""
    if _LENGTHS & keys.keys():
        return _doubted_by_collator(trainer, keys)
    lengths = lengths_of(calls)
    if "model_max_length" not in keys:
        lengths = lengths or lengths_of_calls(calls) or lengths_of_options(calls)
    lengths = beside_the_command(lengths, calls)
    if trainer.last in TRANSFORMERS:
        return _tokenized(trainer, lengths, calls) if lengths else {}
    if "use_unsloth" in keys or not _collates(trainer):
        return {}
    unknown = Undetermined("the script's own collator makes the batches, and nothing is cut before")
    return {"max_length": either(lengths, _SEVERAL_LENGTHS) if lengths else unknown}


_BOUNDS = ("max_length", "max_seq_length", "max_seq_len", "max_len", "block_size", "cutoff_len")


def _doubted_by_collator(trainer: Made, keys: Keys) -> Keys:
    """The trainer's length as unknown, where a collator of the script's own keeps a lower one: it may cut samples."""
    collator = trainer.arguments.get("data_collator")
    kept = collator.attributes if isinstance(collator, Instance) else {}
    bounds = [one.value for one in map(kept.get, _BOUNDS) if isinstance(one, Known) and isinstance(one.value, int)]
    given = {name: value.value for name, value in keys.items() if name in _LENGTHS and isinstance(value, Known)}
    reason = f"the script's own collator may cut samples to {min(bounds, default=0)}"
    is_lower = (isinstance(length, int) and min(bounds) < length for length in given.values())
    return dict.fromkeys(given, Undetermined(reason, trainer.source)) if bounds and any(is_lower) else {}


def _tokenized(trainer: Made, lengths: list[Value], calls: list[Made]) -> Keys:
    """The lengths of the samples of transformers' trainer, of prompts and targets apart where the model is an
    encoder-decoder. `lengths`: those of the whole script."""
    model = model_of(trainer)
    sides = lengths_of_sides(calls) if model is not None and writes_targets(model) else {}
    lengths = length_of_dataset(trainer.arguments.get("train_dataset")) or lengths
    return sides or {"max_length": either(lengths, _SEVERAL_LENGTHS)}


def _what_trains(
    keys: Keys, model: Value | None, calls: list[Made], text: str
) -> tuple[Keys, tuple[tuple[str, bool], ...]]:
    """(why nobody can say what trains, under `use_peft`; the parts that the script freezes, as in `PythonRun`)."""
    if "use_peft" in keys:
        is_beside = model is not None and trains_beside_adapter(calls, model, text)
        return ({"use_peft": Undetermined(BESIDE_ADAPTER)} if is_beside else {}), ()
    if isinstance(model, Undetermined):
        return {"use_peft": model}, ()
    frozen = frozen_parts(calls, model) if model is not None else ()
    if isinstance(frozen, Undetermined):
        return {"use_peft": frozen}, ()
    if extends_language_model(model):
        return {"use_peft": Undetermined("a class of the repository may freeze parts of itself")}, frozen
    return {}, frozen


def _cuts_nothing(trainer: Made, calls: list[Made]) -> bool:
    """`StartedProgram.cuts_nothing`; sentence-transformers cuts at the model's limit alone, which few texts reach."""
    return trainer.last in OF_EMBEDDINGS or (trainer.last in TRANSFORMERS and not any(map(truncates, calls)))


def _collates(trainer: Made) -> bool:
    """Whether TRL's trainer leaves the data as they are, so that a collator of the script's own alone decides about
    lengths (trl 1.16 trainer/sft_trainer.py:1252 and 1571: samples are cut where the data set is prepared)."""
    given = argument_values(arguments_of(trainer)).get("dataset_kwargs")
    skips = isinstance(given, Table) and is_on(given.values.get("skip_prepare_dataset"))
    own = isinstance(trainer.arguments.get("data_collator"), (PythonFunction, Instance))
    return trainer.last == "SFTTrainer" and skips and own


def _call_of(trainer: Made, calls: list[Made]) -> str:
    """`StartedProgram.trainer_call`. The trainer never asks the flags of its arguments, a script may (transformers 5.23
    training_args.py, do_train: "intended to be used by your training/evaluation scripts")."""
    calls = [made for made in calls if isinstance(made.base, Made) and made.base.source == trainer.source]
    trains = [made.arguments["is_certain"] for made in calls if made.name == TRAINS]
    if trains:
        return "train" if any(map(is_on, trains)) else ""
    asked = {made.last for made in calls}
    return next((name for name in ("predict", "evaluate") if name in asked), "")


# Scripts after qlora.py (artidoro/qlora, get_accelerate_model): `if "lm_head" in name or "embed_tokens" in name:
# ... module.to(torch.bfloat16)`, and adapters likewise, where `bf16` is on.
_CASTS_BACK = re.compile(
    r"""["'](?:lm_head|embed_tokens)["'] in \w+.{1,400}?\.to\((?:dtype=)?torch\.bfloat16\)""", re.DOTALL
)


def _preparation(is_prepared: bool, text: str) -> str:
    """`StartedProgram.quantized_preparation` of a script with this text."""
    if not is_prepared:
        return ""
    return "qlora" if _CASTS_BACK.search(text) is not None else "peft"


def _model_of_trainer(model: Value, given: Value | None) -> Keys:
    """The keys of a trainer's model. `given`: its `model_init_kwargs`."""
    keys = model_keys(_by_name(model, given))
    if isinstance(model, Known) and given is not None and not isinstance(given, (Known, Table)):
        reason = Undetermined("`model_init_kwargs` may say it", source_of(given))
        keys = {**dict.fromkeys(("dtype", "attn_implementation", "load_in_4bit"), reason), **keys}
    return keys


_EVALUATES_LOGITS = frozenset({*TRANSFORMERS, "SFTTrainer"})


def _keeps_logits(trainer: Made, arguments: Value | None) -> bool:
    """Whether evaluation keeps the logits of all samples: metrics are computed from them, and nothing makes them
    smaller before (transformers 5.23 trainer.py:3011-3015)."""
    metrics, smaller = (trainer.arguments.get(name) for name in ("compute_metrics", "preprocess_logits_for_metrics"))
    is_given = isinstance(metrics, (PythonFunction, Made, Instance))
    is_whole = smaller is None or (isinstance(smaller, Known) and smaller.value is None)
    by_batch = "batch_eval_metrics" in argument_values(arguments)
    return trainer.last in _EVALUATES_LOGITS and is_given and is_whole and not by_batch


def _evaluates_nothing(trainer: Made) -> bool:
    """Whether a trainer of transformers or TRL gets no data to evaluate on, whatever its arguments say (transformers
    5.23 trainer.py, get_eval_dataloader). Arguments that are not seen may hold them."""
    data = trainer.arguments.get("eval_dataset")
    is_none = data is None or (isinstance(data, Known) and data.value is None)
    return trainer.last in TRANSFORMERS | TRL and is_none and not trainer.is_open and len(trainer.positional) <= 4


def _by_name(model: Value, given: Value | None) -> Value:
    """A model that TRL loads by its name with `model_init_kwargs` (trl 1.16 trainer/grpo_trainer.py, __init__)."""
    if not isinstance(model, Known) or not isinstance(given, Table):
        return model
    named = {str(name): value for name, value in given.values.items()}
    return Made("AutoModelForCausalLM.from_pretrained", (model,), named, model.source, None, given.is_open)


def _of_trainer(trainer: Made) -> Keys:
    """The trainer's own arguments."""
    return {name: trainer.arguments[name] for name in _TRAINER_ARGUMENTS if name in trainer.arguments}


def _as_unsloth_reads(keys: Keys) -> Keys:
    """Unsloth's trainers and their configurations still take `max_seq_length`, which trl has renamed, and make it
    `max_length` (unsloth 2026.3.4 models/rl.py:845-853 and 1095)."""
    return {"max_length" if name == "max_seq_length" else name: value for name, value in keys.items()}
