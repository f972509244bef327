"""What the libraries of training scripts return and change, as far as it matters to a run.

Read in transformers 5.23.0, trl 1.16.0, peft 0.21.2, accelerate 1.15.0 and unsloth 2026.8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from memlint.formats.schema.validate import compiled_schema
from memlint.formats.trainer.argument_classes import arguments_taken, is_known
from memlint.formats.trainer.python.ignite import LIBRARIES as IGNITE
from memlint.formats.trainer.python.lightning_calls import LIBRARIES as LIGHTNING
from memlint.source.document import NOT_READ
from memlint.source.python.calls import complete, follow
from memlint.source.python.classes import external_bases, field_types, instance
from memlint.source.python.config_files import load, value_of_document
from memlint.source.python.members import PARAMETERS, observe_freezing
from memlint.source.python.reader import Call, Library, Reader, plain_word
from memlint.source.python.standard_library import LIBRARIES as STANDARD_LIBRARY
from memlint.source.python.standard_library import OPTIONS, add_options, options_of
from memlint.source.python.values import (
    Class,
    External,
    Instance,
    Items,
    Known,
    Made,
    PythonFunction,
    Table,
    Undetermined,
    Value,
    is_on,
)

CHECKPOINTS = "gradient_checkpointing"  # attribute of a model
CONFIG_READ = "what its file says"  # argument of DeepSpeed's engine whose configuration is a file
CERTAIN = "certain"  # argument of an observed call: whether it surely happens
TRAINING = "in training mode"  # attribute of a model whose `train` is called
CAST = "dtype that it is cast to"  # attribute of a model
NUMBER_OF_GPUS = "the number of GPUs"  # why a value is not known
ADAPTER = "adapter that is added to it"  # attribute of a model
CONVERTED = "what converts its linear layers"  # attribute of a model
# Attribute of arguments that HfArgumentParser or TrlParser makes: a command line says them, not the script.
FROM_COMMAND_LINE = "from the command line"
FLAGS = "the options that were given"  # attribute of the model's arguments that such a parser makes


# What decides about memory, of TrainingArguments and SFTConfig.
MAY_BE_PASSED = (
    *("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing", "bf16", "fp16", "optim"),
    *("max_length", "packing", "eval_strategy"),
)
# The dtypes that weights are loaded, cast and sharded in: names in `torch` -> the usual one.
DTYPES = {
    **{name: name for name in ("float32", "float16", "bfloat16")},
    "half": "float16",
    "float": "float32",
}
_CASTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32"}  # methods of a module


def _checkpointing(value: bool) -> Library:
    def apply(reader: Reader, given: Call) -> Value | None:
        if not isinstance(given.owner, Made):
            return None
        reader.set(given.owner.attributes, given.owner, CHECKPOINTS, Known(value, given.source))
        return Known(None)

    return apply


def _sets_attention(reader: Reader, given: Call) -> Value | None:
    """`model.set_attn_implementation("eager")` (transformers 4.54.0 modeling_utils.py:2812): the layers look the
    function up in each forward."""
    value = given.argument(0, "attn_implementation")
    if not isinstance(given.owner, Made) or value is None:
        return None
    reader.set(given.owner.attributes, given.owner, "_attn_implementation", value)
    return Known(None)


def _model_and_tokenizer(reader: Reader, given: Call) -> Value:
    """`model, tokenizer = FastLanguageModel.from_pretrained(...)`."""
    model = Made(given.name, given.positional, given.named, given.source, None, given.is_open)
    reader.made(model)
    reader.observe(model)
    return Items([model, Made(f"{given.name}.tokenizer", (), {}, given.source)], given.source)


def _fully_shard(reader: Reader, given: Call) -> Value | None:
    """`fully_shard(model.model.layers[0], mesh=mesh)` shards a module in place, and gives it back."""
    named = {**given.named, CERTAIN: Known(not reader.in_doubt or reader.is_in_rounds)}
    reader.observe(Made(given.name, given.positional, named, given.source, None, given.is_open))
    return given.argument(0, "module")


def _apply_checkpointing(reader: Reader, given: Call) -> Value | None:
    """It wraps the modules that `check_fn` chooses (torch 2.13 distributed/algorithms/_checkpoint)."""
    model = given.argument(0, "model")
    if isinstance(model, Made):
        reader.set(model.attributes, model, CHECKPOINTS, Known(True, given.source))
        reader.observe(Made(given.name, given.positional, given.named, given.source))
    return Known(None)


def _partial(reader: Reader, given: Call) -> Value | None:
    """`functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})` keeps the arguments
    of FSDP's policies; of other functions the function is enough."""
    (function,) = given.positional[:1] or (None,)
    if isinstance(function, External) and function.last.endswith("_policy"):
        return Made(function.name, given.positional[1:], given.named, given.source, None, given.is_open)
    return function


