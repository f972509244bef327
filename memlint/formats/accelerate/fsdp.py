"""FSDP options of accelerate files and of `fsdp_config`, as neutral fields (accelerate 1.15, transformers 5.23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Fields, Section, as_bool, as_int, as_words
from memlint.run import Origin

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")  # FSDP_SHARDING_STRATEGY
PREFETCHES = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")  # FSDP_BACKWARD_PREFETCH


class Options(NamedTuple):
    """FSDP options with or without the `fsdp_` prefix, and the launcher's defaults for the rest."""

    section: Section
    defaults: dict[str, Any]
    source: str

    def _key(self, name: str) -> str:
        prefixed = f"fsdp_{name}"
        return prefixed if prefixed in self.section.value else name

    def get(self, name: str) -> Any:
        value = self.section.value.get(self._key(name))
        return self.defaults.get(name) if value is None else value

    def origin(self, name: str) -> Origin:
        if self.section.value.get(self._key(name)) is None:
            return Origin("default", detail=self.source)
        return self.section.origin(self._key(name))

    def version(self) -> int:
        """1 or 2."""
        said = as_int(self.get("version"))
        return said if said in (1, 2) else int(self.defaults["version"])

    def flag(self, name: str) -> bool:
        value = as_bool(self.get(name))
        return bool(self.defaults.get(name)) if value is None else value


# accelerate 1.15 commands/launch.py argument defaults, and FullyShardedDataParallelPlugin for what stays unset.
LAUNCH_DEFAULTS: dict[str, Any] = {
    "version": 1,
    "sharding_strategy": "FULL_SHARD",
    "auto_wrap_policy": "NO_WRAP",
    "min_num_params": 100_000_000,
    "backward_prefetch": "NO_PREFETCH",
    "state_dict_type": "",
    "use_orig_params": True,
    "cpu_ram_efficient_loading": True,
    "reshard_after_forward": True,
}
# transformers 5.23 TrainingArguments._process_fsdp_args
TRAINER_DEFAULTS: dict[str, Any] = {
    "version": 2,
    "sharding_strategy": "FULL_SHARD",
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "backward_prefetch": "NO_PREFETCH",
    "state_dict_type": "FULL_STATE_DICT",
    "use_orig_params": True,
    "cpu_ram_efficient_loading": False,
    "reshard_after_forward": True,
}


# Since 5.10 `fsdp_config` says all of it. Before, `auto_wrap` was a word of `fsdp`, version 1 the default, and
# what is saved accelerate's choice (5.9.0 training_args.py:2788). Up to 4.57 no version was read either (4.57.6 :2004).
_SAYS_ALL = (5, 10)


def trainer_options(section: Section, words: Sequence[str], transformers: tuple[int, ...], source: str) -> Options:
    """`fsdp` and `fsdp_config` of TrainingArguments as a release of transformers reads them."""
    defaults: dict[str, Any] = {**TRAINER_DEFAULTS, **said_by_words(words)}
    if transformers < _SAYS_ALL:
        by_size = as_int(section.value.get("fsdp_min_num_params", section.value.get("min_num_params")))
        wrap = "SIZE_BASED_WRAP" if by_size else "TRANSFORMER_BASED_WRAP"
        defaults |= {"version": 1, "state_dict_type": ""}
        defaults["auto_wrap_policy"] = wrap if "auto_wrap" in words else "NO_WRAP"
        unread = {"state_dict_type", "auto_wrap_policy", *(() if transformers >= (5,) else ("version",))}
        read = {key: value for key, value in section.value.items() if str(key).removeprefix("fsdp_") not in unread}
        section = section._replace(value=read)
    return Options(section, defaults, source)


def said_by_words(words: Sequence[str]) -> dict[str, Any]:
    """What `fsdp: full_shard offload` says itself (transformers TrainingArguments._process_fsdp_args)."""
    found: dict[str, Any] = {"offload_params": True} if "offload" in words else {}
    for word in words:
        if word.upper() in STRATEGIES:
            found["sharding_strategy"] = word.upper()
    return found


def apply_fsdp(fields: Fields, options: Options, origin: Origin) -> None:
    """Fill `parallelism.fsdp`; call it after mixed precision is known. `origin` is where FSDP is asked for."""
    fields.put("parallelism.engine", "fsdp", origin)
    version = options.version()
    fields.put("parallelism.fsdp.version", version, options.origin("version"))
    _strategy(fields, options, version)
    _wrap(fields, options)
    _prefetch(fields, options, version)
    for field, name, other in (
        ("cpu_offload", "offload_params", "cpu_offload"),
        ("use_orig_params", "use_orig_params", "use_orig_params"),
        ("cpu_ram_efficient_loading", "cpu_ram_efficient_loading", "cpu_ram_efficient_loading"),
    ):
        name = name if options.get(name) is not None else other
        fields.put(f"parallelism.fsdp.{field}", options.flag(name), options.origin(name))
    _state_dict(fields, options, version)
    _checkpointing(fields, options)
    _precision(fields, version)


