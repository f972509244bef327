"""What one request takes of vLLM's cache, computed by vLLM's own classes: benchmarks/data/vllm_requests.jsonl.

    pip download --no-deps --no-binary :none: vllm==0.33.0 && unzip -d SOURCE vllm-*.whl
    python benchmarks/referee/vllm_requests.py SOURCE     writes the rows again

`vllm/v1/kv_cache_interface.py` alone is imported, with names that it asks of modules that need a GPU: no engine
starts. tests/memory/generation/test_serving.py holds the estimate against the rows.
"""

from __future__ import annotations

import enum
import json
import logging
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.memory.test_serving import CASES, dimensions, heads_on_a_card, windows

from benchmarks.command import parser

RESULTS = Path(__file__).resolve().parents[1] / "data" / "vllm_requests.jsonl"
RELEASE = "0.33.0"
BLOCK = 16  # config/cache.py:185
IN_FLIGHT = 2 * 2048  # batches under way x tokens of each: config/vllm.py:601
LENGTHS = (4096, 4001)


class _Mamba(enum.Enum):
    MAMBA2 = 1


def _interface(source: Path) -> Any:
    """vLLM's module of cache specifications, without what its package imports."""
    import torch

    for name in ("vllm", "vllm.utils", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"):
        package = types.ModuleType(name)
        package.__path__ = [str(source.joinpath(*name.split(".")))]
        sys.modules[name] = package
    given = {
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.utils.torch_utils": {"get_dtype_size": lambda dtype: torch.tensor([], dtype=dtype).element_size()},
        "vllm.v1.attention.backends.registry": {"MambaAttentionBackendEnum": _Mamba},
    }
    for name, values in given.items():
        module = types.ModuleType(name)
        vars(module).update(values)
        sys.modules[name] = module
    import vllm.v1.kv_cache_interface as interface  # type: ignore[import-not-found]

    return interface


def _specs(interface: Any, config: dict[str, Any], cards: int, dtype: Any) -> Iterator[Any]:
    """One specification a layer. MLA has one latent head, whole on each card."""
    latent = config.get("kv_lora_rank")
    for window in windows(config):
        if latent:
            width = latent + config["qk_rope_head_dim"]
            yield interface.MLAAttentionSpec(BLOCK, num_kv_heads=1, head_size=width, dtype=dtype)
            continue
        heads = {"num_kv_heads": heads_on_a_card(config, cards), "head_size": config["head_dim"], "dtype": dtype}
        if window:
            yield interface.SlidingWindowSpec(BLOCK, sliding_window=window, dcp_sharded=False, **heads)
        else:
            yield interface.FullAttentionSpec(BLOCK, **heads)


def _settings(length: int) -> Any:
    return types.SimpleNamespace(
        model_config=types.SimpleNamespace(max_model_len=length),
        parallel_config=types.SimpleNamespace(decode_context_parallel_size=1),
        max_in_flight_tokens=IN_FLIGHT,
    )


def computed(source: Path) -> Iterator[dict[str, Any]]:
    """A row for each model, number of cards, length and dtype of the cache."""
    import torch

    interface = _interface(source)
    for model, cards in CASES:
        config = dimensions(model)
        for wanted in LENGTHS:
            length = min(wanted, config["max_position_embeddings"])
            for name, dtype in (("auto", torch.bfloat16), ("fp8", torch.float8_e4m3fn)):
                specs = _specs(interface, config, cards, dtype)
                size = sum(spec.max_memory_usage_bytes(_settings(length)) for spec in specs)
                yield {"model": model, "cards": cards, "length": length, "kv_dtype": name, "bytes": size}


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("source", type=Path, help=f"the folder in which vLLM {RELEASE} is unpacked")
    rows = list(computed(arguments.parse_args().source))
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} rows")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
