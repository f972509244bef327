"""The model that a script hands to its trainer, as keys: name, dtype, attention, quantization, adapter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from memlint.formats.trainer.python.libraries import ADAPTER, CAST, CHECKPOINTS, DTYPES
from memlint.source.python.calls import LINEAR_NAMES
from memlint.source.python.members import elements
from memlint.source.python.methods import LIBRARY_CLASSES
from memlint.source.python.values import (
    Either,
    External,
    Instance,
    Items,
    Known,
    Made,
    Table,
    Undetermined,
    Value,
    ValueSource,
    alternatives,
    either,
    is_on,
    source_of,
)

Keys = dict[str, Value]
_METHODS = frozenset({"to", "cuda", "train", "eval", "enable_input_require_grads"})  # they give back the model
_WRAPPERS = frozenset(  # they hold it
    {"compile", "DistributedDataParallel", "DDP", "DataParallel", "FullyShardedDataParallel", "FSDP", "fully_shard"}
)
# peft 0.21.2 tuners/lora/config.py: LoraConfig's defaults; its argument -> the key.
_LORA: Mapping[str, tuple[str, Value]] = {
    "r": ("lora_r", Known(8)),
    "lora_alpha": ("lora_alpha", Known(8)),
    "lora_dropout": ("lora_dropout", Known(0.0)),
    "target_modules": ("lora_target_modules", Known(None)),
    "modules_to_save": ("lora_modules_to_save", Known(None)),
    "exclude_modules": ("lora_exclude_modules", Known(None)),
    "target_parameters": ("lora_target_parameters", Known(None)),
    "rank_pattern": ("lora_rank_pattern", Known(None)),
    "layers_to_transform": ("lora_layers_to_transform", Known(None)),
    "bias": ("lora_bias", Known("none")),
    "use_dora": ("use_dora", Known(False)),
    "use_rslora": ("use_rslora", Known(False)),
}
# unsloth 2026.8 models/llama.py, FastLlamaModel.get_peft_model.
_UNSLOTH_LORA: Mapping[str, tuple[str, Value]] = {
    **_LORA,
    "finetune_vision_layers": ("finetune_vision_layers", Known(None)),
    "r": ("lora_r", Known(16)),
    "lora_alpha": ("lora_alpha", Known(16)),
    "target_modules": (
        "lora_target_modules",
        Items([Known(f"{name}_proj") for name in ("q", "k", "v", "o", "gate", "up", "down")]),
    ),
}
# peft's utils/other.py; the second until 0.10.
PREPARES_QUANTIZED = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")
GIVES_MODEL = frozenset({*_METHODS, *_WRAPPERS, *PREPARES_QUANTIZED, "prepare", "prepare_model"})
_PEFT_ONLY = ("LoraConfig",)
MAKES_MODEL = "the script makes the model from a"  # why its name is not known: it has none, whatever a flag names
_HAS_ADAPTER = "_hf_peft_config_loaded"  # what the Trainer asks a quantised model (transformers 5.23 trainer_utils.py)


def model_keys(model: Value) -> Keys:
    """The keys that a model stands for. A key whose value depends on a condition is unknown."""
    if isinstance(model, Either):
        ways = [model_keys(one) for one in model.values]
        fresh = [keys for keys, one in zip(ways, model.values) if not _resumes(one)]
        return merged(fresh if any("use_peft" in keys for keys in fresh) else ways, model.reason)
    if isinstance(model, Known):
        is_name = isinstance(model.value, str) and model.value
        return {"model_name_or_path": model if is_name else Undetermined("the model's name is empty", model.source)}
    if isinstance(model, Undetermined):
        return {"model_name_or_path": model}
    if isinstance(model, Made):
        return _keys_of_call(model)
    if isinstance(model, Instance):
        return {"model_name_or_path": Undetermined(f"`{model.of.name}` {_OWN}", model.source)}
    return {"model_name_or_path": Undetermined("the model is not one that memlint sees", source_of(model))}


def _resumes(model: Value) -> bool:
    """Whether a model is adapted as the folder of an earlier start says, to train on. Where the script makes an adapter
    otherwise, the earlier start had the same one (qlora.py of artidoro/qlora, get_accelerate_model). Where it makes
    none, the folder is of another program."""
    return isinstance(model, Made) and _is_of_folder(model) and is_on(model.arguments.get("is_trainable"))


def _is_of_folder(model: Made) -> bool:
    return model.last == "from_pretrained" and "PeftModel" in model.name


def merged(ways: list[Keys], reason: str) -> Keys:
    """The keys of several ways: those that differ are one of several values."""
    names = list(dict.fromkeys(name for keys in ways for name in keys))
    return {name: either([keys.get(name) or Undetermined(reason) for keys in ways], reason) for name in names}


def _keys_of_call(model: Made) -> Keys:
    last = model.last
    if last in ("get_peft_model", "inject_adapter_in_model"):
        keys = _adapted(model)
    elif last in PREPARES_QUANTIZED:
        keys = _prepared(model)
    elif _is_of_folder(model):
        keys = _adapter_from(model)
    elif last == "from_pretrained" or last in ("pipeline", "from_config") or _is_made_by_its_class(model):
        keys = _loaded(model)
    elif last in EMBEDDERS:
        keys = embedder_keys(model)
    elif last in _METHODS and model.base is not None:
        keys = model_keys(model.base)
    elif last in _WRAPPERS and model.positional:
        keys = model_keys(model.positional[0])
    else:
        keys = {"model_name_or_path": Undetermined(_reason_unknown(model), model.source)}
    if CHECKPOINTS in model.attributes:
        keys[CHECKPOINTS] = model.attributes[CHECKPOINTS]
    if CAST in model.attributes:
        keys["dtype"] = dtype_of(model.attributes[CAST])
    if ADAPTER in model.attributes:
        keys.update(adapter_keys(model.attributes[ADAPTER]))
    elif _HAS_ADAPTER in model.attributes:
        keys["use_peft"] = Undetermined("the script attaches adapters of its own", model.source)
    return keys


# Models of sentence-transformers 5.7: sentence_transformer/model.py, sparse_encoder/model.py, cross_encoder/model.py
# and multi_vector_encoder/model.py.
EMBEDDERS = frozenset({"SentenceTransformer", "SparseEncoder", "CrossEncoder", "MultiVectorEncoder"})


def embedder_keys(model: Made) -> Keys:
    """`SentenceTransformer(name, model_kwargs={...})`, `SentenceTransformer(modules=[Transformer(name), Pooling()])`:
    the encoder, and the length that its tokenizer cuts to."""
    encoder = _encoder_of(model)
    if encoder is None:
        return {"model_name_or_path": Undetermined(f"the modules of `{model.last}` are the script's own", model.source)}
    keys = model_keys(_argument(encoder, 0, "model_name_or_path", "model_name") or Known("", model.source))
    given = next((encoder.arguments[one] for one in ("model_kwargs", "model_args") if one in encoder.arguments), None)
    words = {str(name): value for name, value in given.values.items()} if isinstance(given, Table) else {}
    dtype = words.get("dtype") or words.get("torch_dtype")
    if dtype is not None:
        keys["dtype"] = dtype_of(dtype)
    if "attn_implementation" in words:
        keys["attn_implementation"] = words["attn_implementation"]
    said = {**encoder.arguments, **model.arguments, **model.attributes}
    length = next((said[name] for name in ("max_seq_length", "max_length") if name in said), None)
    if length is not None and not (isinstance(length, Known) and length.value is None):
        keys["max_length"] = length
    if ADAPTER in model.attributes:
        keys.update(adapter_keys(model.attributes[ADAPTER]))
    return keys


def _encoder_of(model: Made) -> Made | None:
    """The call that names the encoder: the model's own, or that of the first module, where what stands behind it only
    pools its tokens."""
    modules = model.arguments.get("modules")
    if modules is None:
        return model
    first, *rest = modules.values if isinstance(modules, Items) and modules.values else [None]
    if not all(isinstance(one, Made) and one.last in _POOLING for one in rest):
        return None
    return first if isinstance(first, Made) and first.name.endswith("models.Transformer") else None


_POOLING = ("Pooling", "Normalize", "Dense")  # of sentence-transformers: they read one vector of a text


def _is_made_by_its_class(model: Made) -> bool:
    """`LlamaForCausalLM(config)`."""
    return model.last.endswith(_LANGUAGE_MODELS) and model.base is None and bool(model.positional or model.arguments)


def _reason_unknown(model: Made) -> str:
    """Why a model is not known that something made which is not read: a function of a module that is not there."""
    module = model.name.rpartition(".")[0].lstrip(".")
    of = f" of `{module}`" if module and model.base is None else ""
    return f"`{model.last}`{of} makes the model, whose code memlint does not see"


# Classes of transformers and unsloth that load a language model, by how their names end.
_LANGUAGE_MODELS = (
    *("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForSeq2SeqLM", "ForImageTextToText"),
    *("ForVision2Seq", "FastLanguageModel", "FastModel", "FastVisionModel", "WithLMHead"),
)


def class_of(loaded: Made) -> str:
    """`AutoModel` of `transformers.AutoModel.from_pretrained`."""
    return loaded.name.removesuffix(".from_pretrained").rpartition(".")[2]


def origin_of(model: Value) -> Value:
    """What a model was loaded as, below adapters and wrappers."""
    while isinstance(model, Made) and not loads(model):
        inner = (
            model.base
            if isinstance(model.base, Made)
            else next((one for one in given_to(model) if isinstance(one, Made)), None)
        )
        if inner is None:
            return model
        model = inner
    return model


def origins_of(model: Value) -> Iterator[Value]:
    """What a model may have been loaded as, below adapters, wrappers and conditions."""
    for one in alternatives(model):
        inner = one.base if isinstance(one, Made) and isinstance(one.base, Made) else _wrapped(one)
        if inner is None or (isinstance(one, Made) and loads(one)):
            yield one
        else:
            yield from origins_of(inner)


def _wrapped(model: Value) -> Value | None:
    """The argument of a call that is a model, or one of several."""
    given = (*model.positional, *model.arguments.values()) if isinstance(model, Made) else ()
    return next((one for one in given if any(isinstance(value, Made) for value in alternatives(one))), None)


def loads(model: Made) -> bool:
    """Whether a call loads or makes a model, whatever its class: not an adapter upon one."""
    loads = model.last in ("from_pretrained", "from_config") and "PeftModel" not in model.name.rpartition(".")[0]
    return loads or _is_made_by_its_class(model)


def given_to(model: Made) -> Iterator[Value]:
    """What a call is given: each value that an argument may have."""
    for argument in (*model.positional, *model.arguments.values()):
        yield from alternatives(argument)


# transformers 5.23 integrations/accelerate.py, check_and_set_device_map: each spreads layers over all visible GPUs.
_SPREAD = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})


def spreads_layers(model: Value) -> bool:
    """Whether a model may be loaded with a `device_map` that puts its layers on all GPUs that the script sees."""
    return any(_device_maps(model))


def spreading_device_map(model: Value) -> str:
    """The word of such a `device_map` where the model is loaded with one in any case."""
    words = list(_device_maps(model))
    return words[0] if words and all(words) else ""


def _device_maps(model: Value) -> Iterator[str]:
    """The word for each way in which the model may be loaded; "" for one that does not spread its layers."""
    for one in alternatives(model):
        loaded = origin_of(one)
        given = loaded.arguments.get("device_map") if isinstance(loaded, Made) else None
        for word in alternatives(given) if given is not None else (None,):
            yield str(word.value) if isinstance(word, Known) and word.value in _SPREAD else ""


def loading_call(model: Value | None) -> ValueSource | None:
    """The place of the call with which transformers loads a model, if the script writes all of its arguments there."""
    loaded = origin_of(model) if model is not None else None
    if not isinstance(loaded, Made) or loaded.last != "from_pretrained" or loaded.is_open or "Fast" in loaded.name:
        return None
    return loaded.source


# What loads the class that a checkpoint's config names, or is patched in: `AutoModelForCausalLM`, `FastLanguageModel`.
_LOADERS = ("Auto", "Fast")


def is_unbound(model: Made) -> bool:
    """Whether a language model's class has a name that the code neither defines nor imports: a package brings it by
    `import *` after importing it by `exec`, as LLaVA-NeXT does (llava/model/__init__.py)."""
    name, _, rest = model.name.partition(".")
    return rest == "from_pretrained" and name.endswith(_LANGUAGE_MODELS) and not name.startswith(_LOADERS)


def is_language_model(model: Value) -> bool:
    """Whether this loads a language model, `AutoModelForCausalLM.from_pretrained(...)`, or makes one."""
    if not isinstance(model, Made):
        return False
    if model.last not in ("from_pretrained", "from_config"):
        return _is_made_by_its_class(model)
    return model.name.rpartition(".")[0].endswith(_LANGUAGE_MODELS) or bool(name_of_extension(model))


def name_of_extension(model: Made) -> str:
    """The class of the repository that is loaded, where it stands on a language model of transformers and is not called
    like one, `class Scorer(LlamaForCausalLM)`, or holds one by its name, `class InternVLChatModel(PreTrainedModel)`;
    "" for others."""
    name, above = model.name.rpartition(".")[0], model.attributes.get(LIBRARY_CLASSES)
    classes = str(above.value).split() if isinstance(above, Known) else []
    stands = any(one.endswith(_LANGUAGE_MODELS) for one in classes) and not name.endswith(_LANGUAGE_MODELS)
    holds = any(one.endswith("PreTrainedModel") for one in classes) and _HOLDS_LANGUAGE_MODEL.search(name) is not None
    return name if stands or holds else ""


_HOLDS_LANGUAGE_MODEL = re.compile(r"Chat|Causal|L+M|VLM?|[Ll]lava|GPT")


def is_named_like_language_model(model: Made) -> bool:
    """Whether an object of a class of the repository is called like a language model's: `LlamaForCausalLM`."""
    is_given_any = model.base is not None or bool(model.positional or model.arguments)
    return model.name.endswith(_LANGUAGE_MODELS) and not is_given_any


