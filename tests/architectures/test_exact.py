"""Families whose parameter shapes memlint does not know, counted by their own classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.architectures import UnsupportedConfig, exact, from_config, resolve
from memlint.architectures.model import parameters
from memlint.cli import main
from tests.architectures import referee
from tests.architectures.small import SMALL


@pytest.mark.parametrize("family", ["doge", "zamba2", "git", "kosmos-2"])
def test_counts_are_the_classes_own(family: str) -> None:
    with pytest.raises(UnsupportedConfig):
        from_config({"model_type": family})
    model = referee.build(family, {})
    architecture = exact.count({"model_type": family})
    assert parameters(architecture) == sum(parameter.numel() for parameter in model.parameters())
    assert architecture.unmodelled


def test_tensors_of_a_known_family_agree_with_its_block_list() -> None:
    config = {"model_type": "llama", **SMALL}
    counted, listed = exact.count(config), from_config(config)
    assert parameters(counted) == parameters(listed)
    assert {weight.name for weight in counted.layer_types[0].weights} == {
        weight.name for weight in listed.layer_types[0].weights
    }


def test_only_on_request() -> None:
    models = {"mine": {"model_type": "doge"}}
    assert resolve("mine", models=models).architecture is None
    assert resolve("mine", models=models, exact=True).architecture is not None


def test_the_command_line_asks_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "doge", **SMALL}))
    config = tmp_path / "train.yaml"
    config.write_text("model_name_or_path: model\nstage: sft\nfinetuning_type: lora\ndataset: x\noutput_dir: out\n")
    main(["estimate", str(config), "--isolated"])
    assert "no parameter shapes known for model_type `doge`" in capsys.readouterr().out
    main(["estimate", str(config), "--isolated", "--exact"])
    printed = capsys.readouterr().out
    assert "parameters" in printed and "counted by transformers' class" in printed


def test_what_transformers_does_not_know_either() -> None:
    with pytest.raises(UnsupportedConfig, match="has no class"):
        exact.count({"model_type": "made_up"})
    with pytest.raises(UnsupportedConfig, match="does not build"):
        exact.count({"model_type": "doge", "hidden_size": "wide"})
