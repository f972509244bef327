"""Which keys make two runs differ, and what each alone adds to the peak."""

from __future__ import annotations

from memlint.memory import estimate
from memlint.revisions.run_change import changes
from memlint.run import UNKNOWN, Origin, Run, replace
from tests.memory.runs import run


def stated(base: Run, *names: str, pointer: tuple[str, ...] | None = None, line: int = 3) -> Run:
    """The run with fields that the file states at one key."""
    origins = {name: Origin("file", "a.yaml", line, 1, pointer or (name.rpartition(".")[2],)) for name in names}
    return base._replace(origins={**base.origins, **origins})


def test_equal_runs_have_no_changes() -> None:
    assert changes(run(), run()) == ()


def test_a_key_has_its_effect_alone() -> None:
    before = stated(run(), "batch.micro_batch_size")
    (found,) = changes(before, replace(before, {"batch.micro_batch_size": 8}))

    larger = estimate(run(batch__micro_batch_size=8)).device_bytes
    smaller = estimate(run()).device_bytes
    assert larger is not None and smaller is not None and larger > smaller
    assert found == ("micro_batch_size", "2", "8", "a.yaml:3", larger - smaller)


def test_the_largest_effect_comes_first() -> None:
    before = stated(run(), "batch.micro_batch_size", "sequence.length", "optimizer.name")
    after = replace(before, {"batch.micro_batch_size": 32, "sequence.length": 257, "optimizer.name": "adamw_hf"})
    effects = [abs(change.own_effect or 0) for change in changes(before, after)]

    assert len(effects) == 3 and effects == sorted(effects, reverse=True) and effects[0] > effects[1]


def test_fields_that_one_key_sets_are_one_change() -> None:
    before = stated(run(), "precision.compute", "precision.autocast", pointer=("bf16",))
    after = replace(before, {"precision.compute": "float16", "precision.autocast": True})

    (found,) = changes(before, after)
    assert found.name == "bf16"


def test_what_nobody_wrote_is_no_cause() -> None:
    before = run()
    assert changes(before, replace(before, {"batch.micro_batch_size": 8})) == ()
    inferred = before._replace(origins={"batch.micro_batch_size": Origin("inferred", detail="x")})
    assert changes(inferred, replace(inferred, {"batch.micro_batch_size": 8})) == ()


def test_a_key_that_is_gone_is_placed_where_it_was() -> None:
    before = stated(run(batch__micro_batch_size=8), "batch.micro_batch_size")
    (found,) = changes(before, run())
    assert (found.before, found.after, found.place) == ("8", "2", "a.yaml")


def test_an_unknown_value_has_no_effect_that_is_known() -> None:
    before = stated(run(), "batch.micro_batch_size")
    (found,) = changes(before, replace(before, {"batch.micro_batch_size": UNKNOWN}))
    assert (found.after, found.own_effect) == ("unknown", None)


def test_values_are_shown_as_configs_write_them() -> None:
    names = ("precision.autocast", "method.targets")
    before = stated(run(precision__autocast=False, method__targets=()), *names)
    after = replace(before, {"precision.autocast": True, "method.targets": ("q_proj", "v_proj")})
    shown = {change.name: (change.before, change.after) for change in changes(before, after)}

    assert shown == {"autocast": ("false", "true"), "targets": ("", "q_proj, v_proj")}