_OWN = "is a model of the repository's own"


def _argument(made: Made, position: int, *names: str) -> Value | None:
    if len(made.positional) > position:
        return made.positional[position]
    return next((made.arguments[name] for name in names if name in made.arguments), None)


# transformers 4.51.3 modeling_utils.py, from_pretrained and _autoset_attn_implementation (:1998 for the last).
_SWITCHES = ("load_in_4bit", "load_in_8bit", "use_flash_attention_2")


def _loaded(model: Made) -> Keys:
    """`AutoModelForCausalLM.from_pretrained(name, ...)`, `FastLanguageModel.from_pretrained(model_name=...)`."""
    given = _argument(model, 0, "pretrained_model_name_or_path", "model_name", "model_name_or_path", "model", "config")
    name = _name_of(given)
    keys = model_keys(name) if isinstance(name, (Known, Undetermined, Either)) else {}
    keys.setdefault("model_name_or_path", Undetermined("the model's name is no plain text", model.source))
    if model.last == "from_config":  # config.dtype, the checkpoint's (transformers 5.23 modeling_utils.py:1402)
        keys["dtype"] = Known("auto", model.source)
    elif model.last != "from_pretrained" and _is_made_by_its_class(model):  # torch's dtype, whatever the config says
        keys["dtype"] = Known("float32", model.source)
    keys.update(_attention(model.arguments.get("config", given)))
    for argument in ("dtype", "torch_dtype"):
        if argument in model.arguments:
            keys["dtype"] = dtype_of(model.arguments[argument])
    keys.update(_attention(model))
    keys.update(_quantization(model.arguments.get("quantization_config")))
    keys.update({key: model.arguments[key] for key in _SWITCHES if key in model.arguments})
    if model.is_open and "quantization_config" not in model.arguments:
        keys.setdefault("load_in_4bit", _unseen_arguments(model))
    return {**keys, **_unsloth(model)} if "Fast" in model.name else keys


