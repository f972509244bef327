"""Training runs of a script: each trainer that it makes, with its arguments, its model and its adapter as keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memlint._record import NamedTuple
from memlint.formats.trainer.python.embeddings import OF_EMBEDDINGS, other_than_texts, texts_per_sample
from memlint.formats.trainer.python.frozen import BESIDE_ADAPTER, frozen_parts, trains_beside_adapter
from memlint.formats.trainer.python.lengths import (
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
    CONVERTED,
    FROM_COMMAND_LINE,
    LIBRARIES,
    MAY_BE_PASSED,
    MODEL_ARGUMENT_NAME,
    TRAINS,
)
from memlint.formats.trainer.python.loop import GENERATES, is_prepared, loop_of
from memlint.formats.trainer.python.model import (
    STANDBY,
    Keys,
    adapter_keys,
    class_of,
    is_unbound,
    merged,
    model_keys,
    origin_of,
    origins_of,
    spreads_layers,
)
from memlint.formats.trainer.python.other_models import (
    handed_over,
    keys_of_others,
    reinforces,
    unmodelled_others,
)
from memlint.formats.trainer.python.taken import TAKES_WHAT_IT_ASKS, newest, no_release, outdated
from memlint.formats.versions import Version
from memlint.source.document import NoRelease, OutdatedArguments, Span, StartedProgram
from memlint.source.python.classes import external_bases
from memlint.source.python.follow import follow_script
from memlint.source.python.methods import LIBRARY_CLASSES, OWN_CLASS
from memlint.source.python.reader import BARE, CommandLine, ScriptFiles
from memlint.source.python.text import SourceText
from memlint.source.python.values import (
    Either,
    External,
    Instance,
    Items,
    Known,
    Made,
    PythonFunction,
    Table,
    Undetermined,
    Value,
    ValueSource,
    alternatives,
    either,
    is_on,
    source_of,
)

_OTHER_MODELS = ("ref_model", "reference_model", "teacher_model", "teacher", "reward_model", "draft_model", "critic")
MAX_RUNS = 32  # of one script
# trl 1.16.0, of XPO and Nash-MD 1.13.0: where the arguments stand, counted from 0; the second unless said.
_POSITION_OF_ARGUMENTS: Mapping[str, int] = {
    **dict.fromkeys(("DPOTrainer", "GRPOTrainer", "RLOOTrainer", "KTOTrainer", "GKDTrainer"), 2),
    **dict.fromkeys(("OnlineDPOTrainer", "XPOTrainer", "NashMDTrainer"), 3),
}
_TRL = frozenset(
    {
        *("SFTTrainer", "DPOTrainer", "KTOTrainer", "ORPOTrainer", "CPOTrainer", "GRPOTrainer", "RLOOTrainer"),
        *("RewardTrainer", "PPOTrainer", "OnlineDPOTrainer", "GKDTrainer", "PRMTrainer", "BCOTrainer"),
        *("XPOTrainer", "NashMDTrainer"),
    }
)
_TRANSFORMERS = frozenset({"Trainer", "Seq2SeqTrainer", "UnslothTrainer"})
# optimum-habana 1.18, optimum-neuron 0.3 and optimum-tpu 0.2 train on Gaudi, Trainium and TPUs alone.
_OF_OTHER_ACCELERATORS = ("optimum.habana.", "optimum.neuron.", "optimum.tpu.")
# Arguments of the trainers themselves that older releases of trl had beside the configuration (trl 0.12), as far as
# they decide about memory.
_TRAINER_ARGUMENTS = ("max_seq_length", "packing", "dataset_text_field", "max_length", "beta")
LOOP = "loop"  # in place of a class of arguments: a training loop of the script's own
_IGNORED = frozenset({"self", "output_dir", "logging_dir", "hub_token", "processing_class", "tokenizer"})


_TASKS: Mapping[str, str] = {
    "SFTTrainer": "sft",
    "DPOTrainer": "dpo",
    "KTOTrainer": "kto",
    "ORPOTrainer": "orpo",
    "CPOTrainer": "cpo",
    "GRPOTrainer": "grpo",
    "RewardTrainer": "rm",
    "PPOTrainer": "ppo",
    "RLOOTrainer": "rloo",
    "OnlineDPOTrainer": "online_dpo",
    "GKDTrainer": "gkd",
    "XPOTrainer": "xpo",
    "NashMDTrainer": "nash_md",
    "Trainer": "sft",
    "Seq2SeqTrainer": "sft",
}


class PythonRun(NamedTuple):
    """One trainer that a script makes. `trainer` and `arguments`: the classes' names, "" of a loop of the script's own;
    `source`: the call.

    `loads_model`: the script loads the model itself; a trainer of TRL that gets a name has defaults of its own.
    """

    trainer: str
    arguments: str
    keys: Mapping[str, Value]
    source: ValueSource
    loads_model: bool = False
    arguments_call: Span | None = None  # where the training arguments are made
    unmodelled: str = ""  # what the script does that no key says
    model_state: str = ""  # what that leaves of weights, gradients and optimizer states: "" (who knows), all, headless
    # By framework, the newest release that takes what is given: (0, 15), "tokenizer".
    newest: Mapping[str, tuple[Version, str]] = {}
    quantized_preparation: str = ""  # `StartedProgram.quantized_preparation`
    spreads_layers: bool = False  # `device_map` puts layers of the one model on all GPUs that the script sees
    set_later: frozenset[str] = frozenset()  # arguments that are set after the call that makes and checks them
    asks_for_card: bool = False  # the script asks for its card's compute capability
    trainer_call: str = ""  # `StartedProgram.trainer_call`
    frozen: tuple[tuple[str, bool], ...] = ()  # `StartedProgram.frozen`
    engine: str = ""  # `StartedProgram.engine`
    keeps_logits: bool = False  # `StartedProgram.keeps_logits`
    cuts_nothing: bool = False  # `StartedProgram.cuts_nothing`
    fills_length: bool = False  # `StartedProgram.fills_length`
    texts_per_sample: int = 0  # `StartedProgram.texts_per_sample`
    compares_texts: str = ""  # `StartedProgram.compares_texts`
    outdated: tuple[OutdatedArguments, ...] = ()  # of the trainer itself
    no_release: NoRelease | None = None  # `StartedProgram.no_release`

    @property
    def framework(self) -> str:
        """Whose trainer it is: "trl", "transformers", or "torch" for a loop of the script's own."""
        if not self.trainer:
            return "torch"
        of_transformers = self.trainer in ("Trainer", "Seq2SeqTrainer") or self.trainer in OF_EMBEDDINGS
        return "transformers" if of_transformers else "trl"

    @property
    def has_plain_arguments(self) -> bool:
        """Whether a trainer of TRL gets transformers' arguments. It makes its own class of all their values, so what
        they leave at transformers' default is not at TRL's (trl 0.16.1 to 1.16.0 sft_trainer.py: `args.to_dict()`)."""
        return self.framework == "trl" and self.arguments in ("TrainingArguments", "Seq2SeqTrainingArguments")

    @property
    def arguments_class(self) -> str:
        """The class of TRL or transformers whose arguments the trainer takes; `LOOP` of a loop of the script's own."""
        if not self.trainer:
            return LOOP
        kind = self.trainer.removesuffix("Trainer")
        if self.framework == "transformers":
            return f"{kind}TrainingArguments"
        return f"{kind}Config" if self.trainer in _TRL else "SFTConfig"

    @property
    def task(self) -> str:
        """What the trainer trains: sft, dpo, ...; "" where its name does not say."""
        return _TASKS.get(self.trainer, "")

    def started(self, entry: str) -> StartedProgram:
        """What the run says of the program, whose path or command is `entry`."""
        return StartedProgram(
            entry,
            self.framework,
            task=self.task,
            unmodelled=self.unmodelled,
            model_state=self.model_state,
            loads_model=self.loads_model,
            has_plain_arguments=self.has_plain_arguments,
            newest=self.newest,
            outdated=self.outdated,
            no_release=self.no_release,
            quantized_preparation=self.quantized_preparation,
            frozen=self.frozen,
            engine=self.engine,
            keeps_logits=self.keeps_logits,
            texts_per_sample=self.texts_per_sample,
            compares_texts=self.compares_texts,
            cuts_nothing=self.cuts_nothing,
            fills_length=self.fills_length,
            spreads_layers=self.spreads_layers,
            trainer_call=self.trainer_call,
        )


