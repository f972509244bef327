"""Stored recordings are those that would be made now, and sizes do not matter to a recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memlint.memory.layers.stored_profiles as stored
from memlint.architectures import from_config
from memlint.architectures.catalog import configurations
from memlint.architectures.model import Architecture
from memlint.memory.autograd.profile import Profile
from memlint.memory.layers.activations import _forward, record
from memlint.memory.layers.profile_stamps import stamps
from memlint.memory.layers.profiles import _recorded
from memlint.memory.layers.structure import kernels_in_use, structure
from memlint.memory.layers.typical_layers import one_of_each_structure, typical_profiles
from memlint.memory.state.parameter_roles import Roles

FAMILIES = ("qwen2", "gemma2", "deepseek_v3", "mixtral", "qwen3_next", "falcon_h1")


def architectures() -> list[Architecture]:
    first = {}
    for config in configurations():
        first.setdefault(config["model_type"], config)
    return [from_config(first[family]) for family in FAMILIES]


@pytest.fixture(scope="module")
def typical() -> dict[stored.Key, Profile]:
    found: dict[stored.Key, Profile] = {}
    for architecture in architectures():
        found |= typical_profiles(architecture)
    return dict(list(found.items())[::7])


def test_what_is_read_back_is_what_was_recorded(typical: dict[stored.Key, Profile]) -> None:
    assert len({key[0].class_name for key in typical}) >= len(FAMILIES)
    for key in typical:
        fresh = record(*key)
        assert _plain(stored.read(stored.dump(fresh))) == _plain(fresh)


def test_a_layer_that_offloads_its_input_is_that_which_keeps_it_without_the_input_between_forward_and_backward(
    typical: dict[stored.Key, Profile],
) -> None:
    checkpointed = [key for key in typical if key[3].checkpoint]
    assert checkpointed
    for *parts, mode in checkpointed:
        keeping, offloading = (_recorded((*parts, mode._replace(offload=offload))) for offload in (False, True))
        tape, x, y, returned = _forward(*parts, mode, grad=False)
        tape.drop(x, *returned)
        assert offloading.live_in_forward.packed == (tape.live - y.storage.increment,)
        tape.end_autocast()
        assert offloading.live_until_backward.packed == (tape.live - y.storage.increment,)
        (forward, *_, backward, after), width = _plain(offloading)
        assert ([forward, backward, after], width) == ([_plain(keeping)[0][part] for part in (0, 3, 4)], keeping.width)


def test_a_layer_that_is_not_checkpointed_has_no_input_to_offload(typical: dict[stored.Key, Profile]) -> None:
    kept = [key for key in typical if not key[-1].checkpoint]
    assert kept
    for *parts, mode in kept:
        offloading, keeping = (_recorded((*parts, mode._replace(offload=offload))) for offload in (True, False))
        assert _plain(offloading) == _plain(keeping)


def test_the_adapters_that_most_configs_have_are_typical() -> None:
    """(bytes of an element, whether autocast is on, adapted parts) of Llama's layers."""
    llama = from_config(next(config for config in configurations() if config["model_type"] == "llama"))
    found = {(*_adapters(key[1]), bool(key[2].autocast_width)) for key in typical_profiles(llama)}
    attention = ("query", "key", "value", "output")
    for parts in (attention, (*attention, "gate", "up", "down")):
        assert {(parts, 4, True), (parts, 2, False)} <= found
    every = (*attention, "gate", "up", "down")
    assert {(every, 2, True), (every, 4, False)} <= found  # DeepSpeed casts them; LLaMA-Factory's `pure_bf16`


def _adapters(roles: Roles) -> tuple[tuple[str, ...], int]:
    adapted = [(name, linear.down.width) for name, linear in roles.linears if linear.down is not None]
    return tuple(name for name, _ in adapted), max((width for _, width in adapted), default=0)


def test_models_that_differ_in_the_names_of_their_weights_are_each_recorded() -> None:
    llama = from_config(next(config for config in configurations() if config["model_type"] == "llama"))
    layer = llama.layer_types[0]
    biased = layer._replace(
        weights=(*layer.weights, layer.weights[0]._replace(name="self_attn.q_proj.bias", kind="bias"))
    )
    assert len(one_of_each_structure([llama, llama, llama._replace(layer_types=(biased,))])) == 2


def test_live_sets_of_one_tape_share_their_sizes_after_reading(typical: dict[stored.Key, Profile]) -> None:
    assert typical
    for key in typical:
        fresh = record(*key)
        again = stored.read(stored.dump(fresh))
        ids = [[id(part.tensor_sizes) for part in one[:-1]] for one in (fresh, again)]
        assert [ids[0].index(one) for one in ids[0]] == [ids[1].index(one) for one in ids[1]]


