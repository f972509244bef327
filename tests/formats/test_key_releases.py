"""Keys by the releases that take them: what the stated one refuses, and what none takes together."""

from __future__ import annotations

import pytest

from memlint.formats.key_releases import KeyReleases, key_releases

TABLE = KeyReleases(["0.1.0", "0.2.0", "0.4.0", "0.4.1"], {"0-3": "model", "0": "old", "1-2": "middle", "3": "new.key"})


@pytest.mark.parametrize(
    ("keys", "stated", "found"),
    [
        (("model", "middle"), (), None),
        (("model", "old", "middle"), (), None),  # a commit between the two releases may take both
        (("model", "old", "new.key"), (), ("0.4.1", ("old",))),
        (("model", "old"), (0, 1), None),
        (("model", "old"), (0, 2), ("0.2.0", ("old",))),
        (("model", "middle"), (0, 3), None),  # of a release that is not in the table its neighbours speak
        (("model", "old"), (0, 3), ("0.4.0", ("old",))),
        (("new.key",), (0, 4), None),
        (("old",), (0, 5), None),  # a newer release may take anything
        (("old",), (0, 0, 9), None),
    ],
)
def test_what_a_release_refuses(
    keys: tuple[str, ...], stated: tuple[int, ...], found: tuple[str, tuple[str, ...]]
) -> None:
    refusal = TABLE.refusal(keys, stated)
    assert (refusal and refusal[:2]) == found
    assert refusal is None or refusal.is_stated is bool(stated)


def test_argparse_takes_the_beginning_of_a_key() -> None:
    assert TABLE.refusal(("mod", "new"), (0, 4, 1)) is not None
    assert TABLE.refusal(("mod", "new"), (0, 4, 1), abbreviates=True) is None


@pytest.mark.parametrize(
    ("name", "program", "key"),
    [
        ("openrlhf", "ppo_ray", "actor.num_gpus_per_node"),
        ("swift", "rlhf", "rlhf_type"),
        ("verl", "ppo", "actor_rollout_ref.rollout.n"),
        ("verl", "sft_trainer", "engine.strategy"),
    ],
)
def test_the_tables_have_each_program(name: str, program: str, key: str) -> None:
    table = key_releases(name, program)
    assert table is not None and table.knows(key) and not table.knows(f"{key}_of_a_fork")