def runs_of(script: SourceText, files: ScriptFiles, command: CommandLine = BARE) -> tuple[PythonRun, ...]:
    """The runs that `script` starts, in its order. Nothing of it is executed.

    `command`: how it is started.
    """
    seen: list[Made] = []
    follow_script(script, files, seen.append, LIBRARIES, CONSTANTS, command)
    trainers = [made for made in seen if _is_trainer(made)][:MAX_RUNS]
    lengths = lengths_of(seen)
    asks = any(made.name == ASKS_FOR_CARD for made in seen)
    made = (_run(trainer, lengths, seen, script.text) for trainer in trainers if _says_something(trainer))
    found = tuple(run._replace(asks_for_card=asks) for run in made)
    if found or trainers:
        return found if _NO_CARD.search(script.text) is None else tuple(map(_on_the_cpu, found))
    loaders = [made for made in seen if made.last == "DataLoader"]
    own = next((length for one in loaders for length in map(length_of_dataset, one.positional[:1]) if length), [])
    lengths = own or lengths or lengths_of_calls(seen) or lengths_of_options(seen)
    loop = loop_of(seen, lengths, script.text)
    if loop is None:
        return ()
    unmodelled = loop.unmodelled or _other_loss(script.path)
    state = "all" if unmodelled == GENERATES else ""
    run = PythonRun("", "", loop.keys, loop.source, True, None, unmodelled, state, asks_for_card=asks)
    may_shard = not command.is_given and _SHARDS.search(script.text) is not None
    run = run._replace(frozen=loop.frozen, engine="" if may_shard else loop.engine)
    return (run._replace(quantized_preparation=_preparation(loop.prepares_quantized, script.text)),)