def _attention(of: Value | None) -> Keys:
    """What a loader or a configuration says of the attention. The property's own name works as the argument does
    (transformers 4.36.2, 4.51.3 and 5.23 configuration_utils.py, from_dict sets what the configuration has)."""
    said = {**of.arguments, **of.attributes} if isinstance(of, Made) else {}
    names = [one for one in ("attn_implementation", "_attn_implementation") if one in said]
    return {"attn_implementation": said[names[-1]]} if names else {}


def _name_of(given: Value | None) -> Value | None:
    """The model's name in what a loader is given: the name, a folder that it is downloaded to, its configuration, or a
    path of which the last part is known."""
    if isinstance(given, Either):
        return either([_name_of(one) or given for one in given.values], given.reason)
    if isinstance(given, Made) and given.last == "snapshot_download":
        return _name_of(_argument(given, 0, "repo_id", "model_id"))
    if isinstance(given, Made) and given.last == "from_pretrained" and given.name.endswith("Config.from_pretrained"):
        changed = next(filter(_SHAPE.search, (*given.arguments, *given.attributes)), "")
        if changed:
            return Undetermined(f"the script sets `{changed}` of the model's configuration", given.source)
        return _name_of(_argument(given, 0, "pretrained_model_name_or_path"))
    if isinstance(given, Made) and given.last.endswith("Config"):
        return Undetermined(f"{MAKES_MODEL} `{given.last}` of its own", given.source)
    if isinstance(given, Undetermined):
        *folders, last = given.tail.split("/")
        return Known(f"${{folder}}/{last}", given.source) if folders and last else given
    return given


