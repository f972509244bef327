"""KV caches: memlint's bytes beside the tensors that transformers caches in a prefill and a decode on meta tensors.

    python -m benchmarks.accuracy.kv_cache [--update]

Each model is built from the catalog's config.json. The prefill runs `PROMPT` tokens of `SEQUENCES` sequences, the
decode one token more; what `past_key_values` holds then is counted tensor by tensor. Needs the `exact` extra.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from memlint.architectures import catalog
from memlint.memory.evaluation import cache_bytes

RESULTS = Path(__file__).parent / "kv_cache.json"
SEQUENCES, PROMPT = 2, 5000
MODELS = (
    *("meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-8B", "meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-70B"),
    *("mistralai/Mistral-7B-v0.1", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B"),
    *("Qwen/Qwen3-30B-A3B", "google/gemma-2-9b", "google/gemma-3-1b-it", "google/gemma-7b", "microsoft/phi-2"),
    *("microsoft/Phi-3-mini-4k-instruct", "openai-community/gpt2", "EleutherAI/pythia-1.4b", "tiiuae/falcon-7b"),
    *("bigscience/bloom-7b1", "01-ai/Yi-34B", "deepseek-ai/DeepSeek-V2-Lite", "openai/gpt-oss-20b"),
    *("bigcode/starcoder2-7b", "allenai/OLMo-2-1124-7B", "ibm-granite/granite-3.1-8b-base"),
)


class Row(NamedTuple):
    """Bytes of the cache of one model, after the prefill and after the decode."""

    model: str
    prefill: int
    prefill_simulated: int
    decode: int
    decode_simulated: int
    note: str = ""


def rows() -> Iterator[Row]:
    """One row a model, in the order of MODELS."""
    for name in MODELS:
        entry = catalog.find(name)
        if entry is None:
            yield Row(name, 0, 0, 0, 0, "not in the catalog")
            continue
        shape = catalog.architecture(entry)
        expected = [cache_bytes(shape, SEQUENCES, PROMPT + more, 2, after_prefill=not more) for more in (0, 1)]
        try:
            found = simulated(entry.config)
        except Exception as error:  # a model that meta tensors cannot run says so in its row
            yield Row(name, expected[0], 0, expected[1], 0, f"{type(error).__name__}: {str(error)[:90]}")
            continue
        yield Row(name, expected[0], found[0], expected[1], found[1])


def simulated(config: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes that `past_key_values` holds after the prefill and after one token more, in bfloat16."""
    kept = {
        key: value for key, value in config.items() if key not in ("quantization_config", "torch_dtype", "auto_map")
    }
    built = AutoConfig.for_model(**kept)
    with torch.device("meta"), torch.no_grad():
        model = AutoModelForCausalLM.from_config(built, dtype=torch.bfloat16).eval()
        tokens = torch.zeros((SEQUENCES, PROMPT), dtype=torch.long)
        output = model(tokens, use_cache=True, logits_to_keep=1)
        first = held(output.past_key_values)
        output = model(tokens[:, :1], past_key_values=output.past_key_values, use_cache=True, logits_to_keep=1)
        return first, held(output.past_key_values)


def held(cache: Any) -> int:
    """Bytes that the tensors of a cache keep alive: a view of a larger tensor keeps all of that."""
    tensors = (value for layer in cache.layers for value in vars(layer).values() if isinstance(value, torch.Tensor))
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors if tensor.is_floating_point())


def main() -> int:
    found = []
    for row in rows():
        found.append(row._asdict())
        equal = (row.prefill, row.decode) == (row.prefill_simulated, row.decode_simulated)
        sizes = f"{row.prefill:>14,} {row.prefill_simulated:>14,} {row.decode:>14,} {row.decode_simulated:>14,}"
        sys.stdout.write(f"{row.model:34} {sizes} {'equal' if equal else 'DIFFERENT'} {row.note}\n")
        sys.stdout.flush()
    if "--update" in sys.argv:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