# A branch that shards the model: where no command is known, an option may have taken it.
_SHARDS = re.compile(r"\b(?:FSDP|FullyShardedDataParallel|fully_shard)\(")
# `os.environ["CUDA_VISIBLE_DEVICES"] = "-1"`: the program sees no card.
# `os.environ["UNSLOTH_VLLM_STANDBY"] = "1"` (unsloth_zoo 2026.8 vllm_utils.py, load_vllm).
_STANDBY = re.compile(r"""^\s*os\.environ\[["']UNSLOTH_VLLM_STANDBY["']\]\s*=\s*["']?[^"'0]""", re.MULTILINE)
_NO_CARD = re.compile(r"""^os\.environ\[["']CUDA_VISIBLE_DEVICES["']\]\s*=\s*["'](?:-1)?["']""", re.MULTILINE)


def _on_the_cpu(run: PythonRun) -> PythonRun:
    return run._replace(keys={**run.keys, "use_cpu": Known(True, run.source)})


_OTHER_LOSS = re.compile(r"(?:^|[_./-])(dpo|ppo|grpo|rloo|orpo|kto|simpo|rlhf|reward)(?=[_./-])")


def _other_loss(path: str) -> str:
    """A loop whose file is called after another loss than the next token's; "" for others."""
    found = _OTHER_LOSS.search(path.rpartition("/")[2].lower())
    return f"a loop of its own for {found[1]}" if found else ""


def _is_trainer(made: Made) -> bool:
    known = made.last in _TRL | _TRANSFORMERS
    return (
        made.last.endswith("Trainer")
        and (known or "args" in made.arguments)
        and bool(made.arguments or made.positional)
    )


def _says_something(trainer: Made) -> bool:
    """Whether the script itself says how it trains on a GPU: library code passes on what it is given, and a script with
    HfArgumentParser has its arguments from a command line."""
    if trainer.name.startswith(_OF_OTHER_ACCELERATORS):
        return False
    arguments, model = _arguments_of(trainer), _model_of(trainer)
    if isinstance(arguments, (Made, Instance)):
        return _is_configuration(arguments) and FROM_COMMAND_LINE not in arguments.attributes
    return isinstance(arguments, Either) or (arguments is None and isinstance(model, (Known, Made)))


def _is_configuration(arguments: Made | Instance) -> bool:
    """Whether these are arguments of transformers or TRL: `SFTConfig` and the like, or a class of them."""
    bases = external_bases(arguments.of) if isinstance(arguments, Instance) else (External(arguments.name),)
    return any(base.last.endswith(("Arguments", "Config")) for base in bases)


