"""Whether a script loads its model before DeepSpeed's configuration is known.

ZeRO-3 divides weights while they load where transformers knows the configuration by then. It learns of it from the
training arguments, from accelerate's `Accelerator`, or from `HfDeepSpeedConfig` (transformers 5.23
integrations/deepspeed.py, is_deepspeed_zero3_enabled; accelerate 1.15 utils/dataclasses.py, set_deepspeed_weakref):

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")  # whole, in each process
    args = TrainingArguments(deepspeed="zero3.json")
"""

from __future__ import annotations

from collections.abc import Iterable

from memlint.formats.trainer.python.model import origins_of
from memlint.source.python.values import Made, Value

_MAKES_IT_KNOWN = frozenset({"Accelerator", "HfDeepSpeedConfig", "HfTrainerDeepSpeedConfig"})


def loads_before_engine(model: Value, calls: Iterable[Made]) -> bool:
    """`calls`: all calls of the script, in the order in which they run."""
    loaded = {one.source for one in origins_of(model) if isinstance(one, Made) and one.last == "from_pretrained"}
    for call in calls:
        if call.source in loaded:
            return True
        if call.last in _MAKES_IT_KNOWN or call.name == "deepspeed.zero.Init" or _is_training_arguments(call):
            return False
    return False


def _is_training_arguments(call: Made) -> bool:
    return call.last.endswith("TrainingArguments") or (call.last.endswith("Config") and call.name.startswith("trl."))
