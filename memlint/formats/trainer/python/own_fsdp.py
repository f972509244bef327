"""FSDP that a training loop sets up by itself, in the words of `fsdp_config`.

torch 2.13 distributed/fsdp/fully_sharded_data_parallel.py (FullyShardedDataParallel, whose defaults these are), api.py,
wrap.py, and _fully_shard/_fully_shard.py (fully_shard).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.trainer.python.libraries import CERTAIN, DTYPES
from memlint.formats.trainer.python.model import Keys, origin_of
from memlint.source.python.values import Class, External, Items, Known, Made, Table, Undetermined, Value, alternatives

VERSION_1 = ("FullyShardedDataParallel", "FSDP")
VERSION_2 = "fully_shard"
_NOTHING = Known(None)
# Arguments that change no memory of a step, or that are read here. Positions: module, process_group, sharding_strategy,
# cpu_offload, auto_wrap_policy, backward_prefetch, mixed_precision, ...
_POSITIONS = (
    *("module", "process_group", "sharding_strategy", "cpu_offload", "auto_wrap_policy", "backward_prefetch"),
    *("mixed_precision", "ignored_modules", "param_init_fn", "device_id", "sync_module_states", "forward_prefetch"),
    *("limit_all_gathers", "use_orig_params", "ignored_states", "device_mesh"),
)
_NOT_READ = ("process_group", "ignored_modules", "ignored_states", "device_mesh", "ignored_params")
_STRATEGIES = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD"}
_PREFETCHES = {"BACKWARD_PRE", "BACKWARD_POST"}


class NotSeenError(Exception):
    """An argument that decides about memory is not known."""


def own_fsdp(seen: list[Made], trained: Made, adapts: bool) -> Keys:
    """The keys of a loop whose model goes through FSDP; none where it does not. `adapts`: it may train adapters."""
    calls = [made for made in seen if made.last in (*VERSION_1, VERSION_2)]
    if not calls:
        return {}
    wrapped = [made for made in calls if made.last in VERSION_1 and is_within(made, trained)]
    sharded = [made for made in calls if made.last == VERSION_2]
    try:
        if adapts:
            raise NotSeenError("what wraps its adapters")
        if len(wrapped) == 1 and all(_wraps_another(made, trained) for made in calls if made not in wrapped):
            options = options_of_version_1(wrapped[0])
        elif len(sharded) == len(calls):
            options = _version_2(sharded, trained)
        else:
            raise NotSeenError("how")
    except NotSeenError as error:
        return {"fsdp": Undetermined(f"the script wraps the model with FSDP by itself, and {error} is not seen")}
    options["no_sync"] = Known(any(made.last in ("no_sync", "set_requires_gradient_sync") for made in seen))
    return {"fsdp": Known(True), "fsdp_config": Table(dict(options))}


def _wraps_another(made: Made, trained: Made) -> bool:
    """Whether a wrapper is around another model than the trained one: a reference, beside it."""
    return made.last in VERSION_1 and origin_of(made) is not origin_of(trained)


def is_within(wrapper: Made, model: Made) -> bool:
    """Whether the trained model is this wrapper, or something around it."""
    current: Value | None = model
    while isinstance(current, Made):
        if current is wrapper:
            return True
        current = current.base or next((one for one in current.positional if isinstance(one, Made)), None)
    return False


def options_of_version_1(made: Made) -> Keys:
    """What `FullyShardedDataParallel(...)` is told. Raises NotSeenError."""
    given = {**dict(zip(_POSITIONS, made.positional)), **made.arguments}
    if made.is_open:
        raise NotSeenError("with which arguments")
    for name in _NOT_READ:
        if _is_given(given.get(name)):
            raise NotSeenError(f"`{name}`")
    strategy = _member(given.get("sharding_strategy"), "FULL_SHARD", _STRATEGIES, "the strategy")
    prefetch = _member(given.get("backward_prefetch", _NOTHING), "NO_PREFETCH", _PREFETCHES, "`backward_prefetch`")
    if "backward_prefetch" not in given:
        prefetch = "BACKWARD_PRE"
    return {
        "version": Known(1),
        "sharding_strategy": Known(strategy),
        "backward_prefetch": Known(prefetch),
        "forward_prefetch": Known(_switch(given.get("forward_prefetch"))),
        "use_orig_params": Known(_switch(given.get("use_orig_params"))),
        "offload_params": Known(offloads(given.get("cpu_offload"))),
        **wrapping(given.get("auto_wrap_policy")),
        **_precision(given.get("mixed_precision"), "MixedPrecision"),
    }


def _version_2(calls: list[Made], trained: Made) -> Keys:
    """`for layer in model.model.layers: fully_shard(layer)` and then `fully_shard(model)`."""
    parts = [_sharded_part(made, trained) for made in calls]
    if not all(made.arguments[CERTAIN] == Known(True) for made in calls) or parts[-1:] != [""]:
        raise NotSeenError("which modules")
    inner = [part for part in parts if part]
    if any(not part.endswith("s[:]") and not part.endswith(".h[:]") for part in inner) or len(inner) > 1:
        raise NotSeenError("which modules")
    given = calls[-1].arguments
    precisions = [_precision(made.arguments.get("mp_policy"), "MixedPrecisionPolicy") for made in calls]
    if any(one != precisions[-1] for one in precisions):
        raise NotSeenError("in which precision")
    reshards = [made.arguments.get("reshard_after_forward", _NOTHING) for made in calls if made is not calls[-1]]
    if any(made.is_open or "ignored_params" in made.arguments or _is_of_two(made) for made in calls):
        raise NotSeenError("with which arguments")
    if not all(one in (_NOTHING, Known(True), Known(False)) for one in map(_bare, reshards)):
        raise NotSeenError("`reshard_after_forward`")
    return {
        "version": Known(2),
        "reshard_after_forward": Known(Known(False) not in map(_bare, reshards)),
        "auto_wrap_policy": Known("TRANSFORMER_BASED_WRAP" if inner else "NO_WRAP"),
        "offload_params": Known(offloads(given.get("offload_policy"))),
        **precisions[-1],
    }


def _bare(value: Value) -> Value:
    return Known(value.value) if isinstance(value, Known) else value


def _sharded_part(made: Made, trained: Made) -> str:
    """`model.layers[:]`; "" of the model itself."""
    (part,) = made.positional[:1] or (made.arguments.get("module"),)
    root = part.of if isinstance(part, External) else part
    if not isinstance(root, Made) or origin_of(root) is not origin_of(trained):
        raise NotSeenError("which modules")
    return part.name.removeprefix(f"{root.name}().") if isinstance(part, External) else ""


def _is_of_two(made: Made) -> bool:
    """Whether the device mesh may have several dimensions: hybrid sharding."""
    mesh = made.arguments.get("mesh", _NOTHING)
    if _bare(mesh) == _NOTHING:
        return False
    if not isinstance(mesh, Made) or mesh.last != "init_device_mesh":
        return True
    shape = mesh.positional[1] if len(mesh.positional) > 1 else mesh.arguments.get("mesh_shape")
    return not (isinstance(shape, Items) and len(shape.values) == 1 and not shape.is_open)


def _member(value: Value | None, unsaid: str, known: set[str], words: str) -> str:
    """`FULL_SHARD` of `ShardingStrategy.FULL_SHARD`."""
    if not _is_given(value):
        return unsaid
    if isinstance(value, External) and value.last in known:
        return value.last
    raise NotSeenError(words)


def _switch(value: Value | None) -> bool:
    if value is None:
        return False
    if isinstance(value, Known):
        return bool(value.value)
    raise NotSeenError("a switch of it")


def offloads(value: Value | None) -> bool:
    """`CPUOffload(offload_params=True)`, `CPUOffloadPolicy()`."""
    if not _is_given(value):
        return False
    if isinstance(value, Made) and value.last == "CPUOffload" and not value.is_open:
        return _switch(value.arguments.get("offload_params") or next(iter(value.positional), None))
    if isinstance(value, Made) and value.last in ("CPUOffloadPolicy", "OffloadPolicy"):
        return value.last == "CPUOffloadPolicy"
    raise NotSeenError("what is offloaded")


def wrapping(policy: Value | None) -> Keys:
    """wrap.py: a policy with classes, by size, or none."""
    if not _is_given(policy):
        return {"auto_wrap_policy": Known("NO_WRAP")}
    name = policy.last if isinstance(policy, (Made, External)) else ""
    if isinstance(policy, Made) and name in ("transformer_auto_wrap_policy", "ModuleWrapPolicy"):
        classes = policy.arguments.get("transformer_layer_cls") or policy.arguments.get("module_classes")
        classes = classes or next(iter(policy.positional), None)
        # One of several layers, as the model's kind decides: without any the script ends in a NameError.
        layers = [layer for one in _items(classes) for layer in alternatives(one)]
        words = [one.last for one in layers if isinstance(one, External)]
        words += [one.name for one in layers if isinstance(one, Class)]
        if words and all(word.lower().endswith(("layer", "block")) for word in words):
            return {"auto_wrap_policy": Known("TRANSFORMER_BASED_WRAP")}
    if name == "size_based_auto_wrap_policy":
        least = policy.arguments.get("min_num_params") if isinstance(policy, Made) else None
        least = least or Known(100_000_000)
        if isinstance(least, Known) and isinstance(least.value, (int, float)):
            return {"auto_wrap_policy": Known("SIZE_BASED_WRAP"), "min_num_params": Known(int(least.value))}
    raise NotSeenError("its wrap policy")


def _items(value: Value | None) -> Iterator[Value]:
    if isinstance(value, Items) and not value.is_open:
        yield from value.values


def _precision(policy: Value | None, name: str) -> Keys:
    """The dtypes of parameters and reductions; version 1 reduces in the former unless told otherwise."""
    if not _is_given(policy):
        return {}
    if not isinstance(policy, Made) or policy.last != name or policy.is_open:
        raise NotSeenError("in which precision")
    given = {**dict(zip(("param_dtype", "reduce_dtype"), policy.positional)), **policy.arguments}
    found = {key: _dtype(given[key]) for key in ("param_dtype", "reduce_dtype") if _is_given(given.get(key))}
    return {key: Known(value) for key, value in found.items()}


def _is_given(value: Value | None) -> bool:
    return value is not None and _bare(value) != _NOTHING


def _dtype(value: Value) -> str:
    if isinstance(value, External) and value.last in DTYPES:
        return DTYPES[value.last]
    raise NotSeenError("in which precision")