def _arguments_of(trainer: Made) -> Value | None:
    position = _POSITION_OF_ARGUMENTS.get(trainer.last, 1)
    given = next((trainer.arguments[name] for name in ("args", "config") if name in trainer.arguments), None)
    return given or (trainer.positional[position] if len(trainer.positional) > position else None)


def _model_of(trainer: Made) -> Value | None:
    return trainer.arguments.get("model") or (trainer.positional[0] if trainer.positional else None)


def _run(trainer: Made, lengths: list[Value], seen: list[Made], text: str) -> PythonRun:
    """The run of a trainer. `lengths`: those that the script tokenizes to; `seen`: all its calls; `text`: its code."""
    arguments, model = _arguments_of(trainer), _model_of(trainer)
    # TRL's trainers before 0.13 take `model_init_kwargs` themselves (0.12.2 trainer/sft_trainer.py:143).
    loaded_with = trainer.arguments.get("model_init_kwargs") or _argument_values(arguments).get("model_init_kwargs")
    name, own = _own_arguments(arguments, model)
    keys = _keys_of(trainer, model, loaded_with, own)
    has_unsloth = "use_unsloth" in keys
    if "model_max_length" not in keys:
        lengths = lengths or lengths_of_calls(seen) or lengths_of_options(seen)
    keys |= _length_keys(trainer, keys, model, lengths, seen)
    if "fast_inference" in keys and _STANDBY.search(text):
        keys[STANDBY] = Known(True, trainer.source)
    unsure, frozen = _what_trains(keys, model, seen, text)
    keys |= unsure
    if not has_unsloth and not _LENGTHS & keys.keys() and _collates(trainer, arguments):
        collated = Undetermined("the script's own collator makes the batches, and nothing is cut before")
        keys["max_length"] = either(lengths, _SEVERAL_LENGTHS) if lengths else collated
    unmodelled, state = _unmodelled_features(trainer, model, seen, own)
    asks = has_unsloth or TAKES_WHAT_IT_ASKS.search(text) is not None
    framework = "trl" if trainer.last in _TRL else "transformers" if trainer.last in _TRANSFORMERS else ""
    gone = () if asks else outdated(trainer, framework)
    bounds = {} if has_unsloth else newest(trainer, framework, arguments, seen, gone)
    texts, compares = texts_per_sample(trainer) if trainer.last in OF_EMBEDDINGS else (0, "")
    return PythonRun(
        trainer=trainer.last,
        arguments=name,
        keys=keys,
        source=trainer.source,
        loads_model=not isinstance(model, Known),
        arguments_call=arguments.source.span if isinstance(arguments, Made) else None,
        unmodelled=unmodelled,
        model_state=state,
        newest=bounds,
        quantized_preparation=_preparation(model is not None and is_prepared(seen, model), text),
        spreads_layers=model is not None and spreads_layers(_by_name(model, loaded_with)),
        set_later=frozenset(arguments.attributes) if isinstance(arguments, Made) else frozenset(),
        frozen=frozen,
        keeps_logits=_keeps_logits(trainer, arguments),
        texts_per_sample=texts,
        compares_texts=compares,
        cuts_nothing=_cuts_nothing(trainer, seen),
        fills_length=trainer.last in _TRANSFORMERS and fills(seen),
        trainer_call=_call_of(trainer, seen),
        outdated=gone,
        no_release=None if asks else no_release(trainer, arguments),
    )


_LENGTHS = frozenset({"max_length", "max_seq_length"})
_SEVERAL_LENGTHS = "several lengths are tokenized to"


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
    return keys


def _length_keys(trainer: Made, keys: Keys, model: Value | None, lengths: list[Value], seen: list[Made]) -> Keys:
    """The lengths of a Trainer of transformers, which cuts nothing itself: those that the script tokenizes to."""
    if _LENGTHS & keys.keys() or trainer.last not in _TRANSFORMERS or not lengths:
        return {}
    sides = lengths_of_sides(seen) if model is not None and writes_targets(model) else {}
    lengths = length_of_dataset(trainer.arguments.get("train_dataset")) or lengths
    return sides or {"max_length": either(lengths, _SEVERAL_LENGTHS)}