def _prepare(reader: Reader, given: Call) -> Value | None:
    """`model, optimizer = accelerator.prepare(model, optimizer)` gives back what it is given."""
    if len(given.positional) == 1:
        return given.positional[0]
    return Items(list(given.positional), given.source) if given.positional else None


def _engine(reader: Reader, given: Call) -> Value:
    """`engine, optimizer, loader, scheduler = deepspeed.initialize(...)`."""
    config = _engine_config(given)
    path = config.value if isinstance(config, Known) else None
    document = reader.find(path) if isinstance(path, str) else None
    read = value_of_document(document) if document is not None else None
    named = {**given.named, **({"config": config} if config is not None else {})}
    named |= {CONFIG_READ: read} if isinstance(read, Table) else {}
    reader.observe(Made(given.name, given.positional, named, given.source, None, given.is_open))
    model = given.argument(1, "model") or Undetermined("the engine's model", given.source)
    others: list[Value] = [Undetermined(f"DeepSpeed's {name}", given.source) for name in ("optimizer", "loader")]
    return Items([model, *others, Undetermined("DeepSpeed's scheduler", given.source)], given.source)


def _engine_config(given: Call) -> Value | None:
    """The configuration of `deepspeed.initialize`: its argument, else `args.deepspeed_config` (deepspeed 0.19.8
    __init__.py:529)."""
    config = given.argument(10, "config") or given.named.get("config_params")
    args = given.argument(0, "args")
    if config is not None or not isinstance(args, (Table, Instance)):
        return config
    found = (args.values if isinstance(args, Table) else args.attributes).get("deepspeed_config")
    return None if isinstance(found, Known) and found.value is None else found


def _adds_engine_flags(reader: Reader, given: Call) -> Value | None:
    """`deepspeed.add_config_arguments(parser)` adds flags, gives back the parser (deepspeed 0.19.8 __init__.py:611)."""
    parser = _same(reader, given)
    add = STANDARD_LIBRARY[".add_argument"]
    if isinstance(parser, Made):
        add(reader, Call("", (Known("--deepspeed"),), {"action": Known("store_true")}, given.source, owner=parser))
        add(reader, Call("", (Known("--deepspeed_config"),), {}, given.source, owner=parser))
    return parser


TRAINS = "trains"  # the name of what is observed where a trainer's `train` is called; `base`: the trainer


def _device(reader: Reader, given: Call) -> Value | None:
    """`torch.device("cuda", 0)`: its `type` is the part of the name before the number."""
    (name,) = given.positional[:1] or (None,)
    if not isinstance(name, Known) or not isinstance(name.value, str):
        return None
    made = Made(given.name, given.positional, given.named, given.source)
    made.attributes["type"] = Known(name.value.partition(":")[0], given.source)
    return made


def _broadcast(reader: Reader, given: Call) -> Value | None:
    """What all processes then have: the list of the first (accelerate 1.15.0 utils/operations.py)."""
    return given.positional[0] if given.positional else None


def _same(reader: Reader, given: Call) -> Value | None:
    """A method or wrapper that gives back the model: `model.to(device)`, `torch.compile(model)`."""
    if isinstance(given.owner, Made) and not _is_module(given.owner):
        return given.owner
    return given.positional[0] if given.positional and isinstance(given.positional[0], (Made, Instance)) else None


def _wrapped(reader: Reader, given: Call) -> Value | None:
    """`DistributedDataParallel(model)` has the model as its `module`."""
    model = given.argument(0, "module")
    made = Made(given.name, given.positional, given.named, given.source, None, given.is_open)
    if isinstance(model, (Made, Instance)):
        made.attributes["module"] = model
    reader.made(made)
    reader.observe(made)
    return made


def _added_to_container(reader: Reader, given: Call) -> Value | None:
    """`layers.append(Block())`, `modules.update({"blocks": layers})` of a container of torch.nn."""
    if not isinstance(given.owner, Made) or given.owner.last not in ("ModuleList", "ModuleDict", "Sequential"):
        return None
    given.owner.positional = (*given.owner.positional, *given.positional)
    return given.owner


