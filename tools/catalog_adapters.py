"""Compares LoRA's trainable parameters with PEFT's on the meta device, for configurations of the catalog.

    python tools/catalog_adapters.py [PART-OF-AN-ID] [--most N]

Rank 8 on every linear layer but the head, as LLaMA-Factory's `lora_target: all` and PEFT's "all-linear" mean it;
for models with towers on the language model alone. Prints a table and fails where a count differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import memlint.memory.state.parameters as parameters
from memlint.architectures import UnsupportedConfig, from_config
from memlint.run import Method, Model, Precision, Run
from memlint.simulation import Adapter, UnsupportedRun
from memlint.simulation.build import add_adapter, excluding, freeze, model_on_meta
from memlint.simulation.from_run import named_configuration
from tools.catalog_verify import DATA

RANK = 8


def ours(config: dict[str, Any]) -> int:
    """What memlint counts as trainable."""
    run = Run(
        "catalog",
        "",
        model=Model(architecture=from_config(config), weights_dtype="bfloat16"),
        method=Method("lora", rank=RANK, targets=("all-linear",), adapter_dtype="float32"),
        precision=Precision("bfloat16", True, "float32", False),
    )
    return parameters.total(parameters.units(run), trainable=True)


def theirs(config: dict[str, Any]) -> int:
    """What PEFT makes trainable on the real class."""
    import torch

    values = {key: value for key, value in config.items() if key != "quantization_config"}
    if values["model_type"] == "qwen2_5_omni":  # frameworks train the thinker (LLaMA-Factory model/loader.py:173)
        values = {**values["thinker_config"], "model_type": "qwen2_5_omni_thinker"}
    model = model_on_meta(*named_configuration(values), "eager", torch.bfloat16)
    towers = from_config(config).towers
    frozen = tuple(prefix for tower in towers for prefix in (tower.tower_prefix, tower.projector_prefix))
    freeze(model, frozen)
    frozen += tuple(name for name, module in model.named_modules() if _is_linear_by_class_alone(module))
    adapted = add_adapter(model, excluding(model, Adapter(rank=RANK), frozen))
    return sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)


def _is_linear_by_class_alone(module: Any) -> bool:
    """A router that inherits nn.Linear and returns a tuple: "all-linear" takes it, and the forward then raises
    "'tuple' object has no attribute 'dtype'" (Phi-3.5-MoE, peft 0.21.2), so no run has its adapter."""
    from torch import nn

    return isinstance(module, nn.Linear) and type(module).forward is not nn.Linear.forward


def one_per_shape(part: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id, configuration), the families taking turns, so that a few rows already see many families."""
    groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if part.lower() in " ".join(row["ids"]).lower():
            groups.setdefault(row["config"]["model_type"], []).append((row["ids"][0], row["config"]))
    while groups:
        for family in list(groups):
            yield groups[family].pop(0)
            if not groups[family]:
                del groups[family]


def verdict(config: dict[str, Any]) -> str:
    """exact, DIFFERS with both counts, or why there is nothing to compare."""
    try:
        counted = ours(config)
        real = theirs(config)
    except (UnsupportedConfig, UnsupportedRun) as error:
        return f"not compared: {error}"
    except Exception as error:  # a class that does not build without more packages has no referee
        return f"not compared: {type(error).__name__}: {str(error)[:90]}"
    return f"exact {counted:,}" if counted == real else f"DIFFERS {counted:,} here, {real:,} by PEFT"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--most", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = {"exact": 0, "DIFFERS": 0, "not": 0}
    for number, (name, config) in enumerate(one_per_shape(options.part)):
        if options.most and number >= options.most:
            break
        found = verdict(config)
        counts[found.split()[0]] += 1
        print(f"{name:<56} {config['model_type']:<18} {found}", flush=True)
    print(f"{counts['exact']} exact, {counts['DIFFERS']} different, {counts['not']} not compared")
    return 1 if counts["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main())
