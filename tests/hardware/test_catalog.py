"""GPUs by every name that people, drivers and cloud providers use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint import hardware
from memlint.hardware import catalog

GIB = 1 << 30
DATA = Path(hardware.__file__).parent
NAMES = {
    "NVIDIA A100-SXM4-80GB": "A100-80GB",
    "a100 80g": "A100-80GB",
    "NVIDIA A100 80GB PCIe": "A100-80GB",
    "A100-PCIE-40GB": "A100-40GB",
    "NVIDIA H100 80GB HBM3": "H100-80GB",
    "h100": "H100-80GB",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "RTX4090": "RTX 4090",
    "3090": "RTX 3090",
    "Tesla T4": "T4",
    "Tesla V100-SXM2-32GB": "V100-32GB",
    "NVIDIA RTX A6000": "RTX A6000",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
    "NVIDIA A100-SXM4-40GB MIG 3g.20gb": "A100-40GB MIG 3g.20gb",
    "AMD Instinct MI300X": "MI300X",
    "Ascend910B2": "Ascend 910B-64GB",
    "NVIDIA B200": "B200",
}
INSTANCES = {
    "p4d.24xlarge": ("A100-40GB", 8),
    "p4de.24xlarge": ("A100-80GB", 8),
    "ml.p5.48xlarge": ("H100-80GB", 8),
    "g5.12xlarge": ("A10G", 4),
    "a2-highgpu-8g": ("A100-40GB", 8),
    "a3-highgpu-8g": ("H100-80GB", 8),
    "Standard_ND96asr_v4": ("A100-40GB", 8),
    "Standard_ND96isr_H100_v5": ("H100-80GB", 8),
    "gpu_8x_h100_sxm5": ("H100-80GB", 8),
}


def _rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((DATA / "gpus.json").read_text(encoding="utf-8"))
    return rows


@pytest.mark.parametrize(("name", "canonical"), NAMES.items())
def test_names(name: str, canonical: str) -> None:
    gpu = hardware.find(name)
    assert gpu is not None
    assert gpu.name == canonical


@pytest.mark.parametrize(("name", "expected"), INSTANCES.items())
def test_cloud_machine_types(name: str, expected: tuple[str, int]) -> None:
    found = hardware.instance(name)
    assert found is not None
    assert (found[0].name, found[1]) == expected


@pytest.mark.parametrize("name", ["A100", "V100", "RTX 4060 Ti"])
def test_a_name_of_several_sizes_is_asked_back(name: str) -> None:
    assert hardware.find(name) is None
    sizes = {gpu.nominal_bytes for gpu in map(hardware.find, hardware.suggestions(name)) if gpu}
    assert len(sizes) > 1


@pytest.mark.parametrize("name", ["", "foo", "gpu", "???", "9999"])
def test_strangers(name: str) -> None:
    assert hardware.find(name) is None
    assert hardware.instance(name) is None


@pytest.mark.parametrize(
    ("text", "gib"), [("24GiB", 24), ("24GB", 24), ("80g", 80), (" 16 gb ", 16), ("11.5GiB", 11.5)]
)
def test_a_size_is_a_card(text: str, gib: float) -> None:
    gpu = hardware.find(text)
    assert gpu is not None
    assert gpu.generic
    assert gpu.nominal_bytes == gib * GIB
    assert gpu.usable_bytes < gpu.nominal_bytes


def test_features_follow_the_compute_capability() -> None:
    features = {
        name: (gpu.bf16, gpu.flash_attention, gpu.fp8)
        for name in ("V100-32GB", "T4", "A100-80GB", "L4", "H100", "B200")
        if (gpu := hardware.find(name))
    }
    assert features == {
        "V100-32GB": (False, 0, False),
        "T4": (False, 1, False),
        "A100-80GB": (True, 2, False),
        "L4": (True, 2, True),
        "H100": (True, 3, True),
        "B200": (True, 2, True),
    }


def test_every_card_is_found_by_its_names_and_is_sane() -> None:
    rows = _rows()
    assert len(rows) >= 120
    for row in rows:
        gpu = hardware.find(str(row["name"]))
        assert gpu is not None
        assert gpu.name == row["name"]
        assert 0.85 * gpu.nominal_bytes < gpu.usable_bytes <= gpu.nominal_bytes or gpu.vendor == "apple"
        assert gpu.context_bytes > 0
        assert row["source"]
        for alias in row.get("aliases", ()):  # type: ignore[attr-defined]
            assert hardware.find(alias) == gpu


def test_common_cards_are_ordered_by_what_they_hold() -> None:
    sizes = [gpu.usable_bytes for gpu in hardware.common()]
    assert sizes == sorted(sizes)
    assert len(sizes) >= 10


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    gpu = hardware.find(text)
    assert gpu is None or gpu.usable_bytes > 0
    assert len(hardware.suggestions(text)) <= 8
    hardware.instance(text)


def test_no_machine_has_the_name_of_a_card() -> None:
    """`--gpu H200` would say how many there are."""
    assert catalog.machines()
    assert [name for name in catalog.machines() if catalog.find(name) is not None] == []