def _apex(reader: Reader, given: Call) -> Value | None:
    """`model, optimizer = amp.initialize(model, optimizer, opt_level="O1")` of apex gives back what it is given (apex
    0.1 amp/frontend.py, initialize)."""
    if not given.name.startswith(("apex.", "amp.")):
        return None
    reader.observe(Made(given.name, given.positional, given.named, given.source, None, given.is_open))
    models, optimizers = given.argument(0, "models"), given.argument(1, "optimizers")
    return models if optimizers is None or models is None else Items([models, optimizers], given.source)


def _cast_module(reader: Reader, given: Call) -> Value | None:
    """`model.to(torch.bfloat16)` of a module of the repository."""
    kinds = (given.named.get("dtype"), *given.positional)
    dtype = next((one for one in kinds if isinstance(one, External) and one.last in DTYPES), None)
    if isinstance(given.owner, Instance) and dtype is not None:
        reader.set(given.owner.attributes, given.owner, CAST, dtype)
    return given.owner


def _cast_module_to(name: str) -> Library:
    def apply(reader: Reader, given: Call) -> Value | None:
        return _cast_module(reader, given._replace(named={"dtype": External(f"torch.{name}")}))

    return apply


def _module_checkpoints(reader: Reader, given: Call) -> Value | None:
    """`model.gradient_checkpointing_enable()` of a class of the repository that derives from transformers'."""
    if isinstance(given.owner, Instance):
        reader.set(given.owner.attributes, given.owner, CHECKPOINTS, Known(True, given.source))
    return Known(None)


def _mode(reader: Reader, given: Call) -> Value | None:
    """`model.train()` and `model.eval()` give back the model; a trainer's `train` is seen, and whether it is certain:
    `if args.do_train: trainer.train()`."""
    if not (isinstance(given.owner, Made) and given.owner.last.endswith("Trainer")):
        if isinstance(given.owner, Made) and given.name.endswith(".train"):
            given.owner.attributes[TRAINING] = Known(True, given.source)
        return _same(reader, given)
    made = Made(TRAINS, (), {"is_certain": Known(not reader.in_doubt)}, given.source, given.owner)
    reader.observe(made)
    return made


def _cast(reader: Reader, given: Call) -> Value | None:
    """`model.to(torch.bfloat16)`, `model.to(device, dtype=torch.float16)`."""
    found = _same(reader, given)
    kinds = (given.named.get("dtype"), *given.positional)
    dtype = next((one for one in kinds if isinstance(one, External) and one.last in DTYPES), None)
    if isinstance(found, Made) and found is given.owner and dtype is not None:
        reader.set(found.attributes, found, CAST, dtype)
    return found


def _add_adapter(reader: Reader, given: Call) -> Value | None:
    """`model.add_adapter(LoraConfig(...))` (transformers 5.23.0 integrations/peft.py)."""
    config = given.argument(0, "adapter_config")
    if isinstance(given.owner, Made) and config is not None:
        reader.set(given.owner.attributes, given.owner, ADAPTER, config)
        return Known(None)
    return None


def _get_peft_model(reader: Reader, given: Call) -> Value | None:
    """`get_peft_model(model, config)` of a copy of peft in the repository, as for a model of its own: it does the same
    (peft 0.21.2 mapping_func.py)."""
    if len(given.positional) + len(given.named) < 2:
        return None
    made = Made("peft.get_peft_model", given.positional, given.named, given.source, None, given.is_open)
    reader.made(made)
    reader.observe(made)
    return made


def _convert(reader: Reader, given: Call) -> Value | None:
    """`convert_to_float8_training(model)`, `quantize_(model, MXLinearConfig())`: linear layers are replaced in place.
    The former keep the dtype of their weights (torchao 0.18 float8/float8_linear_utils.py)."""
    model = given.argument(0, "module" if given.name.endswith("_training") else "model")
    if isinstance(model, Made):
        reader.set(model.attributes, model, CONVERTED, Known(given.name.rpartition(".")[2], given.source))
        return model
    return None


def _cast_to(name: str) -> Library:
    def apply(reader: Reader, given: Call) -> Value | None:
        return _cast(reader, given._replace(named={"dtype": External(f"torch.{name}")}))

    return apply


