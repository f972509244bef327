"""Which LLaMA-Factory runs answer requests, and what answers them."""

from __future__ import annotations

from memlint.formats.llamafactory.config import LlamaFactoryConfig

# Servers (`infer_backend`) and the key that says what share of each card they take (hparams/model_args.py:404-438).
SERVERS = {"vllm": "vllm_gpu_util", "sglang": "sglang_mem_fraction"}


def answers_requests(config: LlamaFactoryConfig) -> bool:
    """Whether chat, API or `llamafactory-cli eval` runs, not the Trainer's evaluation loop."""
    return not (config.training or config.hf.flag("do_predict") or config.hf.flag("do_eval"))


def has_server(config: LlamaFactoryConfig) -> bool:
    """Whether vLLM or SGLang answers the requests."""
    return answers_requests(config) and config.own.word("infer_backend") in SERVERS
