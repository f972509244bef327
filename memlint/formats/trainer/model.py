"""Model, dtype, attention and quantization of a Trainer file, where a key's meaning depends on others."""

from __future__ import annotations

import posixpath
import re

from memlint.architectures.model import StoredWeights
from memlint.formats.base import named_model
from memlint.formats.fields import STATED_MODEL, Fields, as_bool, as_int, interpolated
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.families import LEAVES_DTYPE_OF_CONFIG, MADE_IN_DTYPE_OF_CONFIG
from memlint.formats.trainer.method import training_mode, training_mode_key
from memlint.formats.trainer.recognise import OPEN_INSTRUCT
from memlint.run import Origin
from memlint.source.document import Start

DTYPES = {
    **dict.fromkeys(("bfloat16", "bf16", "torch.bfloat16"), "bfloat16"),
    **dict.fromkeys(("float16", "fp16", "half", "torch.float16"), "float16"),
    **dict.fromkeys(("float32", "fp32", "float", "torch.float32"), "float32"),
}
_FLASH_2 = ("flash_attention_2", "flash_attn_2", "kernels-community/flash-attn", "kernels-community/flash-attn2")
_FLASH_3 = ("flash_attention_3", "kernels-community/flash-attn3", "kernels-community/vllm-flash-attn3")


def model_name(config: TrainerConfig) -> tuple[str, Origin]:
    """The model as the file names it, else as the command line or the settings do."""
    name, key = config.text("model_name_or_path")
    start = config.section.document.start
    is_open = start is not None and (key,) in start.values.unknown
    if name and not (config.context.model_name and (is_open or interpolated(name, is_model=True))):
        return name, config.section.origin(key)
    return config.context.model_name, STATED_MODEL


def read_model(fields: Fields, config: TrainerConfig) -> None:
    name, origin = model_name(config)
    if name:
        fields.put("model.name", name, origin)
        _architecture(fields, config, name)
    else:
        fields.unknown("model.name", "the file names no model (`model_name_or_path`); give --model")
        fields.unknown("model.architecture", "the file names no model")


_MLX_NAME = re.compile(r"(?:^|[/_-])mlx(?:[/_-]|$)")  # mlx-community/..., mlx_models/...


def _architecture(fields: Fields, config: TrainerConfig, name: str) -> None:
    _, origin = named_model(config.context, name, config.section.document.path)
    if _MLX_NAME.search(name.lower()):
        fields.infer("stack.unmodelled", "trains weights of MLX, which runs on Apple's chips", f"the name `{name}`")
    if config.architecture is not None:
        fields.put("model.architecture", config.architecture, _origin_of_model(origin, config))
    else:
        fields.unknown("model.architecture", origin.detail)


def _origin_of_model(origin: Origin, config: TrainerConfig) -> Origin:
    """The model's origin: an inference where nobody sees that the program of a command loads what it names."""
    start = config.section.document.start
    if start is None or not (start.program.is_foreign or start.program.hides_model) or origin.kind == "inferred":
        return origin
    return Origin(
        "inferred", detail=f"the command names it; what {posixpath.basename(start.program.entry)} loads is not seen"
    )


def read_weights_dtype(fields: Fields, config: TrainerConfig) -> None:
    """`dtype` / `torch_dtype`, else the loader's default: TRL's ModelConfig fp32, transformers 5 the checkpoint's."""
    word, key = config.text("dtype")
    if config.drops(key):
        word = ""
    if word.lower() in DTYPES:
        fields.put("model.weights_dtype", DTYPES[word.lower()], config.section.origin(key))
    elif word.lower() == "auto":
        _checkpoint_dtype(fields, config, config.section.origin(key))
    elif word:
        fields.unknown("model.weights_dtype", f"`{key}: {word}` is no dtype that memlint knows")
    elif is_firefly_qlora(config):
        fields.infer("model.weights_dtype", "float16", f"{FIREFLY}: torch_dtype=torch.float16")
    elif config.trl >= (0, 27) and not _loads_model(config):
        fields.put(
            "model.weights_dtype", "float32", Origin("default", detail=f"{config.args.source} ModelConfig.dtype")
        )
    elif config.transformers >= (5,):
        _checkpoint_dtype(fields, config, _of_the_loader(config, "transformers 5 from_pretrained: dtype auto"))
    elif _is_made_in_dtype_of_config(config):
        origin = Origin("inferred", detail="the model's own code makes its layers in the dtype of its config.json")
        _checkpoint_dtype(fields, config, origin)
    else:
        fields.put("model.weights_dtype", "float32", _of_the_loader(config, "transformers 4 from_pretrained"))
    fields.put(
        "precision.trainable_dtype",
        fields.get("model.weights_dtype"),
        fields.origins["model.weights_dtype"],
    )
    if not fields.get("precision.autocast"):
        fields.put("precision.compute", fields.get("model.weights_dtype"), fields.origins["model.weights_dtype"])