# Fields of a configuration that other tensors follow from.
_SHAPE = re.compile(r"^num_|_(?:size|layers|heads|dim|types)$|^n_(?:layer|head|embd|inner)$")


STANDBY = "unsloth_vllm_standby"


def _unsloth(model: Made) -> Keys:
    """unsloth 2026.8 models/loader.py, FastLanguageModel.from_pretrained: 4 bits and 2048 tokens unless said; without a
    dtype bfloat16 on every card that has it (unsloth 2026.3.4 models/llama.py:2314). `fast_inference` starts vLLM with
    half of the card unless said."""
    length = _argument(model, 1, "max_seq_length") or (
        _unseen_arguments(model) if model.is_open else Known(2048, model.source)
    )
    keys: Keys = {"use_unsloth": Known(True, model.source), "max_length": length}
    if "fast_inference" in model.arguments:
        keys["fast_inference"] = model.arguments["fast_inference"]
        keys["gpu_memory_utilization"] = model.arguments.get("gpu_memory_utilization") or Known(0.5, model.source)
        keys |= {name: model.arguments[name] for name in (STANDBY,) if name in model.arguments}
    four: Value = _unseen_arguments(model) if model.is_open else Known(not _trains_all(model), model.source)
    if "quantization_config" in model.arguments:
        four = Undetermined("what Unsloth makes of a `quantization_config` is not known", model.source)
    keys["load_in_4bit"] = model.arguments.get("load_in_4bit") or four
    if is_on(model.arguments.get("load_in_fp8")):
        keys["load_in_4bit"] = Undetermined(
            "weights in fp8 (`load_in_fp8`) are not modelled under Unsloth", model.source
        )
    dtype = model.arguments.get("dtype")
    if (dtype is None and not model.is_open) or (isinstance(dtype, Known) and dtype.value is None):
        keys["dtype"] = Known("bfloat16", model.source)
    return keys


