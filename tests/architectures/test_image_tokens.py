"""Image tokens against the processors of transformers, which need no weights."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor

from memlint.architectures import image_tokens, resolve
from memlint.architectures.model import Architecture

MODELS = Path(transformers.__file__).parent / "models"


def functions(file: str, **names: Any) -> dict[str, Any]:
    """The module-level functions of a file of transformers, without its imports (torchvision and Pillow)."""
    tree = ast.parse((MODELS / file).read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in tree.body:
        node.decorator_list = []
    space: dict[str, Any] = {"math": math, **names}
    exec("from __future__ import annotations\n" + ast.unparse(tree), space)
    return space


SMART_RESIZE = functions("qwen2_vl/image_processing_qwen2_vl.py")["smart_resize"]
PIXTRAL_SIZE = functions("pixtral/image_processing_pixtral.py", get_image_size=lambda image, _: image)[
    "get_resize_output_image_size"
]
SIZES = st.integers(40, 2400)
NEXT_PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
ONEVISION_PINPOINTS = [[384 * rows, 384 * columns] for rows in range(1, 7) for columns in range(1, 7)]


def architecture(name: str) -> Architecture:
    found = resolve(name).architecture
    assert found is not None
    return found


def tokens(name: str, height: int, width: int) -> int:
    found = image_tokens.of_image(architecture(name), height, width)
    assert found is not None
    return found.tokens


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen2-VL-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct"]
)
@given(height=SIZES, width=SIZES)
@settings(max_examples=60, deadline=None)
def test_qwen_images_are_resized_to_whole_merged_patches(name: str, height: int, width: int) -> None:
    tower = architecture(name).towers[0]
    factor = tower.patch_size * tower.merge_size
    high, wide = SMART_RESIZE(height, width, factor, 56 * 56, 16384 * 28 * 28)
    assert tokens(name, height, width) == high * wide // factor**2


def fake(cls: Any, **traits: Any) -> Any:
    """An instance of a processor without its tokenizer and its files."""
    own = SimpleNamespace(**traits)
    own._get_unpadded_features = lambda *arguments: cls._get_unpadded_features(own, *arguments)
    return own


@given(height=SIZES, width=SIZES)
@settings(max_examples=200, deadline=None)
def test_llava_next_tiles_an_image_and_leaves_the_padding_out(height: int, width: int) -> None:
    processor = fake(
        LlavaNextProcessor,
        image_processor=SimpleNamespace(image_grid_pinpoints=NEXT_PINPOINTS),
        patch_size=14,
        num_additional_image_tokens=1,
    )
    theirs = LlavaNextProcessor._get_number_of_features(processor, height, width, 336, 336) - 1  # strategy "default"
    assert tokens("llava-hf/llava-v1.6-mistral-7b-hf", height, width) == theirs


@given(height=SIZES, width=SIZES)
@settings(max_examples=200, deadline=None)
def test_llava_onevision_shrinks_the_features_of_many_tiles(height: int, width: int) -> None:
    processor = fake(
        LlavaOnevisionProcessor,
        image_processor=SimpleNamespace(image_grid_pinpoints=ONEVISION_PINPOINTS),
        num_image_tokens=729,
        vision_aspect_ratio="anyres_max_9",
    )
    theirs = LlavaOnevisionProcessor._get_number_of_features(processor, height, width, 384, 384)
    assert tokens("llava-hf/llava-onevision-qwen2-7b-ov-hf", height, width) == theirs


@pytest.mark.parametrize(
    ("name", "edge", "patch"),
    [("mistral-community/pixtral-12b", 1024, 16), ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 1540, 28)],
)
@given(height=SIZES, width=SIZES)
@settings(max_examples=100, deadline=None)
def test_pixtral_ends_each_row_of_patches_with_a_token(
    name: str, edge: int, patch: int, height: int, width: int
) -> None:
    high, wide = PIXTRAL_SIZE((height, width), (edge, edge), (patch, patch))
    assert tokens(name, height, width) == (high // patch) * (wide // patch + 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llava-hf/llava-1.5-7b-hf", 576),  # (336 / 14)^2, the class token left out
        ("google/gemma-3-4b-it", 256),  # mm_tokens_per_image
        ("google/paligemma-3b-pt-448", 1024),  # (448 / 14)^2
        ("OpenGVLab/InternVL3-8B-hf", 256),  # image_seq_length; LLaMA-Factory crops only where crop_to_patches says so
    ],
)
def test_fixed_towers_take_the_same_tokens_for_any_image(name: str, expected: int) -> None:
    assert {tokens(name, 100, 900), tokens(name, 768, 768)} == {expected}


def test_llamafactorys_default_image_of_qwen_2_vl() -> None:
    """768 x 768 pixels: 27 x 27 merged patches of 28."""
    found = image_tokens.of_square(architecture("Qwen/Qwen2-VL-7B-Instruct"), 768 * 768)
    assert found == image_tokens.ImageTokens(27 * 27, 4 * 27 * 27)


def test_a_video_takes_two_frames_a_step() -> None:
    found = image_tokens.of_video(architecture("Qwen/Qwen2-VL-7B-Instruct"), 128, 256 * 256)
    assert found == image_tokens.ImageTokens(64 * 81, 64 * 81 * 4)


def test_a_text_model_takes_no_image() -> None:
    assert image_tokens.of_square(architecture("Qwen/Qwen2.5-7B"), 1024) is None