def _frozen(reader: Reader, given: Call) -> Value | None:
    """`model.requires_grad_(False)` and the same of a part of it, or as a name decides."""
    value = given.argument(0, "requires_grad") or Known(True)
    owner = given.owner
    base = owner.base or owner if isinstance(owner, Made) and owner.name == PARAMETERS[0] else owner
    observe_freezing(reader, value, base if isinstance(base, (Made, External)) else None, given.source)
    return owner if isinstance(owner, Made) else None


def _hook(reader: Reader, given: Call) -> Value:
    """What a hook gets are inputs and outputs: their `requires_grad` is no parameter's, so it is not followed."""
    return Made(given.name, given.positional, given.named, given.source)


def _is_module(owner: Made) -> bool:
    return owner.last[:1].islower() and not owner.name.endswith(("from_pretrained", "get_peft_model"))


def _argument_parser(reader: Reader, given: Call) -> Value:
    """`HfArgumentParser((ModelArguments, TrainingArguments))`."""
    (types,) = given.positional[:1] or (given.named.get("dataclass_types") or Items([]),)
    made = Made(given.name, (types,), {}, given.source)
    add_options(made)
    return reader.made(made)  # type: ignore[no-any-return]


def _parsed(reader: Reader, given: Call) -> Value | None:
    """The dataclasses that HfArgumentParser and TrlParser make when no argument is given."""
    if not isinstance(given.owner, Made) or not given.owner.last.endswith("Parser") or not given.owner.positional:
        return None
    (types,) = given.owner.positional
    classes = types.values if isinstance(types, Items) else [types]
    options_of_its_own = options_of(given.owner)
    rest: list[Value] = [options_of_its_own] if options_of_its_own is not None and options_of_its_own.values else []
    rest += [Items([])] if _asks_for_the_rest(given) else []
    if not reader.command.is_given:
        return Items([*(_defaults(reader, one, given) for one in classes), *rest], given.source)
    options, has_unread_file = _options(reader, classes)
    is_open = has_unread_file or reader.command.is_open
    found = [_defaults(reader, one, given, _of_class(one, classes, options), is_open) for one in classes]
    own = [one for one in found if isinstance(one, Instance) and not external_bases(one.of)]
    reader.observe(
        Made(OPTIONS, (), {name: one for each in own for name, one in each.attributes.items()}, given.source)
    )
    return Items([*found, *rest], given.source)


def _asks_for_the_rest(given: Call) -> bool:
    """`return_remaining_strings=True` adds what no class takes."""
    asked = given.named.get("return_remaining_strings")
    return isinstance(asked, Known) and bool(asked.value)


def _options(reader: Reader, classes: Sequence[Value]) -> tuple[dict[str, Value], bool]:
    """The options of the command line, over those of the file that it names: behind TrlParser's `--config`, or alone
    as the parser of the alignment handbook takes it; and whether that file may hold others, as it cannot be read."""
    named = ((_whole_name(name, classes), words) for name, words in reader.command.options.items())
    options = {name: _one_value(words) if name in _single_word_flags() else plain_word(words) for name, words in named}
    files = (one for one in reader.command.positional if _may_be_file(one))
    config = options.get("config") or next(files, None)
    if not isinstance(config, Known) or not isinstance(config.value, str):
        return options, config is not None
    document = reader.find(config.value)
    read = value_of_document(document) if document is not None else None
    said = {str(key): value for key, value in read.values.items()} if isinstance(read, Table) else {}
    return {**said, **options}, not isinstance(read, Table)


def _may_be_file(word: Value) -> bool:
    """Whether a word of the command line names a file of arguments; one that is not known (`"$2"`) may."""
    return isinstance(word, Undetermined) or (isinstance(word, Known) and str(word.value).endswith((".yaml", ".yml")))


@cache
def _trainer_flags() -> frozenset[str]:
    """The arguments of transformers', TRL's and PEFT's classes."""
    properties = compiled_schema("trainer.json").schema["properties"]
    return frozenset(name for name, one in properties.items() if "x-memlint-removed-in" not in one)


def _one_value(words: tuple[Value, ...]) -> Value:
    """The value of a flag that takes one word: `[a/model]`, as pages write what is to be filled in, is no list."""
    value = plain_word(words[:1])
    return words[0] if isinstance(value, Items) else value