def _is_made_in_dtype_of_config(config: TrainerConfig) -> bool:
    family = getattr(config.architecture, "family", "")
    return family in MADE_IN_DTYPE_OF_CONFIG and config.transformers[:2] <= LEAVES_DTYPE_OF_CONFIG


def _of_the_loader(config: TrainerConfig, detail: str) -> Origin:
    """Where a dtype comes from that no flag says: the loader's default, as far as the program asks for none."""
    start = config.section.document.start
    if start is not None and start.program.is_foreign:
        return Origin("inferred", detail=f"{detail}; what `{start.program.entry}` asks for is not known")
    return Origin("default", detail=detail)


def _loads_model(config: TrainerConfig) -> bool:
    """Whether a script loads the model itself and hands it to the trainer."""
    start = config.section.document.start
    return start is not None and start.program.loads_model


def _checkpoint_dtype(fields: Fields, config: TrainerConfig, origin: Origin) -> None:
    dtype = getattr(config.architecture, "dtype", None)
    if isinstance(dtype, str) and dtype:
        fields.put("model.weights_dtype", dtype, origin)
    else:
        fields.unknown("model.weights_dtype", "`auto` takes the checkpoint's dtype, which is not known")


def read_attention(fields: Fields, config: TrainerConfig) -> None:
    word, key = config.text("attn_implementation")
    if word:
        plain = word.lower().split(":")[0].split("@")[0].removeprefix("paged|")
        name = "flash_attention_2" if plain in _FLASH_2 else "flash_attention_3" if plain in _FLASH_3 else plain
        fields.put("attention.implementation", name, config.section.origin(key))
        return
    for key in ("use_flash_attention_2", "use_flash_attn"):
        if as_bool(config.section.value.get(key)):
            fields.put("attention.implementation", "flash_attention_2", config.section.origin(key))
            return
    if _is_memory_efficient(config.section.document.start):
        fields.infer("attention.implementation", "flash_attention_2", "`train_mem.py` trains with flash attention")
        return
    if _is_of_open_instruct(config):
        fields.default("attention.implementation", "flash_attention_2", "open-instruct: use_flash_attn is on")
    version = ".".join(map(str, config.transformers))
    fields.default("attention.implementation", "sdpa", f"transformers {version}: sdpa where the model supports it")


def _is_of_open_instruct(config: TrainerConfig) -> bool:
    """Whether open-instruct reads the keys and says the attention by itself. Names of its options that stand alone are
    others' too (transformers 5.23.0 examples/pytorch/language-modeling/run_clm_no_trainer.py: `with_tracking`), and a
    program of the repository says by itself what it loads."""
    start, value = config.section.document.start, config.section.value
    is_seen = start is not None and not start.program.is_foreign
    said = (OPEN_INSTRUCT | {"dataset_mixer"}) & value.keys()
    return not is_seen and len(said) >= 2 and "use_flash_attn" not in value


def _is_memory_efficient(start: Start | None) -> bool:
    """Whether a program that is not there is called as FastChat (0.2.36 train/train_mem.py:
    replace_llama_attn_with_flash_attn) and LLaVA (1.2.2 train/train_mem.py: attn_implementation="flash_attention_2")
    call theirs that trains with flash attention."""
    if start is None or not start.program.is_foreign:
        return False
    return start.program.entry.removesuffix(".py").replace("/", ".").rpartition(".")[2] == "train_mem"


# Checkpoints of these stay packed on the card while an adapter trains (transformers 5.23 quantizers/auto.py:
# AutoHfQuantizer.merge_quantization_configs, the checkpoint's own configuration wins).
_PACKED_METHODS = ("bnb", "gptq", "awq", "hqq", "aqlm", "eetq")


