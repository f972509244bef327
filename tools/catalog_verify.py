"""Compares every configuration of the catalog with the classes of transformers on the meta device.

Prints a table and fails where a parameter count differs. Families without a class in transformers
(trust_remote_code) are listed with the count that memlint gives. Pass a part of an id to check few.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from memlint.architectures import UnsupportedConfig, from_config
from memlint.architectures.model import parameters

DATA = Path(__file__).parent.parent / "memlint" / "architectures" / "catalog.jsonl"


def real_count(config: dict[str, Any]) -> int | None:
    """Parameters of transformers' own class, None where it has no class for this model_type."""
    import torch
    import transformers
    from transformers.models.auto import modeling_auto

    family = config["model_type"]
    names = {**modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES}
    values = {key: value for key, value in config.items() if key not in ("model_type", "quantization_config")}
    if family in ("qwen2_5_omni", "qwen3_omni_moe"):
        family, values = f"{family}_thinker", values["thinker_config"]
    architecture = from_config(config)
    if architecture.encoder_only or architecture.encoder_decoder:  # another mapping, or several, have them
        names[family] = architecture.class_name
    if family not in names:
        return None
    with torch.device("meta"):
        model = getattr(transformers, names[family])(transformers.CONFIG_MAPPING[family](**values))
    return int(sum(parameter.numel() for parameter in model.parameters()))


def main() -> int:
    warnings.simplefilter("ignore")
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    different = exact = 0
    for row in (row for row in rows if wanted.lower() in " ".join(row["ids"]).lower()):
        started = time.perf_counter()
        try:
            ours: int | None = parameters(from_config(row["config"]))
        except UnsupportedConfig as error:
            print(f"{row['ids'][0]:<56} refused: {error}")
            continue
        theirs: int | str | None
        try:
            theirs = real_count(row["config"])
        except Exception as error:  # a class that refuses the configuration is a finding of this table
            theirs = f"{type(error).__name__}: {str(error)[:90]}"
        verdict = "no class" if theirs is None else "exact" if theirs == ours else "DIFFERS"
        different += verdict == "DIFFERS"
        exact += verdict == "exact"
        note = theirs if verdict == "DIFFERS" else ""
        seconds = time.perf_counter() - started
        print(f"{row['ids'][0]:<56} {ours:>16,} {verdict:<8} {note} {seconds:.1f}s")
    print(f"{exact} exact, {different} different, of {len(rows)} configurations")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