def dtype_of(value: Value) -> Value:
    """`torch.bfloat16` and the like as the word that a file would have."""
    if isinstance(value, Either):
        return either([dtype_of(one) for one in value.values], value.reason)
    if isinstance(value, External) and value.last in DTYPES:
        return Known(DTYPES[value.last])
    if isinstance(value, External):
        return Undetermined(f"`{value.name}` is no dtype that memlint knows")
    return value


def _quantization(config: Value | None) -> Keys:
    """`BitsAndBytesConfig(...)`; the 4-bit kind is fp4 unless said (transformers 5.23 utils/quantization_config.py)."""
    if isinstance(config, Either):
        return merged([_quantization(one) or {"load_in_4bit": Known(False)} for one in config.values], config.reason)
    if isinstance(config, Undetermined):
        return {"load_in_4bit": config}
    if not isinstance(config, Made) or config.last != "BitsAndBytesConfig":
        return {} if not isinstance(config, Made) else {"load_in_4bit": Undetermined(f"`{config.last}` is not read")}
    given = config.arguments
    keys: Keys = {key: given[key] for key in ("load_in_4bit", "load_in_8bit") if key in given}
    if "load_in_4bit" in given:
        keys["bnb_4bit_quant_type"] = given.get("bnb_4bit_quant_type") or Known("fp4", config.source)
        keys["use_bnb_nested_quant"] = given.get("bnb_4bit_use_double_quant") or Known(False, config.source)
    if "bnb_4bit_quant_storage" in given:
        keys["bnb_4bit_quant_storage"] = dtype_of(given["bnb_4bit_quant_storage"])
    return keys


def _prepared(model: Made) -> Keys:
    """peft 0.21.2 utils/other.py: prepare_model_for_kbit_training turns checkpointing on unless told otherwise; until
    0.10 (peft 0.9.0 utils/other.py:141) there was prepare_model_for_int8_training, which hands all on to it."""
    inner = _argument(model, 0, "model")
    keys = model_keys(inner) if inner is not None else {}
    keys[CHECKPOINTS] = _switch(model.arguments.get("use_gradient_checkpointing") or Known(True, model.source))
    return keys