@cache
def _single_word_flags() -> frozenset[str]:
    """The flags that take one word: a second word behind them belongs to no flag (transformers 5.23.0
    hf_argparser.py)."""
    properties = compiled_schema("trainer.json").schema["properties"]
    return frozenset(name for name, one in properties.items() if "type" in one and "array" not in one["type"])


def _whole_name(name: str, classes: Sequence[Value]) -> str:
    """argparse takes the start of a flag for the flag where it is the start of one alone: `--save_step 20`."""
    own = {field for one in classes if isinstance(one, Class) for field in field_types(one)}
    if name in own or name in _trainer_flags():
        return name
    found = {one for one in own.union(*map(_flags_of_library, classes)) if one.startswith(name)}
    return found.pop() if len(found) == 1 else name


def _flags_of_library(of: Value) -> frozenset[str]:
    """The arguments that a class takes from the libraries; those of all their classes where it is not known."""
    bases = external_bases(of) if isinstance(of, Class) else (of,)
    names = [base.last if isinstance(base, External) else "" for base in bases]
    return frozenset().union(*(arguments_taken(name) if is_known(name) else _trainer_flags() for name in names))


# trl 1.16.0 trainer/model_config.py: the fields of ModelConfig, which no training arguments have.
MODEL_ARGUMENT_NAME = re.compile(
    r"model_name_or_path$|model_revision$|(?:torch_)?dtype$|trust_remote_code$|attn_implementation$|use_peft$|lora_"
    r"|load_in_[48]bit$|bnb_4bit_|use_bnb_nested_quant$|use_rslora$|use_dora$"
)


def _is_model_config(of: Value) -> bool:
    bases = external_bases(of) if isinstance(of, Class) else (of,)
    return any(isinstance(base, External) and base.last == "ModelConfig" for base in bases)


def _of_class(of: Value, classes: Sequence[Value], options: Mapping[str, Value]) -> dict[str, Value]:
    """The options that an argument class takes: its fields, and those of its library that no other class has."""
    own = set(field_types(of)) if isinstance(of, Class) else set()
    others = {name for one in classes if isinstance(one, Class) and one is not of for name in field_types(one)}
    of_library = not isinstance(of, Class) or bool(external_bases(of))
    is_model = _is_model_config(of)
    has_model = any(map(_is_model_config, classes))
    found: dict[str, Value] = {}
    for name, value in options.items():
        if has_model and not is_model and name not in own and MODEL_ARGUMENT_NAME.match(name):
            continue
        if name in own or (of_library and name not in others):
            found[name] = value
        elif name[:3] == "no_" and name[3:] in own and value == Known(True):
            found[name[3:]] = Known(False)
    return found


def _defaults(
    reader: Reader, of: Value, given: Call, values: Mapping[str, Value] | None = None, is_open: bool = False
) -> Value:
    made: Instance | Made
    if isinstance(of, Class):
        made = instance(reader, of, Call("", (), values or {}, given.source, is_open))
        complete(reader, made, given)
        for name in MAY_BE_PASSED if is_open and external_bases(of) else ():
            made.attributes.setdefault(name, Undetermined(_why_open(reader, name), given.source))
        unset = (name for name in _FALSE if name not in reader.command.options)
        for name in unset if values is not None and _is_of_transformers(of) and reader.command.is_given else ():
            made.attributes.setdefault(name, Known(False))
    elif isinstance(of, External):
        said = values or {}
        if of.last == "ModelConfig" and not is_open:
            said = {**_OF_MODEL_CONFIG, **_dtype_of_model(said), **said}
        made = Made(of.name, (), said, given.source, is_open=is_open)
        if of.last == "ModelConfig":
            made.attributes[FLAGS] = Items([Known(name) for name in sorted(values or {})])
        elif is_open:
            unsaid = (name for name in MAY_BE_PASSED if name not in said)
            made.attributes.update({name: Undetermined(_why_open(reader, name), given.source) for name in unsaid})
        reader.observe(made)
    else:
        return Undetermined("an argument class that memlint does not know", given.source)
    if values is None:
        made.attributes[FROM_COMMAND_LINE] = Known(True)
    return made


def _why_open(reader: Reader, name: str) -> str:
    """Why an argument may be given that no flag and no file says."""
    return f"the command's caller may give `{name}`" if reader.command.is_open else f"a file that {NOT_READ} may say it"


# What transformers' own arguments have where no flag says it (5.23 training_args.py). TRL's classes differ by release.
_FALSE = ("bf16", "fp16")


