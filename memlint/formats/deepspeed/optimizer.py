"""The optimizer that runs under DeepSpeed: its own, or the training arguments' (deepspeed 0.19.8 engine.py:2430)."""

from __future__ import annotations

from memlint.formats.deepspeed.config import DeepSpeedConfig
from memlint.formats.fields import Fields, as_number

# engine._configure_basic_optimizer: (on the GPU, with the optimizer offloaded).
# Names as in memory/state/optimizers.json.
_OWN = {
    "adam": ("fused_adam", "cpu_adam"),
    "adamw": ("fused_adam", "cpu_adam"),
    "lamb": ("fused_lamb", "fused_lamb"),
    "lion": ("fused_lion", "cpu_lion"),
    "adagrad": ("adagrad", "cpu_adagrad"),
    "muon": ("muon", "muon"),
    "muadam": ("fused_adam", "cpu_adam"),
    "muadamw": ("fused_adam", "cpu_adam"),
    "musgd": ("sgd", "sgd"),
    "sgd": ("sgd", "sgd"),
    "rmsprop": ("rmsprop", "rmsprop"),
    "adafactor": ("adafactor", "adafactor"),
}
_REMOVED = ("onebitadam", "zerooneadam", "onebitlamb")  # gone since deepspeed 0.19.7
# accelerate 1.15 map_pytorch_optim_to_deepspeed: bitsandbytes' 32-bit optimizers have CPU twins, the rest becomes Adam.
_ON_CPU = {
    "adagrad": "cpu_adagrad",
    "lion_32bit": "cpu_lion",
    "paged_lion_32bit": "cpu_lion",
}


def read_optimizer(fields: Fields, view: DeepSpeedConfig) -> None:
    kind = view.raw("optimizer.type")
    if isinstance(kind, str):
        _read_section(fields, view, kind)
    elif view.arguments is not None:
        _from_arguments(fields, view)


def read_clipping(fields: Fields, view: DeepSpeedConfig) -> None:
    clipping = as_number(view.raw("gradient_clipping"))
    if clipping is not None:
        fields.put("optimizer.max_grad_norm", float(clipping), view.origin("gradient_clipping"))


def _offloaded(fields: Fields) -> bool:
    return str(fields.get("offload.optimizer", "none")) != "none"


def _read_section(fields: Fields, view: DeepSpeedConfig, kind: str) -> None:
    """An `optimizer` section: the training arguments' `optim` is not used (transformers makes a DummyOptim)."""
    origin = view.origin("optimizer.type")
    word = kind.lower()
    if word in _REMOVED:
        message = f"the optimizer `{kind}` is gone since deepspeed 0.19.7"
        fields.issues.append(view.section.issue("bad-value", message, "optimizer", "type", severity="warning"))
    name = _OWN.get(word, (word, word))[_offloaded(fields)]
    engine = "deepspeed" if name.startswith(("fused_", "cpu_", "muon")) else "torch"
    if word in ("adam", "adamw") and view.flag("optimizer.params.torch_adam"):
        name, engine = "adamw_torch_amsgrad" if view.flag(_AMSGRAD) else "adamw_torch", "torch"
    fields.put("optimizer.name", name, origin)
    fields.put("optimizer.engine", engine, origin)
    _refuse_variants(fields, view, name)
    if view.raw("optimizer.params.max_grad_norm") is not None:
        message = "`max_grad_norm` is no optimizer parameter (DeepSpeed raises ValueError): use `gradient_clipping`"
        fields.issues.append(view.section.issue("bad-value", message, "optimizer", "params", "max_grad_norm"))


_AMSGRAD = "optimizer.params.amsgrad"


def _refuse_variants(fields: Fields, view: DeepSpeedConfig, name: str) -> None:
    """Issues about options for which the optimizer's class raises an error (deepspeed 0.19.8 ops/adam/fused_adam.py:66,
    torch 2.13 optim/sparse_adam.py: sparse gradients alone)."""
    if name == "fused_adam" and view.flag(_AMSGRAD):
        message = "FusedAdam does not support AMSGrad (RuntimeError): add `torch_adam: true`"
        fields.issues.append(view.section.issue("bad-value", message, "optimizer", "params", "amsgrad"))
    if name == "sparseadam":
        message = "SparseAdam takes sparse gradients alone, and those of linear layers are dense (RuntimeError)"
        fields.issues.append(view.section.issue("bad-value", message, "optimizer", "type"))


def _from_arguments(fields: Fields, view: DeepSpeedConfig) -> None:
    """No `optimizer` section: the Trainer's own runs inside ZeRO; offloaded it is replaced by DeepSpeed's CPU one."""
    fields.put("optimizer.engine", "torch", view.origin("optimizer"))
    if not _offloaded(fields) or not view.flag("zero_force_ds_cpu_optimizer"):
        return
    name = fields.get("optimizer.name", "")
    twin = _ON_CPU.get(name, "cpu_adam") if isinstance(name, str) else "cpu_adam"
    fields.infer("optimizer.name", twin, "accelerate replaces an offloaded optimizer (map_pytorch_optim_to_deepspeed)")
    fields.put("optimizer.engine", "deepspeed", view.origin("zero_optimization.offload_optimizer.device"))