def read_quantization(fields: Fields, config: TrainerConfig) -> None:
    """A packed checkpoint's own quantisation, else bitsandbytes in 4 or 8 bits, by whichever key asks for it, and what
    follows from that key."""
    stored: StoredWeights = getattr(config.architecture, "stored", None) or StoredWeights()
    if stored.method in _PACKED_METHODS:
        _read_packed(fields, stored)
        return
    four, eight = _four_bit_key(config), _eight_bit_key(config)
    if four:
        _read_four_bits(fields, config, four)
    elif eight:
        for name, setting in (("method", "bnb"), ("bits", 8), ("kind", "int8")):
            fields.put(f"model.quantization.{name}", setting, config.section.origin(eight))


def _read_packed(fields: Fields, stored: StoredWeights) -> None:
    origin = Origin("catalog", detail=f"the checkpoint is stored as {stored.method}")
    names = ("method", "bits", "kind", "double_quant", "group_size")
    for name in names:
        fields.put(f"model.quantization.{name}", getattr(stored, name), origin)
    fields.put("model.quantization.prequantized", True, origin)


def keep_packed(fields: Fields, config: TrainerConfig) -> None:
    """A packed checkpoint stays packed, whatever the value of a switch that nobody knows."""
    if fields.get("model.quantization.prequantized", False) is True:
        _read_packed(fields, config.architecture.stored)


def loads_in_4_bits(config: TrainerConfig) -> bool:
    return bool(_four_bit_key(config))


def _four_bit_key(config: TrainerConfig) -> str:
    """TRL's `load_in_4bit`, QLoRA's `bits`, or a script's `use_qlora` / `train_mode: qlora`; "" where none asks."""
    if is_firefly_qlora(config):
        return "lora_rank"
    if _bits(config) == 4:
        return "bits"
    if training_mode(config) == "qlora":
        return training_mode_key(config)
    return next((key for key in ("load_in_4bit", "use_qlora") if config.is_on(key)), "")


def _eight_bit_key(config: TrainerConfig) -> str:
    if config.is_on("load_in_8bit"):
        return "load_in_8bit"
    return "bits" if _bits(config) == 8 else ""


_SWITCHES = frozenset(("q_lora", "qlora"))


def _bits(config: TrainerConfig) -> int | None:
    """`bits`, which means nothing where the program has a switch for it that is off (`q_lora` of Qwen's scripts)."""
    start, value = config.section.document.start, config.section.value
    switches = _SWITCHES & start.accepted.defined if start is not None else ()
    is_off = bool(switches) and not any(as_bool(value.get(one)) for one in switches)
    return None if is_off else as_int(value.get("bits"))


FIREFLY = "Firefly train_qlora.py"


def is_firefly_qlora(config: TrainerConfig) -> bool:
    """Firefly's QLoRAArguments say no bits and no mode: `train_qlora.py` loads every such file's model in 4 bits."""
    marks = ("train_file", "lora_rank", "max_seq_length")
    others = ("train_mode", "method", "bits", "use_lora", "use_peft", "use_qlora", "load_in_4bit", "load_in_8bit")
    return not config.trl and all(config.first(key) for key in marks) and not config.first(*others)


# trl/trainer/utils.py, get_quantization_config: `bnb_4bit_quant_storage=model_args.dtype` from 0.10.1 to 0.25.1.
_STORED_AS_LOADED = ((0, 10), (0, 26))


def _read_four_bits(fields: Fields, config: TrainerConfig, key: str) -> None:
    origin = config.section.origin(key)
    for name, setting in (("method", "bnb"), ("bits", 4), ("kind", "nf4")):
        fields.put(f"model.quantization.{name}", setting, origin)
    if key in ("use_qlora", "train_mode", "method", "bits", "lora_rank"):
        fields.infer("model.quantization.double_quant", True, f"scripts with `{key}` quantise twice, as QLoRA does")
    if _STORED_AS_LOADED[0] <= config.trl < _STORED_AS_LOADED[1]:
        dtype, where = config.text("dtype")
        if dtype in DTYPES:
            fields.put("model.quantization.storage_dtype", DTYPES[dtype], config.section.origin(where))