# What ModelConfig says where no flag does, alike in all releases (trl 0.8.6 and 1.16.0 trainer/model_config.py).
_OF_MODEL_CONFIG: Mapping[str, Value] = {
    "attn_implementation": Known(None),
    **dict.fromkeys(("load_in_4bit", "load_in_8bit", "use_peft"), Known(False)),
}


def _is_of_transformers(of: Class) -> bool:
    names = [base.last for base in external_bases(of) if isinstance(base, External)]
    return any(name.endswith("TrainingArguments") for name in names)


def _dtype_of_model(said: Mapping[str, Value]) -> dict[str, Value]:
    """Both names of ModelConfig's dtype: float32 unless said, as transformers 4 loads without one (trl 1.16.0
    trainer/model_config.py; 0.24 made `torch_dtype` another name of `dtype`)."""
    dtype = said.get("dtype") or said.get("torch_dtype") or Known("float32")
    return dict.fromkeys(("dtype", "torch_dtype"), dtype)


def _parsed_file(reader: Reader, given: Call) -> Value | None:
    """`parser.parse_yaml_file(path)`, `parser.parse_json_file(json_file=path)`."""
    path = given.named.get("json_file") or given.named.get("yaml_file")
    of_path = given if path is None else given._replace(positional=(path,))
    return _from_values(reader, given, load(reader, of_path)) if _is_parser(given.owner) else None


def _parsed_values(reader: Reader, given: Call) -> Value | None:
    """`parser.parse_dict(values)`: what the two functions above call with a file's values (transformers 5.23.0
    hf_argparser.py:358)."""
    (values,) = given.positional[:1] or (given.named.get("args"),)
    return _from_values(reader, given, values) if _is_parser(given.owner) else None


def _is_parser(owner: Value | None) -> bool:
    return isinstance(owner, Made) and owner.last.endswith("Parser") and bool(owner.positional)


def _from_values(reader: Reader, given: Call, read: Value | None) -> Value | None:
    """The parser's argument classes, filled from a table; it looks at no flag."""
    if not isinstance(read, Table) or not isinstance(given.owner, Made):
        return None
    values = {str(key): value for key, value in read.values.items()}
    (types,) = given.owner.positional
    classes = types.values if isinstance(types, Items) else [types]
    return Items(
        [_defaults(reader, one, given, _of_class(one, classes, values), read.is_open) for one in classes],
        given.source,
    )


# trl 1.16.0 trainer/model_config.py: ModelConfig's defaults, by the argument of LoraConfig.
_PEFT_OF_MODEL: Mapping[str, tuple[str, Value]] = {
    "r": ("lora_r", Known(16)),
    "lora_alpha": ("lora_alpha", Known(32)),
    "lora_dropout": ("lora_dropout", Known(0.05)),
    "target_modules": ("lora_target_modules", Known(None)),
    "modules_to_save": ("lora_modules_to_save", Known(None)),
    "use_rslora": ("use_rslora", Known(False)),
    "use_dora": ("use_dora", Known(False)),
}


def _of_model_arguments(given: Call) -> Mapping[str, Value] | None:
    (model,) = given.positional[:1] or (given.named.get("model_args"),)
    if isinstance(model, Instance):
        return model.attributes
    return {**model.arguments, **model.attributes} if isinstance(model, Made) else None


def _peft_config(reader: Reader, given: Call) -> Value | None:
    """trl 1.16.0 trainer/utils.py: `get_peft_config(model_args)` is a LoraConfig where `use_peft` is set."""
    said = _of_model_arguments(given)
    uses = (said or {}).get("use_peft", Known(False))
    if said is None or not isinstance(uses, Known):
        return None
    if not uses.value:
        return Known(None, given.source)
    arguments = {name: said.get(key, default) for name, (key, default) in _PEFT_OF_MODEL.items()}
    return Made("peft.LoraConfig", (), arguments, given.source)


def _quantization_config(reader: Reader, given: Call) -> Value | None:
    """trl 1.16.0 trainer/utils.py: `get_quantization_config(model_args)`; 4 bits are nf4 unless said."""
    said = _of_model_arguments(given)
    bits = [(said or {}).get(name, Known(False)) for name in ("load_in_4bit", "load_in_8bit")]
    if said is None or not all(isinstance(one, Known) for one in bits):
        return None
    if not any(isinstance(one, Known) and one.value for one in bits):
        return Known(None, given.source)
    four = {
        "bnb_4bit_quant_type": said.get("bnb_4bit_quant_type", Known("nf4")),
        "bnb_4bit_use_double_quant": said.get("use_bnb_nested_quant", Known(False)),
    }
    given_bits = {name: one for name, one in zip(("load_in_4bit", "load_in_8bit"), bits) if one != Known(False)}
    arguments = {**given_bits, **(four if "load_in_4bit" in given_bits else {})}
    return Made("transformers.BitsAndBytesConfig", (), arguments, given.source)