def _adapted(model: Made) -> Keys:
    inner = _argument(model, 0, "model") or model.base
    keys = model_keys(inner) if inner is not None else {}
    if "Fast" in model.name or (isinstance(inner, Made) and "Fast" in inner.name and "r" in model.arguments):
        if isinstance(inner, Made) and _trains_all(inner):
            return keys  # Unsloth: "Full finetuning is enabled, so .get_peft_model has no effect"
        keys.update(_with_embedding_whole(_filled(_UNSLOTH_LORA, model)))
        keys[CHECKPOINTS] = _switch(model.arguments.get("use_gradient_checkpointing") or Known(True, model.source))
        return keys
    config = _argument(model, 1, "peft_config")
    return {**keys, **(adapter_keys(config) if config is not None else {})}


def _trains_all(loaded: Made) -> bool:
    """Whether Unsloth loads a model to train all of it."""
    return is_on(loaded.arguments.get("full_finetuning"))


def _with_embedding_whole(keys: Keys) -> Keys:
    """Unsloth's language models train `embed_tokens` among the targets whole, as PEFT does with `modules_to_save`;
    `lm_head` stays a target (unsloth 2026.3.4 models/llama.py:2969-2984)."""
    targets = keys.get("lora_target_modules")
    if not isinstance(targets, Items):
        return keys
    whole = [one for one in targets.values if isinstance(one, Known) and one.value == "embed_tokens"]
    if not whole:
        return keys
    kept = [one for one in targets.values if one not in whole]
    found: Keys = {"lora_target_modules": Items(kept, targets.source, targets.is_open)}
    saved = keys.get("lora_modules_to_save")
    if saved is None or isinstance(saved, Items):
        more = saved.values if saved is not None else []
        found["lora_modules_to_save"] = Items([*whole, *more], targets.source)
    return {**keys, **found}


def _switch(value: Value) -> Value:
    """Unsloth's "unsloth" as the switch that it is: its checkpointing is what `use_unsloth` stands for."""
    return value._replace(value=True) if isinstance(value, Known) and value.value == "unsloth" else value


def adapter_keys(config: Value) -> Keys:
    """`LoraConfig(...)` as keys."""
    if isinstance(config, Either):
        ways = [adapter_keys(one) or {"use_peft": Known(False)} for one in config.values]
        return merged(ways, config.reason)
    if isinstance(config, Undetermined):
        return {"use_peft": config}
    if isinstance(config, Made) and config.last in _PEFT_ONLY:
        return _filled(_LORA, config)
    return {"use_peft": Undetermined(f"`{config.last}` is not read", config.source)} if isinstance(config, Made) else {}


def _filled(table: Mapping[str, tuple[str, Value]], made: Made) -> Keys:
    keys: Keys = {"use_peft": Known(True, made.source)}
    for argument, (key, default) in table.items():
        value = made.arguments.get(argument) or (_unseen_arguments(made) if made.is_open else _placed(default, made))
        if argument == "target_modules":
            keys.update(_targets(value))
        elif isinstance(value, Items) and value.is_open:
            keys[key] = Undetermined(f"the script computes `{argument}`", value.source)
        elif not (isinstance(value, Known) and value.value is None):
            keys[key] = value
    return keys


_TOWERS = ("vision", "visual", "image_encoder", "vit")


def _targets(value: Value) -> Keys:
    """`target_modules`. A list that the code finds in the model is every linear layer; where it passes over the modules
    of a vision tower, that gets no adapter, as under Unsloth's `finetune_vision_layers=False`."""
    if isinstance(value, Known) and value.value is None:
        return {}
    if isinstance(value, Items) and value.is_open:
        return {"lora_target_modules": Undetermined("the script finds out what gets an adapter", value.source)}
    if not isinstance(value, Made) or value.last != LINEAR_NAMES:
        return {"lora_target_modules": value}
    words = [str(one.value) for one in elements(value.arguments["without"]) or () if isinstance(one, Known)]
    leaves_tower = any(tower in word for word in words for tower in _TOWERS)
    keys: Keys = {"lora_target_modules": Known("all-linear", value.source)}
    return {**keys, "finetune_vision_layers": Known(False, value.source)} if leaves_tower else keys


def _unseen_arguments(made: Made) -> Undetermined:
    return Undetermined("the script passes on arguments that memlint does not see", made.source)


def _placed(default: Value, made: Made) -> Value:
    return default._replace(source=made.source) if isinstance(default, Known) else default


def _adapter_from(model: Made) -> Keys:
    """`PeftModel.from_pretrained(model, folder)`: an adapter whose rank stands in that folder."""
    inner = _argument(model, 0, "model")
    keys = model_keys(inner) if inner is not None else {}
    return {**keys, "use_peft": Known(True, model.source), "lora_r": Undetermined("the adapter's own folder says it")}