def test_the_sizes_of_a_layer_do_not_matter(typical: dict[stored.Key, Profile]) -> None:
    compared = 0
    for architecture in architectures():
        for layer in architecture.layer_types:
            keys = [key for key in typical if key[0] == structure(layer)]
            for _, *rest in keys:
                compared += 1
                assert _plain(record(layer._replace(weights=()), *rest)) == _plain(record(structure(layer), *rest))
    assert compared > len(FAMILIES)


@pytest.mark.parametrize(
    "other",
    [
        {"delta_rule": "fla"},
        {"delta_rule": "loop"},
        {"scan": "kernel"},
        {"experts": "loop"},
        {"experts": "copied", "dequantized_width": 2},
        {"fused_adapters": ("qkv", "o", "mlp")},
        {"bfloat16": False},
        {"softmax_keeps_dtype": True},
        {"keeps_linear_inputs": True},
        {"dequantized_width": 4},
        {"attention": "flash_attention_2"},
        {"attention": "flash_attention_3"},
        {"attention": "flex_attention", "fused_adapters": ("qkv", "o", "mlp")},
        {"attention": "eager", "mask": True, "bfloat16": False},
    ],
    ids=str,
)
def test_kernels_that_a_layer_does_not_run_do_not_matter(other, typical: dict[stored.Key, Profile]) -> None:  # type: ignore[no-untyped-def]
    dropped = 0
    for shape, roles, kernels, mode in list(typical)[::5]:
        changed = kernels._replace(**other)
        in_use = kernels_in_use(shape, roles, changed)
        assert _plain(record(shape, roles, changed, mode)) == _plain(record(shape, roles, in_use, mode))
        dropped += changed != in_use
    assert dropped or other.get("attention") == "eager"


def _lines(recordings: dict[stored.Key, Profile]) -> dict[stored.Key, str]:
    return {key: stored.dump(profile) for key, profile in recordings.items()}


def test_the_files_give_what_was_put_in(typical: dict[stored.Key, Profile], tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    assert typical
    for name, data in stored.files(_lines(typical)).items():
        (tmp_path / name).write_bytes(data)
    _use(tmp_path, stamps(), monkeypatch)
    for key, profile in typical.items():
        found = stored.find(*key)
        assert found is not None
        assert _plain(found) == _plain(profile)


@pytest.mark.parametrize("marks", [None, {"memory/layers/mlp.py": "1:2"}])
def test_without_files_or_after_a_change_of_the_code_nothing_is_read(marks, typical, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name, data in stored.files(_lines(typical)).items():
        (tmp_path / name).write_bytes(data)
    _use(tmp_path, marks, monkeypatch)
    assert all(stored.find(*key) is None for key in typical)


@pytest.mark.parametrize("name", ["../stamps", "a/b", "", "Llama.z"])
def test_a_class_that_is_no_name_reads_no_file(name: str) -> None:
    assert stored._stored(name) is None


@pytest.mark.parametrize("data", [b"", b"not packed", b"x\x9c"])
def test_a_broken_file_is_none(data: bytes, typical, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    key = next(iter(typical))
    (tmp_path / f"{key[0].class_name}.z").write_bytes(data)
    _use(tmp_path, stamps(), monkeypatch)
    assert stored.find(*key) is None


def test_what_is_installed_is_what_would_be_recorded_now(typical: dict[stored.Key, Profile]) -> None:
    """Of the files that a build wrote, where they are current; else nothing is read from them."""
    found = {key: stored.find(*key) for key in typical}
    if _marks() not in ({}, stamps()):
        assert not any(found.values())
        return
    read = {key: profile for key, profile in found.items() if profile is not None}
    assert 2 * len(read) > len(typical)
    assert all(_plain(profile) == _plain(record(*key)) for key, profile in read.items())


def _use(folder: Path, marks: object, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(stored, "FOLDER", str(folder))
    if marks is not None:
        (folder / stored.STAMPS).write_text(json.dumps(marks))
    for cached in ("_stored", "is_current"):
        monkeypatch.setattr(stored, cached, getattr(stored, cached).__wrapped__)


def _marks() -> object:
    path = Path(stored.FOLDER) / stored.STAMPS
    return json.loads(path.read_text()) if path.exists() else None


def _plain(profile: Profile) -> tuple[list[object], int]:
    parts: list[object] = []
    for part in profile[:-1]:
        sizes, packed, pick, numbers, ends = part
        parts.append((list(sizes), packed, pick(range(10_000)), numbers, ends))
    return parts, profile.width