def _train_loop(reader: Reader, given: Call) -> Value | None:
    """ray 2.50 train/torch/torch_trainer.py: TorchTrainer calls `train_loop_per_worker(train_loop_config)` in as many
    processes as its scaling says."""
    reader.observe(Made(given.name, given.positional, given.named, given.source))
    loop = given.argument(0, "train_loop_per_worker")
    if isinstance(loop, PythonFunction):
        config = given.named.get("train_loop_config")
        follow(reader, loop, Call("", () if config is None else (config,), {}, given.source))
    return Known(None)


def _true(reader: Reader, given: Call) -> Value:
    return Known(True, given.source._replace(how="card"))


def _false(reader: Reader, given: Call) -> Value:
    return Known(False, given.source._replace(how="card"))


def _half_precision_of_unsloth(reader: Reader, given: Call) -> Value:
    """Unsloth's own `is_bf16_supported` is false on a card that only emulates bfloat16 (unsloth 2026.10.9
    __init__.py:429-444), and torch's is true there (from torch 2.3 on)."""
    reader.observe(Made(ASKS_FOR_CARD, (), {}, given.source))
    card = reader.command.card
    has_bfloat16 = card is None or card.is_least or card.major >= 8
    return Known(has_bfloat16, given.source._replace(how="card"))


def _half_precision_of_torch(reader: Reader, given: Call) -> Value:
    """torch's own, which an import of Unsloth replaces by one that leaves emulation out (unsloth 2024.8
    __init__.py:88-97, 2026.10.9 _gpu_init.py:562-577)."""
    emulates = is_on(given.argument(0, "including_emulation"))
    is_replaced = "unsloth" in reader.imported and not emulates
    return _half_precision_of_unsloth(reader, given) if is_replaced else _true(reader, given)


# A script asked for the compute capability of its card.
ASKS_FOR_CARD = "compute capability"


def _of_the_card(reader: Reader, given: Call) -> Value:
    return Undetermined("which GPU the script runs on", given.source)


def _capability(reader: Reader, given: Call) -> Items:
    """Major and minor number: those of the card, or the least that they may be."""
    reader.observe(Made(ASKS_FOR_CARD, (), {}, given.source))
    card, unknown = reader.command.card, Undetermined("which GPU the script runs on", given.source)
    if card is None:
        return Items([unknown, unknown], given.source)
    if not card.is_least:
        return Items([Known(card.major, given.source), Known(card.minor, given.source)], given.source)
    return Items([unknown._replace(least=card.major), unknown._replace(least=card.minor)], given.source)


def _properties(reader: Reader, given: Call) -> Value:
    major, minor = _capability(reader, given).values
    return Table({"major": major, "minor": minor}, given.source, is_open=True)


def _processes(reader: Reader, given: Call) -> Value:
    """The number of processes that the launcher starts, where it is known; that of the GPUs of a machine is not."""
    count = reader.command.environment.get("WORLD_SIZE")
    if given.name.endswith("get_world_size") and isinstance(count, Known) and str(count.value).isdigit():
        return Known(int(str(count.value)), given.source)
    return Undetermined(NUMBER_OF_GPUS, given.source)


_WHOLE_NUMBERS = ("uint8", "int8", "int16", "int32", "int64", "long", "int", "short", "bool")


def _scales(reader: Reader, given: Call) -> Value | None:
    """`scaler.is_enabled()` (torch 2.13 amp/grad_scaler.py: enabled unless told otherwise)."""
    scaler = given.owner
    if not isinstance(scaler, Made) or scaler.last != "GradScaler":
        return None
    return scaler.arguments.get("enabled") or Known(True, given.source)


