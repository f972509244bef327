"""Combinations that LLaMA-Factory refuses (hparams/parser.py, finetuning_args.py, data_args.py, model_args.py).

Each line is one `raise` of the source: the key that is to blame, what is wrong, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Issue
from memlint.formats.llamafactory.config import Config
from memlint.formats.llamafactory.method import needs_reference

_GALORE_OPTIMIZERS = ("adamw_torch", "adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit", "adafactor")


class View(NamedTuple):
    """What the tests look at. `zero` is the ZeRO stage where it is known, `world` the world size."""

    config: Config
    zero: Any
    world: Any
    sharded: bool  # ZeRO-3 or FSDP

    def on(self, key: str) -> bool:
        return self.config.own.flag(key)

    def hf(self, key: str) -> bool:
        return self.config.hf.flag(key)

    def number(self, key: str) -> float:
        value = self.config.own.number(key)
        return float(value or 0)

    @property
    def bits(self) -> int | None:
        return self.config.own.integer("quantization_bit")

    @property
    def adapters(self) -> int:
        return len(self.config.words("adapter_name_or_path"))

    @property
    def evaluates(self) -> bool:
        strategy = self.config.hf.word("eval_strategy")
        asked = self.hf("do_eval") or self.hf("do_predict") or self.hf("predict_with_generate")
        return asked or strategy not in ("no", "")

    @property
    def distributed(self) -> bool:
        return isinstance(self.world, int) and self.world > 1


ABSENT = "unless the command line gives it, "  # `llamafactory-cli train x.yaml dataset=d` adds keys

Rule = tuple[str, str, Callable[[View], bool]]

_ALWAYS: tuple[Rule, ...] = (
    # parser.py:233-252 _verify_model_args
    (
        "adapter_name_or_path",
        "adapters are only valid with `finetuning_type: lora`",
        lambda v: v.adapters > 0 and v.config.tuning != "lora",
    ),
    (
        "quantization_bit",
        "a quantised model can only be tuned with LoRA or OFT",
        lambda v: v.bits is not None and v.config.tuning not in ("lora", "oft"),
    ),
    ("pissa_init", "PiSSA cannot start from a quantised model", lambda v: v.bits is not None and v.on("pissa_init")),
    (
        "resize_vocab",
        "the embeddings of a quantised model cannot be resized",
        lambda v: v.bits is not None and v.on("resize_vocab"),
    ),
    (
        "create_new_adapter",
        "no new adapter can be made upon a quantised model with an adapter",
        lambda v: v.bits is not None and v.adapters > 0 and v.on("create_new_adapter"),
    ),
    (
        "adapter_name_or_path",
        "a quantised model takes a single adapter: merge them first",
        lambda v: v.bits is not None and v.adapters > 1,
    ),
    # finetuning_args.py:596-635
    (
        "stage",
        ABSENT + "stage ppo needs a `reward_model`",
        lambda v: v.config.stage == "ppo" and v.config.own.get("reward_model") is None,
    ),
    (
        "reward_model_type",
        "a lora reward model needs `finetuning_type: lora`",
        lambda v: v.config.stage == "ppo" and _reward(v) == "lora" and v.config.tuning != "lora",
    ),
    (
        "dpo_label_smoothing",
        "label smoothing works with `pref_loss: sigmoid` alone",
        lambda v: v.config.stage == "dpo" and _loss(v) != "sigmoid" and v.number("dpo_label_smoothing") > 1e-6,
    ),
    ("use_llama_pro", "LLaMA Pro needs freeze or LoRA tuning", lambda v: v.on("use_llama_pro") and _full(v)),
    (
        "finetuning_type",
        "LoRA cannot be combined with GaLore, APOLLO or BAdam",
        lambda v: v.config.tuning == "lora" and _blockwise(v) > 0,
    ),
    ("finetuning_type", "GaLore, APOLLO and BAdam exclude each other", lambda v: _blockwise(v) > 1),
    (
        "pissa_init",
        "PiSSA cannot be used in a stage with a reference model",
        lambda v: v.on("pissa_init") and (v.config.stage in ("ppo", "kto") or _dpo_reference(v)),
    ),
    *(
        (key, f"`{key}` works with LoRA alone", lambda v, key=key: v.on(key) and v.config.tuning != "lora")
        for key in ("use_rslora", "use_dora", "pissa_init")
    ),
    (
        "loraplus_lr_ratio",
        "`loraplus_lr_ratio` works with LoRA alone",
        lambda v: v.config.own.get("loraplus_lr_ratio") is not None and v.config.tuning != "lora",
    ),
    # data_args.py:160-183
    (
        "val_size",
        ABSENT + "`val_size` needs a `dataset`",
        lambda v: (
            v.config.own.get("dataset") is None and "dataset" not in v.config.held and v.number("val_size") > 1e-6
        ),
    ),
    (
        "val_size",
        "`val_size` and `eval_dataset` exclude each other",
        lambda v: v.config.own.get("eval_dataset") is not None and v.number("val_size") > 1e-6,
    ),
    (
        "max_samples",
        "`max_samples` does not work with streaming",
        lambda v: v.on("streaming") and v.config.own.get("max_samples") is not None,
    ),
    (
        "mask_history",
        "`mask_history` and `train_on_prompt` exclude each other",
        lambda v: v.on("mask_history") and v.on("train_on_prompt"),
    ),
    # model_args.py:348
    (
        "image_max_pixels",
        "`image_max_pixels` is smaller than `image_min_pixels`",
        lambda v: v.number("image_max_pixels") < v.number("image_min_pixels"),
    ),
    # model_args.py:530
    (
        "kt_cpu_activation",
        "`kt_cpu_activation` needs `use_kt: true`",
        lambda v: v.config.own.get("kt_cpu_activation") is not None and not v.on("use_kt"),
    ),
)

_TRAINING: tuple[Rule, ...] = (
    # parser.py:395-540 get_train_args
    *(
        (key, f"`{key}` works in stage sft alone", lambda v, key=key: v.config.stage != "sft" and v.on(key))
        for key in ("predict_with_generate", "neat_packing", "train_on_prompt", "mask_history")
    ),
    (
        "load_best_model_at_end",
        "stages rm and ppo cannot load the best model at the end",
        lambda v: v.config.stage in ("rm", "ppo") and v.hf("load_best_model_at_end"),
    ),
    ("shift_attn", "stage ppo does not work with shift_attn", lambda v: v.config.stage == "ppo" and v.on("shift_attn")),
    (
        "streaming",
        ABSENT + "streaming needs `max_steps`",
        lambda v: v.on("streaming") and (v.config.hf.number("max_steps") or -1) == -1,
    ),
    (  # data/collator.py:539, in 0.9.5 :528
        "neat_packing",
        "where FlashAttention 2 runs, neat_packing takes one sequence a batch (`per_device_train_batch_size: 1`)",
        lambda v: (
            v.on("neat_packing")
            and v.config.own.word("flash_attn") == "fa2"
            and v.config.stage == "sft"
            and (v.config.hf.number("per_device_train_batch_size") or 8) > 1
            and "per_device_train_batch_size" not in v.config.held
            and v.config.versions["llamafactory"] >= (0, 9, 5)
        ),
    ),
    (  # transformers 5.1.0 trainer.py:686; the key is gone since 5.2
        "group_by_length",
        "`group_by_length` does not work with streaming",
        lambda v: v.on("streaming") and v.hf("group_by_length") and v.config.stage != "ppo",
    ),
    (
        "do_train",
        ABSENT + "training needs a `dataset`",
        lambda v: v.hf("do_train") and v.config.own.get("dataset") is None and "dataset" not in v.config.held,
    ),
    (
        "eval_strategy",
        ABSENT + "evaluation needs `eval_dataset` or `val_size`",
        lambda v: (
            v.evaluates and v.config.own.get("eval_dataset") is None and v.number("val_size") < 1e-6 and _untold(v)
        ),
    ),
    (
        "predict_with_generate",
        "`predict_with_generate` does not work under DeepSpeed ZeRO-3",
        lambda v: v.zero == 3 and v.hf("predict_with_generate"),
    ),
    (
        "compute_accuracy",
        "`compute_accuracy` and `predict_with_generate` exclude each other",
        lambda v: v.hf("predict_with_generate") and v.on("compute_accuracy"),
    ),
    (
        "quantization_device_map",
        "a quantised model with a device map cannot train",
        lambda v: v.hf("do_train") and v.config.own.get("quantization_device_map") == "auto",
    ),
    *(
        (key, f"`{key}` does not work under DeepSpeed ZeRO-3", lambda v, key=key: v.zero == 3 and v.on(key))
        for key in ("pissa_init", "pure_bf16", "use_unsloth", "use_kt")
    ),
    *(
        (
            key,
            f"`{key}` works on a single GPU alone",
            lambda v, key=key: v.distributed and v.on(key) and _parent(v, key),
        )
        for key in ("galore_layerwise", "apollo_layerwise")
    ),
    (
        "use_badam",
        "on several GPUs BAdam needs `badam_mode: layer` and DeepSpeed ZeRO-3",
        lambda v: (
            v.distributed and v.on("use_badam") and (v.config.own.word("badam_mode") == "ratio" or v.zero in (0, 1, 2))
        ),
    ),
    *(
        (
            key,
            f"`{key}` does not work with DeepSpeed",
            lambda v, key=key: bool(v.config.hf.get("deepspeed")) and v.on(key),
        )
        for key in ("use_galore", "use_apollo")
    ),
    (
        "use_kt",
        "KTransformers trains with LoRA or whole",  # model_args.py:616
        lambda v: v.on("use_kt") and v.config.tuning not in ("lora", "full"),
    ),
    ("fp8", "FP8 training does not work with quantisation", lambda v: v.on("fp8") and v.bits is not None),
    (
        "infer_backend",
        "vLLM and SGLang serve inference, they cannot train",
        lambda v: v.config.own.word("infer_backend") in ("vllm", "sglang"),
    ),
    # model_utils/quantization.py:94-226
    (
        "quantization_bit",
        "ZeRO-3 and FSDP do not work with 8-bit models, HQQ or EETQ",
        lambda v: v.sharded and v.bits is not None and (v.bits != 4 or _method(v) in ("hqq", "eetq")),
    ),
    (
        "model_name_or_path",
        "ZeRO-3 and FSDP do not work with a checkpoint that is quantised already",
        lambda v: v.sharded and _stored(v) not in ("none", "", "mxfp4", "fp8", "bnb"),
    ),
    (
        "quantization_bit",
        "bitsandbytes quantises to 4 or 8 bits",
        lambda v: v.bits not in (None, 4, 8) and _method(v) == "bnb" and _stored(v) in ("none", ""),
    ),
    (
        "quantization_bit",
        "EETQ quantises to 8 bits",
        lambda v: v.bits not in (None, 8) and _method(v) == "eetq" and _stored(v) in ("none", ""),
    ),
    # train/trainer_utils.py:246-250
    *(
        (
            "optim",
            f"`{key}` takes only {', '.join(known)}",
            lambda v, key=key, known=known: (
                v.on(key) and v.config.hf.written("optim") is not None and _optim(v) not in known
            ),
        )
        for key, known in (("use_galore", _GALORE_OPTIMIZERS), ("use_apollo", _GALORE_OPTIMIZERS[:1]))
    ),
    *(
        (
            "gradient_accumulation_steps",
            f"`{key}` works without gradient accumulation alone",
            lambda v, key=key: (
                v.on(key) and _parent(v, key) and v.config.hf.integer("gradient_accumulation_steps") != 1
            ),
        )
        for key in ("galore_layerwise", "apollo_layerwise")
    ),
)


def conflicts(view: View) -> Iterator[Issue]:
    """One issue for each check of LLaMA-Factory that the configuration would not pass."""
    runs = view.config.training or view.hf("do_predict") or view.hf("do_eval")  # `llamafactory-cli train`
    rules = _ALWAYS + _TRAINING if runs else _ALWAYS
    for key, message, refused in rules:
        if refused(view):
            place = view.config.own.written(key) or view.config.hf.written(key)  # a key may have its old name
            keys = (place,) if place else ()
            severity = "warning" if message.startswith(ABSENT) else "error"
            text = f"LLaMA-Factory refuses this: {message}"
            yield view.config.section.issue("conflict", text, *keys, severity=severity)


def _reward(view: View) -> str:
    return view.config.own.word("reward_model_type") or "lora"


def _loss(view: View) -> str:
    return view.config.own.word("pref_loss") or "sigmoid"


def _full(view: View) -> bool:
    return view.config.tuning == "full"


def _blockwise(view: View) -> int:
    return sum(view.on(key) for key in ("use_galore", "use_apollo", "use_badam"))


def _dpo_reference(view: View) -> bool:
    return view.config.stage == "dpo" and needs_reference(view.config)


def _untold(view: View) -> bool:
    """Neither `eval_dataset` nor `val_size` is an interpolation; before 0.8.3 predictions were made of `dataset`."""
    predicts = not view.config.training and view.config.own.get("dataset") is not None
    return not predicts and not {"eval_dataset", "val_size"} & view.config.held


def _parent(view: View, key: str) -> bool:
    return view.on("use_" + key.partition("_")[0])


def _method(view: View) -> str:
    method = view.config.own.word("quantization_method")
    return "bnb" if method == "bitsandbytes" else method


def _stored(view: View) -> str:
    architecture = view.config.architecture
    return architecture.stored.method if architecture is not None else "none"


def _optim(view: View) -> str:
    return view.config.hf.word("optim")
