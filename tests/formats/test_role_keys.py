"""Rows that are written once for several models: each role gets its own names, texts and reader."""

from __future__ import annotations

from memlint.formats.keys import Key
from memlint.formats.openrlhf.keys import KEYS as OPENRLHF
from memlint.formats.role_keys import of_role
from memlint.formats.verl.keys import KEYS as VERL

ROWS = (
    Key("{role}.size", "whole", older=("{role}_size",), about="Sizes of {noun}."),
    Key("{role}.own", "flag", read=lambda fields, config: None, about="Read by itself."),
)


def test_names_texts_and_readers_are_the_roles() -> None:
    first, second = of_role(ROWS, "critic", "the critic", "critic.size")
    assert (first.name, first.older, first.about) == ("critic.size", ("critic_size",), "Sizes of the critic.")
    assert first.read_with == "critic.size"
    assert second.name == "critic.own" and second.read_with == ""


def test_no_row_of_a_table_keeps_a_placeholder() -> None:
    for table in (VERL, OPENRLHF):
        assert table
        for row in table:
            assert "{" not in "".join((row.name, row.about, row.read_with, *row.names)), row.name


def test_both_frameworks_have_the_rows_of_each_role() -> None:
    for role in ("actor", "critic", "ref", "reward"):
        assert OPENRLHF[f"{role}.num_gpus_per_node"].names[-1] == f"{role}_num_gpus_per_node"
    for role in ("rollout", "ref"):
        assert VERL[f"actor_rollout_ref.{role}.log_prob_max_token_len_per_gpu"].kind == "whole"
    assert VERL["critic.ppo_micro_batch_size"].read_with == "algorithm.adv_estimator"
