"""FSDP of accelerate that a training loop configures in its code, in the words of a launch file's `fsdp_config`.

accelerate 1.15.0 utils/dataclasses.py, FullyShardedDataParallelPlugin: an argument stands over what the launcher says,
and what has no argument is the launcher's. A plug-in that is given turns FSDP on under any launcher (accelerator.py,
Accelerator.__init__).
"""

from __future__ import annotations

from memlint.formats.trainer.own_engine import PLUGIN
from memlint.formats.trainer.python.model import Keys
from memlint.formats.trainer.python.own_fsdp import NotSeenError, offloads, wrapping
from memlint.source.python.values import External, Items, Known, Made, Table, Undetermined, Value

# Arguments whose value is the key's, or a member of an enumeration with the key's words.
_PLAIN = (
    *("fsdp_version", "reshard_after_forward", "min_num_params", "activation_checkpointing", "use_orig_params"),
    *("activation_checkpointing_offload", "sync_module_states", "cpu_ram_efficient_loading", "forward_prefetch"),
    *("sharding_strategy", "backward_prefetch", "state_dict_type"),
)
_WITHOUT_EFFECT = ("limit_all_gathers", "state_dict_config", "optim_state_dict_config", "param_init_fn")


def fsdp_of_plugin(plugin: Value, accelerator: Made) -> Keys:
    """The keys of a loop whose `Accelerator` is given this plug-in."""
    unread = Undetermined("the script configures FSDP by itself", accelerator.source)
    if not isinstance(plugin, Made) or plugin.last != "FullyShardedDataParallelPlugin" or plugin.is_open:
        return {"fsdp": unread}
    try:
        options = _options(plugin)
    except NotSeenError:
        return {"fsdp": unread}
    return {"fsdp": Known(True, plugin.source), "fsdp_config": Table({PLUGIN: Known("accelerate"), **options})}


def _options(plugin: Made) -> Keys:
    if plugin.positional:
        raise NotSeenError("which arguments")
    found: Keys = {}
    for name, value in plugin.arguments.items():
        if name in _PLAIN:
            found[name.removeprefix("fsdp_")] = _word(value)
        elif name == "cpu_offload":
            found["offload_params"] = value if isinstance(value, Known) else Known(offloads(value))
        elif name == "auto_wrap_policy":
            found |= {name: _word(value)} if isinstance(value, Known) else wrapping(value)
        elif name == "transformer_cls_names_to_wrap":
            found["transformer_layer_cls_to_wrap"] = _names(value)
        elif name not in _WITHOUT_EFFECT:
            raise NotSeenError(f"`{name}`")
    return found


def _word(value: Value) -> Known:
    if isinstance(value, Known):
        return Known(value.value.upper(), value.source) if isinstance(value.value, str) else value
    if isinstance(value, External):
        return Known(value.last)
    raise NotSeenError("a value")


def _names(value: Value) -> Known:
    if isinstance(value, Known) and isinstance(value.value, str):
        return value
    names = [one.value for one in value.values if isinstance(one, Known)] if isinstance(value, Items) else []
    if not isinstance(value, Items) or value.is_open or len(names) < len(value.values):
        raise NotSeenError("which layers")
    return Known(",".join(map(str, names)), value.source)
