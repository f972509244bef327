"""Runs whose files can be read in several ways."""

from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.unknown.readings import in_words, over_readings
from memlint.memory.values import Estimate
from memlint.run import Reading, Run, differences, replace

RUN = Run("trainer", "a.yaml")
VERDICTS = ("fits", "tight", "out_of_memory")
GIB = 2**30


def reading(length: int, given: int = 0) -> Reading:
    fixed = (("sequence.length", given),) if given else (("path", "a.yaml"),)
    return Reading("nobody says", f"with {length}", "as it stands", (("sequence.length", length),), fixed)


def estimator(verdicts: dict[int, str]):
    def estimate(run: Run) -> Estimate:
        size = run.sequence.length * GIB
        return Estimate((), "", size, size, size, size, size, None, verdicts[run.sequence.length])

    return estimate


@given(st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=4))
def test_a_verdict_is_said_only_where_every_reading_has_it(verdicts: list[str]) -> None:
    by_length = dict(enumerate(verdicts, 1))
    run = replace(RUN, {"sequence.length": 1})._replace(readings=tuple(map(reading, range(2, len(verdicts) + 1))))
    found = over_readings(run, estimator(by_length))

    agree = len(set(verdicts)) == 1
    assert found.verdict == (verdicts[0] if agree else "unknown")
    assert bool(found.unknown) is not agree
    assert len(found.readings) != 1
    if not agree:
        assert found.unknown[-1].reason == f"nobody says: {in_words(found.readings)}"


def test_a_changed_run_may_have_settled_the_question() -> None:
    run = replace(RUN, {"sequence.length": 1})._replace(readings=(reading(2, given=1),))
    verdicts = estimator({1: "out_of_memory", 2: "fits", 3: "out_of_memory"})

    assert over_readings(run, verdicts).verdict == "unknown"
    assert over_readings(replace(run, {"sequence.length": 3}), verdicts).verdict == "out_of_memory"


def test_a_reading_for_runs_that_are_over_is_not_asked_of_one_that_fits() -> None:
    run = replace(RUN, {"sequence.length": 1})._replace(readings=(reading(2)._replace(only_where_over=True),))

    assert over_readings(run, estimator({1: "fits", 2: "unknown"})).verdict == "fits"
    assert over_readings(run, estimator({1: "tight", 2: "fits"})).verdict == "unknown"


def test_the_smallest_figure_comes_first() -> None:
    run = replace(RUN, {"sequence.length": 9})._replace(readings=(reading(4),))
    found = over_readings(run, estimator({9: "out_of_memory", 4: "fits"}))

    assert in_words(found.readings) == "4.0 GiB (4.0 - 4.0) with 4, 9.0 GiB (9.0 - 9.0) as it stands"


def test_differences_are_written_as_replace_reads_them() -> None:
    other = replace(RUN, {"batch.micro_batch_size": 3, "parallelism.zero.stage": 3})
    changes = differences(RUN, other, ("batch", "parallelism"))

    assert {name for name, _ in changes} == {"batch.micro_batch_size", "parallelism.zero"}
    assert replace(RUN, dict(changes)) == other
