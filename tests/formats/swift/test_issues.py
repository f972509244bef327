"""What ms-swift's parser refuses: words that it cannot read, and keys that a release does not take."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.swift import format as swift
from tests.formats.frameworks import context, document

SFT: dict[str, Any] = {"model": "a/b", "tuner_type": "lora", "dataset": "data.jsonl", "torch_dtype": "bfloat16"}


def said(value: dict[str, Any], **versions: tuple[int, ...]) -> list[tuple[str, str]]:
    found = swift.parse(document({**SFT, **value}), context(versions=versions)).issues
    return [(issue.code, str(issue.pointer[0])) for issue in found if issue.severity == "error"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({}, []),
        ({"packing_num_proc": 1.5}, [("wrong-type", "packing_num_proc")]),
        ({"galore_rank": "many"}, [("wrong-type", "galore_rank")]),  # of a mixin
        ({"torch_compile": "maybe"}, [("wrong-type", "torch_compile")]),
        ({"lazy_tokenize": 1, "packing": "no"}, []),
        ({"num_labels": "<num-labels>"}, []),
        ({"bnb_4bit_quant_type": "int4"}, [("bad-value", "bnb_4bit_quant_type")]),
        ({"tuner_backend": "swift"}, [("bad-value", "tuner_backend")]),
        ({"quant_method": "a_newer_one"}, []),  # choices that grow: a slip alone
        ({"rlhf_type": "dop"}, [("bad-value", "rlhf_type")]),
        ({"target_modules": ["q_proj", "v_proj"], "learning_rate": "1e-4"}, []),
        ({"max-length": 2048, "warmup_ratio": 0.05}, []),
    ],
)
def test_values_that_the_parser_cannot_read(value: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert said(value) == found


@pytest.mark.parametrize(
    ("value", "release", "found"),
    [
        ({"cutoff_len": 2048}, (4, 6, 0), [("unknown-key", "cutoff_len")]),
        ({"cutoff_len": 2048}, (), []),  # of no release: nothing where nobody states one
        ({"cutoff_len": 2048, "ignore_args_error": True}, (4, 6, 0), []),
        ({"train_type": "lora"}, (4, 6, 0), [("unknown-key", "train_type")]),
        ({"train_type": "lora"}, (3, 8, 0), [("unknown-key", "tuner_type")]),
        ({"quant_method": "a_newer_one"}, (4, 6, 0), [("bad-value", "quant_method")]),
        ({"generation_max_length": 64, "use_ray": True, "vit_lr": 1e-5}, (4, 6, 0), []),
        ({"num_generations": 8}, (4, 6, 0), []),  # the command may be `swift rlhf`
    ],
)
def test_keys_that_a_release_does_not_take(
    value: dict[str, Any], release: tuple[int, ...], found: list[tuple[str, str]]
) -> None:
    assert said(value, **({"swift": release} if release else {})) == found
