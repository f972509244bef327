"""What NeMo-RL refuses of the engine that writes completions, and of the GPUs that it gets."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.fields import as_bool, as_int, as_number
from memlint.formats.nemo_rl.config import NemoConfig
from memlint.formats.nemo_rl.placement import COLOCATED, EACH, NODES, OWN_GPUS, OWN_NODES, WRITING, says_gpus
from memlint.formats.nemo_rl.refused import Refused
from memlint.run import UNKNOWN

_GENERATION = "policy.generation"
_BACKEND = f"{_GENERATION}.backend"
_VLLM = f"{_GENERATION}.vllm_cfg"
_BACKENDS = ("vllm", "sglang", "megatron")
_ASYNC, _TENSOR = f"{_VLLM}.async_engine", f"{_VLLM}.tensor_parallel_size"
_STAGES, _EXPERTS = f"{_VLLM}.pipeline_parallel_size", f"{_VLLM}.expert_parallel_size"
_CACHE, _WEIGHTS = f"{_VLLM}.kv_cache_dtype", f"{_VLLM}.precision"
_CORRECTS = "loss_fn.use_importance_sampling_correction"


def backend(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/algorithms/grpo.py:970 to :1115: no engine is made for another word (0.3.1 :305)."""
    name = config.value(_BACKEND)
    if config.algorithm() != "grpo" or not isinstance(name, str):
        return
    if name not in _BACKENDS:
        yield Refused((0, 3), (_BACKEND,), f"`backend: {name}` is none of {', '.join(_BACKENDS)}", "bad-value")
    if name == "sglang" and not config.has_section(*_GENERATION.split("."), "sglang_cfg"):
        yield Refused((0, 6), (_BACKEND,), "`backend: sglang` needs a section `sglang_cfg`")


def vllm(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/models/generation/vllm/vllm_generation.py:118 to :147 (0.3.1 vllm.py:1336, 0.4.0
    vllm_generation.py:77 and :84, 0.6.0 :90)."""
    if config.algorithm() not in WRITING or config.value(_BACKEND) != "vllm":
        return
    tensor, stages, experts = (as_int(config.value(key)) or 1 for key in (_TENSOR, _STAGES, _EXPERTS))
    runs_async = as_bool(config.value(_ASYNC))
    if stages > 1 and runs_async is False:
        yield Refused((0, 3), (_STAGES, _ASYNC), f"`pipeline_parallel_size: {stages}` needs `async_engine: true`")
    if experts > 1 and experts % tensor:
        message = f"`expert_parallel_size: {experts}` is no multiple of `tensor_parallel_size: {tensor}`"
        yield Refused((0, 4), (_EXPERTS, _TENSOR), message)
    elif experts > 1 and experts != tensor and runs_async:
        message = f"`async_engine` needs `expert_parallel_size: {tensor}` (`tensor_parallel_size`) or 1, not {experts}"
        yield Refused((0, 4), (_EXPERTS, _ASYNC, _TENSOR), message)
    share, words = as_number(config.value(f"{_GENERATION}.top_p")), as_int(config.value(f"{_GENERATION}.top_k"))
    if share is not None and not 0 < share <= 1:
        yield Refused((0, 2), (f"{_GENERATION}.top_p",), f"`top_p: {share:g}` is not above 0 and at most 1")
    if words is not None and words < 1 and words != -1:
        yield Refused((0, 4), (f"{_GENERATION}.top_k",), f"`top_k: {words}` is neither null, -1 nor at least 1")


def eight_bits(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/algorithms/grpo.py:999 to :1022 (0.4.0 :453, 0.5.0 :507)."""
    cache, weights = config.value(_CACHE), config.value(_WEIGHTS)
    if config.algorithm() != "grpo" or config.value(_BACKEND) != "vllm":
        return
    if weights == "fp8" and not as_bool(config.value(_CORRECTS)) and config.value(_CORRECTS) is not UNKNOWN:
        yield Refused((0, 4), (_WEIGHTS, _CORRECTS), f"fp8 weights of vLLM need `{_CORRECTS}: true`")
    if not isinstance(cache, str) or not cache.startswith("fp8"):
        return
    if isinstance(weights, str) and weights != "fp8":
        yield Refused((0, 5), (_CACHE, _WEIGHTS), f"`kv_cache_dtype: {cache}` needs `precision: fp8`, not {weights}")
    elif config.engine == "dtensor":
        yield Refused((0, 5), (_CACHE,), f"`kv_cache_dtype: {cache}` needs Megatron-LM, not DTensor")
    elif as_bool(config.value(_ASYNC)):
        yield Refused((0, 5), (_CACHE, _ASYNC), f"`kv_cache_dtype: {cache}` excludes `async_engine`")


def own_gpus(config: NemoConfig) -> Iterator[Refused]:
    """GPUs of an engine that does not share those of the training: 0.7.0 nemo_rl/algorithms/grpo.py:616 to :665 (0.4.0
    :363). A reward model takes some as well, which only makes it worse."""
    if config.algorithm() != "grpo" or as_bool(config.value(COLOCATED)) is not False:
        return
    each, nodes = as_int(config.value(EACH)), as_int(config.value(NODES))
    own, own_nodes = config.value(OWN_GPUS), config.value(OWN_NODES)
    if not each or not nodes or UNKNOWN in (own, own_nodes):
        return
    count, count_nodes = as_int(own), as_int(own_nodes)
    keys = (OWN_GPUS, OWN_NODES, COLOCATED, EACH, NODES)
    if nodes == 1:
        if not count:
            yield Refused((0, 4), keys, f"an engine with GPUs of its own needs their number (`{OWN_GPUS}`)")
        elif count >= each:
            yield Refused((0, 4), keys, f"the engine takes {count} of {each} GPUs, which leaves none for training")
        elif count_nodes not in (None, 1):
            yield Refused((0, 4), keys, f"an engine on the node that trains has no `num_nodes: {count_nodes}`")
    elif not count_nodes or count_nodes >= nodes:
        message = f"of {nodes} nodes the engine must take some and leave some (`{OWN_NODES}: {own_nodes}`)"
        yield Refused((0, 4), keys, message)
    elif count != each:
        message = f"an engine with nodes of its own takes all {each} GPUs of each (`{OWN_GPUS}: {own}`)"
        yield Refused((0, 4), keys, message)


def engine_ranks(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/models/generation/vllm/vllm_generation.py:110 (0.4.0 :63)."""
    if config.algorithm() != "grpo" or config.value(_BACKEND) != "vllm" or not says_gpus(config):
        return
    tensor, stages = (as_int(config.value(key)) or 1 for key in (_TENSOR, _STAGES))
    each, nodes = as_int(config.value(EACH)), as_int(config.value(NODES))
    if as_bool(config.value(COLOCATED)) is False:
        each = as_int(config.value(OWN_GPUS)) if nodes == 1 else each
        nodes = nodes if nodes == 1 else as_int(config.value(OWN_NODES))
    if each and nodes and each * nodes % (tensor * stages):
        message = f"{each * nodes} GPUs for writing are no multiple of the {tensor * stages} of an engine"
        yield Refused((0, 4), (_TENSOR, _STAGES, EACH, NODES), message)


ENGINES = (backend, vllm, eight_bits, own_gpus, engine_ranks)