def _what_trains(
    keys: Keys, model: Value | None, seen: list[Made], text: str
) -> tuple[Keys, tuple[tuple[str, bool], ...]]:
    """(why nobody can say what trains, under `use_peft`; the parts that the script freezes, as in `PythonRun`)."""
    if "use_peft" in keys:
        is_beside = model is not None and trains_beside_adapter(seen, model, text)
        return ({"use_peft": Undetermined(BESIDE_ADAPTER)} if is_beside else {}), ()
    frozen = frozen_parts(seen, model) if model is not None else ()
    if isinstance(frozen, Undetermined):
        return {"use_peft": frozen}, ()
    if _extends(model):
        return {"use_peft": Undetermined("a class of the repository may freeze parts of itself")}, frozen
    return {}, frozen


def _cuts_nothing(trainer: Made, seen: list[Made]) -> bool:
    """`StartedProgram.cuts_nothing`; sentence-transformers cuts at the model's limit alone, which few texts reach."""
    return trainer.last in OF_EMBEDDINGS or (trainer.last in _TRANSFORMERS and not any(map(truncates, seen)))


def _collates(trainer: Made, arguments: Value | None) -> bool:
    """Whether TRL's trainer leaves the data as they are, so that a collator of the script's own alone decides about
    lengths (trl 1.16 trainer/sft_trainer.py:1252 and 1571: samples are cut where the data set is prepared)."""
    given = _argument_values(arguments).get("dataset_kwargs")
    skips = isinstance(given, Table) and is_on(given.values.get("skip_prepare_dataset"))
    own = isinstance(trainer.arguments.get("data_collator"), (PythonFunction, Instance))
    return trainer.last == "SFTTrainer" and skips and own


def _call_of(trainer: Made, seen: list[Made]) -> str:
    """`StartedProgram.trainer_call`. The trainer never asks the flags of its arguments, a script may (transformers 5.23
    training_args.py, do_train: "intended to be used by your training/evaluation scripts")."""
    calls = [made for made in seen if isinstance(made.base, Made) and made.base.source == trainer.source]
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


def _unmodelled_features(trainer: Made, model: Value | None, seen: list[Made], arguments: Keys) -> tuple[str, str]:
    """What the script does that no key says, and what that leaves of the model state (`PythonRun.model_state`)."""
    added = _second_model(trainer) or _scores(trainer, seen)
    if added:
        return added, "all"
    if trainer.last in OF_EMBEDDINGS:
        return other_than_texts(trainer), "headless"
    other = _unknown_model_class(trainer, model) if model is not None else ""
    if other or model is None:
        return other, "headless" if other.endswith(_CLASSIFIER) else "all" if _extends(model) else ""
    converted, state = _converted(model)
    if converted:
        return converted, state
    other = _fake_quantized(model) or _other_experts(model)
    if other:
        return other, "all"
    return ("", "headless") if _gives_scores(trainer, model) else (_labels(arguments, model), "")


def _model_of_trainer(model: Value, given: Value | None) -> Keys:
    """The keys of a trainer's model. `given`: its `model_init_kwargs`."""
    keys = model_keys(_by_name(model, given))
    if isinstance(model, Known) and given is not None and not isinstance(given, (Known, Table)):
        reason = Undetermined("`model_init_kwargs` may say it", source_of(given))
        keys = {**dict.fromkeys(("dtype", "attn_implementation", "load_in_4bit"), reason), **keys}
    return keys


def _argument_values(arguments: Value | None) -> Mapping[str, Value]:
    if isinstance(arguments, Instance):
        return arguments.attributes
    return {**arguments.arguments, **arguments.attributes} if isinstance(arguments, Made) else {}


_EVALUATES_LOGITS = frozenset({*_TRANSFORMERS, "SFTTrainer"})


def _keeps_logits(trainer: Made, arguments: Value | None) -> bool:
    """Whether evaluation keeps the logits of all samples: metrics are computed from them, and nothing makes them
    smaller before (transformers 5.23 trainer.py:3011-3015)."""
    metrics, smaller = (trainer.arguments.get(name) for name in ("compute_metrics", "preprocess_logits_for_metrics"))
    is_given = isinstance(metrics, (PythonFunction, Made, Instance))
    is_whole = smaller is None or (isinstance(smaller, Known) and smaller.value is None)
    by_batch = "batch_eval_metrics" in _argument_values(arguments)
    return trainer.last in _EVALUATES_LOGITS and is_given and is_whole and not by_batch