CONSTANTS: Mapping[str, Value] = {
    **{f"torch.{name}.is_floating_point": Known(True) for name in DTYPES},
    **{f"torch.{name}.is_floating_point": Known(False) for name in _WHOLE_NUMBERS},
}
LIBRARIES: Mapping[str, Library] = {
    **LIGHTNING,
    **IGNITE,
    ".gradient_checkpointing_enable": _checkpointing(True),
    ".set_attn_implementation": _sets_attention,
    ".gradient_checkpointing_disable": _checkpointing(False),
    **{
        f"{module}.{name}.from_pretrained": _model_and_tokenizer
        for module in ("unsloth", "unsloth.models", "FastLanguageModel")
        for name in ("FastLanguageModel", "FastModel", "FastVisionModel")
    },
    **dict.fromkeys(("trl.get_peft_config", "trl.trainer.utils.get_peft_config"), _peft_config),
    **dict.fromkeys(("trl.get_quantization_config", "trl.trainer.utils.get_quantization_config"), _quantization_config),
    ".TorchTrainer": _train_loop,
    **dict.fromkeys((".prepare", ".prepare_model"), _prepare),
    "peft.set_peft_model_state_dict": _same,  # loads weights into its first argument, which old releases give back
    "trl.setup_chat_format": _prepare,  # trl 0.24 models/utils.py: gives back the model and the tokenizer
    "accelerate.utils.broadcast_object_list": _broadcast,
    **dict.fromkeys((".cuda", ".compile", ".for_training", ".for_inference"), _same),
    **dict.fromkeys((".train", ".eval"), _mode),
    "copy of get_peft_model": _get_peft_model,
    ".requires_grad_": _frozen,
    ".add_adapter": _add_adapter,
    **dict.fromkeys((".register_forward_hook", ".register_forward_pre_hook", ".register_full_backward_hook"), _hook),
    **dict.fromkeys(
        (
            "torchao.float8.convert_to_float8_training",
            "torchao.quantization.quantize_",
            "torchao.quantization.quant_api.quantize_",
        ),
        _convert,
    ),
    ".to": _cast,
    **{f".{name}": _cast_to(dtype) for name, dtype in _CASTS.items()},
    "inherited to": _cast_module,
    **{f"inherited {name}": _cast_module_to(dtype) for name, dtype in _CASTS.items()},
    "inherited gradient_checkpointing_enable": _module_checkpoints,
    **dict.fromkeys((".DistributedDataParallel", ".DataParallel", ".FullyShardedDataParallel"), _wrapped),
    "deepspeed.initialize": _engine,
    ".initialize": _apex,
    **dict.fromkeys((".append", ".extend", ".update", ".add_module"), _added_to_container),
    ".fully_shard": _fully_shard,
    ".apply_activation_checkpointing": _apply_checkpointing,
    **dict.fromkeys(("functools.partial", "partial"), _partial),
    "deepspeed.add_config_arguments": _adds_engine_flags,
    **dict.fromkeys((".HfArgumentParser", ".TrlParser", ".H4ArgumentParser"), _argument_parser),
    **dict.fromkeys(("class transformers.HfArgumentParser", "class trl.TrlParser"), _argument_parser),
    **dict.fromkeys((".parse_args_into_dataclasses", ".parse_args_and_config", ".parse"), _parsed),
    **dict.fromkeys((".parse_yaml_file", ".parse_json_file"), _parsed_file),
    ".parse_dict": _parsed_values,
    # What depends on the card: any card since 2020 has bfloat16 (compute capability 8.0), and training needs a card.
    **dict.fromkeys((".is_bf16_supported", ".is_bfloat16_supported", "torch.cuda.is_available"), _true),
    # Accelerators of other kinds than the cards that memlint knows.
    **dict.fromkeys(
        (
            *("torch.xpu.is_available", "torch.npu.is_available", "torch.mps.is_available", "torch.hpu.is_available"),
            *("torch.backends.mps.is_available", ".is_torch_xpu_available", ".is_torch_npu_available"),
            *(
                ".is_torch_mps_available",
                ".is_torch_hpu_available",
                ".is_torch_mlu_available",
                ".is_torch_xla_available",
            ),
        ),
        _false,
    ),
    "torch.cuda.is_bf16_supported": _half_precision_of_torch,
    **dict.fromkeys(("unsloth.is_bf16_supported", "unsloth.is_bfloat16_supported"), _half_precision_of_unsloth),
    ".is_enabled": _scales,
    "torch.device": _device,
    ".get_device_name": _of_the_card,
    ".get_device_capability": _capability,
    ".get_device_properties": _properties,
    **dict.fromkeys(("torch.cuda.device_count", ".get_world_size"), _processes),
}