def _strategy(fields: Fields, options: Options, version: int) -> None:
    """Version 1 names a strategy (a name or its number); version 2 only says whether to reshard after forward."""
    name = "sharding_strategy"
    value: Any = options.get(name)
    if (
        version == 1
        and isinstance(options.get("reshard_after_forward"), str)
        and options.section.value.get("fsdp_sharding_strategy") is None
    ):
        name, value = "reshard_after_forward", options.get("reshard_after_forward")
    strategy = _named(value, STRATEGIES) or "FULL_SHARD"
    reshards = strategy in ("FULL_SHARD", "HYBRID_SHARD")
    if version == 2:
        name, reshards = "reshard_after_forward", options.flag("reshard_after_forward")
        strategy = "FULL_SHARD" if reshards else "SHARD_GRAD_OP"
    fields.put("parallelism.fsdp.strategy", strategy, options.origin(name))
    fields.put("parallelism.fsdp.reshard_after_forward", reshards, options.origin(name))


def _named(value: Any, names: tuple[str, ...]) -> str:
    """One of `names` by name (any case) or by its number, which starts at 1; "" for anything else."""
    number = as_int(value)
    if number is not None:
        return names[number - 1] if 1 <= number <= len(names) else ""
    return value.upper() if isinstance(value, str) and value.upper() in names else ""


def _wrap(fields: Fields, options: Options) -> None:
    """A size-based policy with no size wraps nothing (accelerate 1.15 utils/dataclasses.py:2095)."""
    policy = str(options.get("auto_wrap_policy")).upper()
    size = as_int(options.get("min_num_params"))
    by_size = "size" if size else "none"
    wrap = {"TRANSFORMER_BASED_WRAP": "transformer", "SIZE_BASED_WRAP": by_size}.get(policy, "none")
    fields.put("parallelism.fsdp.wrap", wrap, options.origin("auto_wrap_policy"))
    classes = as_words(options.get("transformer_layer_cls_to_wrap"))
    if classes:
        fields.put("parallelism.fsdp.wrapped_classes", classes, options.origin("transformer_layer_cls_to_wrap"))
    if size is not None:
        fields.put("parallelism.fsdp.min_num_params", size, options.origin("min_num_params"))


def _prefetch(fields: Fields, options: Options, version: int) -> None:
    prefetch = _named(options.get("backward_prefetch"), PREFETCHES) or "NO_PREFETCH"
    if version == 2:
        # FSDP2 has no such option: it prefetches the next unit's all-gather in backward by itself.
        fields.infer("parallelism.fsdp.backward_prefetch", "BACKWARD_PRE", "FSDP2 prefetches by itself")
    else:
        word = "NONE" if prefetch == "NO_PREFETCH" else prefetch
        fields.put("parallelism.fsdp.backward_prefetch", word, options.origin("backward_prefetch"))
    fields.put(
        "parallelism.fsdp.forward_prefetch", options.flag("forward_prefetch"), options.origin("forward_prefetch")
    )


def _state_dict(fields: Fields, options: Options, version: int) -> None:
    """accelerate: FULL_STATE_DICT for version 1 and SHARDED_STATE_DICT for 2 when nothing is said."""
    said = options.get("state_dict_type")
    default = "SHARDED_STATE_DICT" if version == 2 else "FULL_STATE_DICT"
    kind = said.upper() if isinstance(said, str) and said else default
    fields.put("parallelism.fsdp.state_dict_type", kind, options.origin("state_dict_type"))
    full = kind == "FULL_STATE_DICT"
    fields.put("saving.gathers_full_weights", full, options.origin("state_dict_type"))


def _checkpointing(fields: Fields, options: Options) -> None:
    """FSDP's own checkpointing wraps each unit and is not reentrant (accelerate 1.15 accelerator.py)."""
    on = options.flag("activation_checkpointing")
    fields.put("parallelism.fsdp.activation_checkpointing", on, options.origin("activation_checkpointing"))
    if on:
        fields.put("checkpointing.mode", "full", options.origin("activation_checkpointing"))
        fields.put("checkpointing.reentrant", False, options.origin("activation_checkpointing"))
    if options.flag("activation_checkpointing_offload"):
        fields.put("checkpointing.offload", True, options.origin("activation_checkpointing_offload"))


def _precision(fields: Fields, version: int) -> None:
    """Mixed precision becomes FSDP's policy, and trainable parameters are turned into fp32 (accelerator.py:1999).

    Version 2 computes in the policy's dtype as autocast would and leaves the model's outputs alone
    (accelerator.py:1674, _prepare_fsdp2), and turns nothing into fp32 beside 4-bit weights (fsdp_utils.py:815).
    """
    mixed = bool(fields.get("precision.autocast", False))
    four_bits = fields.get("model.quantization.bits", 16) == 4
    reason = "accelerate turns low-precision trainable parameters into fp32 under mixed precision"
    fields.infer("parallelism.fsdp.upcasts_trainable", mixed and not (version == 2 and four_bits), reason)
    if version == 2:
        fields.infer("precision.outputs_to_fp32", False, "accelerate 1.15 leaves the outputs of FSDP2 models")
    compute = fields.get("precision.compute", "")
    if mixed and isinstance(compute, str) and compute:
        fields.infer("parallelism.fsdp.param_dtype", compute, "mixed precision gives FSDP's policy")
        fields.infer("parallelism.fsdp.reduce_dtype", compute, "mixed precision gives FSDP's policy")
