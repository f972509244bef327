"""Which names stand for a name that nobody has written yet."""

from __future__ import annotations

import json

import pytest

from memlint.architectures import catalog, datafile, resolve
from memlint.architectures.placeholders import is_placeholder, without_path

PLACEHOLDERS = [
    *("", "  ", ".", "./", "/", "none", "NULL", "TODO", "model", "model_path", "base_model", "xxx", "XXXXXX"),
    *("path/to/model", "/path/to/my-llama", "path_to_model", "PATH-TO-MODEL", "pathto/model", "my/path/to/it"),
    *("???", "${BASE_MODEL}", "models/${size}", "{{ model }}", "<your model>", "<MODEL>", "[PATH to load]"),
    *("config_path", "base_model_with_chat_template", "sft_checkpoint_dir"),
    *("your-model", "your_org/your_model", "/your/model", "Your Model"),
]
NAMES = [
    "xxl",
    "google/flan-t5-xxl",
    "gpt2",
    "models/llama",
    "a<b",
    "yourself/model",
    "path/total",
    "/data/path/Qwen2.5-7B",
]


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_a_placeholder_resolves_to_nothing_and_is_called_one(name: str) -> None:
    assert is_placeholder(name)
    resolution = resolve(name)
    assert resolution.architecture is None and "placeholder" in resolution.reason


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_none(name: str) -> None:
    assert not is_placeholder(name)


@pytest.mark.parametrize(
    "folder", ["path/to", "path_to", "your_path", "/your/models", "${ROOT}/models", "$ROOT", "~/${USER}"]
)
def test_a_folder_may_be_a_placeholder(folder: str) -> None:
    named = resolve("Qwen/Qwen2.5-7B-Instruct").architecture
    assert named is not None and resolve(f"{folder}/Qwen2.5-7B-Instruct").architecture == named


@pytest.mark.parametrize("name", ["${ROOT}/${MODEL}", "${ROOT}/qwen-${SIZE}", "${A:-/b/c}", "${MODEL}"])
def test_a_placeholder_at_the_end_is_one(name: str) -> None:
    assert without_path(name) == name and resolve(name).architecture is None


def test_no_listed_model_is_one() -> None:
    names = [identifier for line in datafile.text(catalog.FILE).strip().splitlines() for identifier in _ids(line)]
    assert len(names) > 400
    assert [name for name in names if is_placeholder(name)] == []


def _ids(line: bytes) -> list[str]:
    ids: list[str] = json.loads(line)["ids"]
    return ids


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("/path/to/Llama-2-70b-hf", "Llama-2-70b-hf"),
        ("path/to/Llama-2-70b-hf/", "Llama-2-70b-hf"),
        ("/path/to/model", "/path/to/model"),
        ("/path/to/<your model>", "/path/to/<your model>"),
        ("/data/Llama-2-70b-hf", "/data/Llama-2-70b-hf"),
        ("meta-llama/Llama-2-70b-hf", "meta-llama/Llama-2-70b-hf"),
        ("${HF_HOME}/hub/models--Qwen--Qwen2.5-7B-Instruct/snapshots/a09a35458c", "Qwen/Qwen2.5-7B-Instruct"),
        ("${HUB}/models--google--gemma-2-2b-it", "google/gemma-2-2b-it"),
        ("${HUB}/models--gpt2/snapshots/607a30d", "gpt2"),
    ],
)
def test_a_folder_that_stands_for_another_leaves_the_models_name(name: str, meant: str) -> None:
    assert without_path(name) == meant