def _by_name(model: Value, given: Value | None) -> Value:
    """A model that TRL loads by its name with `model_init_kwargs` (trl 1.16 trainer/grpo_trainer.py, __init__)."""
    if not isinstance(model, Known) or not isinstance(given, Table):
        return model
    named = {str(name): value for name, value in given.values.items()}
    return Made("AutoModelForCausalLM.from_pretrained", (model,), named, model.source, None, given.is_open)


def _scores(trainer: Made, seen: list[Made]) -> str:
    """A model that was loaded before, beside the one that learns from rewards, and that no key counts; "" without
    one."""
    others = unmodelled_others(trainer)
    if others or not reinforces(trainer):
        return others
    model = _model_of(trainer)
    origins = [origin_of(one) for one in alternatives(model)] if model is not None else []
    own = [source_of(one) for one in origins if one is not None] + handed_over(trainer, model)
    for made in seen[: seen.index(trainer)]:
        is_model = made.last == "from_pretrained" and re.search(r"For[A-Z]\w+\.from_pretrained$", made.name)
        if is_model and made.source not in own:
            return f"loads `{made.name.removesuffix('.from_pretrained').rpartition('.')[2]}` beside its policy"
    return ""


_CLASSIFIER = ", a classifier"
# Scores of a text, of each of its tokens, of where an answer begins and ends: no logits of words.
_SCORING = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_SEVERAL_TEXTS = "ForMultipleChoice"  # a sample is as many texts as it has choices


def _unknown_model_class(trainer: Made, model: Value) -> str:
    """A class of model whose memory is not known: one of the repository, a classifier of several texts or under a
    condition; "" for others."""
    found = (_own_class(trainer, one) for one in origins_of(model))
    return "" if _gives_scores(trainer, model) else next(filter(None, found), "")


def _gives_scores(trainer: Made, model: Value) -> bool:
    """Whether transformers' Trainer gets a classifier, or TRL's PRMTrainer one of tokens."""
    if trainer.last not in _TRANSFORMERS and trainer.last != "PRMTrainer":
        return False
    return all(isinstance(one, Made) and _is_scoring(one) for one in origins_of(model))


def _is_scoring(loaded: Made) -> bool:
    return not isinstance(loaded.attributes.get(OWN_CLASS), Known) and class_of(loaded).endswith(_SCORING)


def _extends(model: Value | None) -> bool:
    """Whether a class of the repository stands on a language model of transformers, to which it adds."""
    found = [origin_of(one) for one in alternatives(model)] if model is not None else []
    bases = [one.attributes.get(LIBRARY_CLASSES) for one in found if isinstance(one, Made)]
    return bool(bases) and all(isinstance(one, Known) and "ForCausalLM" in str(one.value) for one in bases)


def _labels(arguments: Keys, model: Value) -> str:
    """Arguments of the script's own that count labels, where nobody sees what model gets them; "" for others."""
    is_seen = isinstance(model, (Known, Made))
    return "" if is_seen or "num_labels" not in arguments else "trains a classifier (`num_labels`)"


def _own_class(trainer: Made, loaded: Value) -> str:
    if not isinstance(loaded, Made):
        return ""
    own = loaded.attributes.get(OWN_CLASS)
    if isinstance(own, Known):
        return f"loads `{own.value}`, a class of the repository"
    if is_unbound(loaded):
        return f"loads `{loaded.name.partition('.')[0]}`, a class that nothing imports by its name"
    name = class_of(loaded)
    is_head = name.endswith((*_SCORING, _SEVERAL_TEXTS)) and trainer.last in _TRANSFORMERS
    return f"loads `{name}`{_CLASSIFIER}" if is_head else ""


def _fake_quantized(model: Value) -> str:
    """`get_peft_model(..., qat_scheme="int4")` (unsloth 2026.8 models/llama.py: torchao's fake-quantized linear layers,
    which keep more for backward); "" without one."""
    current: Value | None = model
    while isinstance(current, Made):
        scheme = current.arguments.get("qat_scheme")
        if scheme is not None and not (isinstance(scheme, Known) and scheme.value is None):
            return "trains with fake-quantized weights (`qat_scheme`)"
        current = current.base
    return ""


