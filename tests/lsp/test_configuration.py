"""An editor's settings count as the command line's options do."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.lsp.configuration import configuration


def test_every_setting_arrives() -> None:
    given = {
        "gpu": "A100-80GB",
        "gpus": 8,
        "gpusPerNode": 4,
        "model": "org/name",
        "with": ["accelerate.yaml"],
        "versions": {"transformers": "4.48"},
        "images": 0,
        "hub": True,
        "settings": "lint.yaml",
        "isolated": True,
        "select": "MEM001, memory",
        "ignore": ["ATT001"],
        "profile": "strict",
        "preview": True,
    }

    found = configuration(given, "/repository")

    facts, request = found.request.facts, found.request
    assert found.mistakes == ()
    assert facts.gpu is not None and facts.gpu.name == "A100-80GB"
    assert (facts.gpus, facts.gpus_per_node, facts.model, facts.companions) == (8, 4, "org/name", ("accelerate.yaml",))
    assert (facts.versions, facts.images, facts.hub) == ({"transformers": (4, 48)}, 0, True)
    assert (facts.settings_file, facts.isolated) == ("lint.yaml", True)
    assert (request.select, request.ignore) == (("MEM001", "memory"), ("ATT001",))
    assert (request.profile, request.preview, request.fixes, request.cwd) == ("strict", True, False, "/repository")


def test_a_machine_names_its_cards_and_their_number() -> None:
    facts = configuration({"gpu": "p4d.24xlarge"}, "").request.facts

    assert facts.gpu is not None and facts.gpu.name == "A100-40GB"
    assert (facts.gpus, facts.gpus_per_node) == (8, 8)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"gpu": "A100-800GB"}, "unknown GPU 'A100-800GB': did you mean"),
        ({"gpu": 80}, "setting `gpu`: wants text"),
        ({"gpus": 0}, "setting `gpus`: wants a whole number from 1 on"),
        ({"gpus": True}, "wants a whole number"),
        ({"versions": {"transformer": "4.48"}}, "transformer: 4.48 is no version of a package"),
        ({"versions": "4.48"}, "wants versions by package"),
        ({"select": [1]}, "wants a list of names"),
        ({"profile": "strictest"}, "wants one of default, strict, ci"),
        ({"hub": "yes"}, "wants true or false"),
        ({"gpu_": "H100"}, "unknown setting `gpu_`: did you mean `gpu`?"),
    ],
)
def test_a_wrong_setting_is_named_and_left_out(settings: dict[str, Any], words: str) -> None:
    found = configuration({**settings, "model": "org/name"}, "")

    assert len(found.mistakes) == 1 and words in found.mistakes[0]
    assert found.request.facts.model == "org/name"
    assert found.request._replace(facts=found.request.facts._replace(model="")) == configuration({}, "").request


@pytest.mark.parametrize("settings", [None, [], "gpu", {}, {"gpu": None, "model": ""}])
def test_no_settings_say_nothing(settings: Any) -> None:
    assert configuration(settings, "").mistakes == ()