def _converted(model: Value) -> tuple[str, str]:
    """What replaces the linear layers, and what that leaves of the model state: torchao's fp8 layers keep their
    weights, of a configuration nobody knows."""
    current: Value | None = model
    while isinstance(current, Made):
        by = current.attributes.get(CONVERTED)
        if isinstance(by, Known):
            return f"converts its linear layers (`{by.value}`)", "all" if by.value != "quantize_" else ""
        current = current.base
    return "", ""


def _other_experts(model: Value) -> str:
    """`from_pretrained(..., experts_implementation=...)`: other code for stacked experts than `grouped_mm`, of which
    figures are (transformers 5.23 integrations/moe.py); "" without one."""
    loaded = origin_of(model)
    name = loaded.arguments.get("experts_implementation") if isinstance(loaded, Made) else None
    known = name.value if isinstance(name, Known) else None
    return f"runs experts by `{known}`" if isinstance(known, str) and known != "grouped_mm" else ""


def _second_model(trainer: Made) -> str:
    """A model that a trainer of the script's own gets beside the one that it trains; "" without one."""
    if trainer.last not in _TRANSFORMERS:
        return ""
    given = {name: trainer.arguments[name] for name in _OTHER_MODELS if name in trainer.arguments}
    other = next((name for name, value in given.items() if not (isinstance(value, Known) and value.value is None)), "")
    return f"gives its trainer a second model, `{other}`" if other else ""


def _of_trainer(trainer: Made) -> Keys:
    """The trainer's own arguments."""
    return {name: trainer.arguments[name] for name in _TRAINER_ARGUMENTS if name in trainer.arguments}


def _as_unsloth_reads(keys: Keys) -> Keys:
    """Unsloth's trainers and their configurations still take `max_seq_length`, which trl has renamed, and make it
    `max_length` (unsloth 2026.3.4 models/rl.py:845-853 and 1095)."""
    return {"max_length" if name == "max_seq_length" else name: value for name, value in keys.items()}


def argument_keys(arguments: Value | None) -> tuple[str, Keys]:
    """The class of the training arguments, and its keys."""
    if arguments is None:
        return "", {}
    if isinstance(arguments, Either):
        ways = [argument_keys(one) for one in arguments.values]
        return ways[0][0], merged([keys for _, keys in ways], arguments.reason)
    if isinstance(arguments, Made):
        keys = _plain({**arguments.arguments, **arguments.attributes})
        return arguments.last, {**_hidden_in_kwargs(arguments, keys), **keys}
    if isinstance(arguments, Instance):
        bases = external_bases(arguments.of)
        return (bases[0].last if bases else arguments.of.name), _plain(arguments.attributes)
    return "", {"per_device_train_batch_size": _unknown(arguments), "gradient_accumulation_steps": _unknown(arguments)}


def _hidden_in_kwargs(arguments: Made, keys: Keys) -> Keys:
    """Keys that `**kwargs` of unknown content may hold beside those that are seen."""
    if not arguments.is_open:
        return {}
    reason = Undetermined("the script passes on arguments that memlint does not see", arguments.source)
    return {key: reason for key in MAY_BE_PASSED if key not in keys}


def _unknown(value: Value) -> Undetermined:
    return (
        value
        if isinstance(value, Undetermined)
        else Undetermined("the training arguments are not ones that memlint sees")
    )


def _plain(values: Mapping[str, Value]) -> Keys:
    return {name: _spelled(value) for name, value in values.items() if name not in _IGNORED}


def _spelled(value: Value) -> Value:
    """A value as a file can say it: an enumeration's member is its word (`IntervalStrategy.STEPS` is "steps")."""
    if isinstance(value, External):
        return Known(value.last.lower()) if value.last.isupper() else Undetermined(f"`{value.name}`")
    if isinstance(value, Made) and value.last == "ParallelismConfig":
        degrees = {name: one for name, one in value.arguments.items() if name.endswith("_size")}
        return Table(dict(degrees), value.source)
    if isinstance(value, Made):
        return Undetermined(f"what `{value.last}` returns is not known", value.source)
    if isinstance(value, (Known, Undetermined, Either, Items, Table)):
        return value
    return Undetermined("an object of the script", source_of(value))
