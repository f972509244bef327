"""The bars that the estimate is held to, on everything that can be computed anew without PyTorch or a GPU."""

from __future__ import annotations

from statistics import median

import tests.comparisons.card_fit as card_fit
import tests.comparisons.claims as claims
import tests.comparisons.measured as measured
import tests.comparisons.page as accuracy
import tests.comparisons.pairs as pairs
import tests.comparisons.plans_simulated as plans_simulated
import tests.comparisons.random_cases as random_cases
import tests.comparisons.random_plans as random_plans
import tests.comparisons.threads as threads
import tests.comparisons.verdicts as verdicts


def test_the_page_says_what_the_tables_say() -> None:
    said = accuracy.PAGE.read_text(encoding="utf-8")
    assert said == accuracy.page(), "run: python benchmarks/accuracy/page.py --write"


def test_random_steps() -> None:
    errors = [random_cases.errors(one, kept) for one, kept in random_cases.kept()]
    peaks = [abs(found["peak"]) for found in errors if found]
    assert len(peaks) >= 200
    assert median(peaks) <= 0.015
    assert measured.quantile(peaks, 0.95) <= 0.05


def test_published_measurements() -> None:
    scored, _ = measured.published()
    sizes = [abs(one.error) for one in scored]
    assert len(sizes) >= 154
    assert median(sizes) <= 0.03
    assert measured.quantile(sizes, 0.9) <= 0.10
    assert min(one.error for one in scored) >= -0.12
    both = [one for one in scored if one.device]
    assert sum(one.low <= one.device <= one.high for one in both) >= 0.9 * len(both)
    assert median((one.high - one.low) / one.device for one in both) <= 0.20
    assert sum(one.verdict == "out_of_memory" for one in scored) <= 0.02 * len(scored)


def test_the_card_on_rows_that_took_no_part_in_the_fit() -> None:
    unseen = card_fit.together(card_fit.halves())
    assert unseen.inside >= 0.95 * unseen.rows
    # 99.7 % inside; margins are those of rows whose model no fit has seen, and as wide for all as for full fine-tuning,
    # which has a lower end of its own in what is shipped.
    assert unseen.width <= 0.205
    # A file or a stack has classes of runs that no other has (sharded ones; a fused loss), whose terms start at round
    # numbers: they are covered by wider intervals. Runs on a T4 lie up to 4 % below what those on A100s alone say.
    for group, inside, width in (
        (card_fit.model, 0.95, 0.195),
        (card_fit.file, 0.95, 0.195),
        (card_fit.owner, 0.95, 0.23),
    ):
        found = card_fit.together(card_fit.each_left_out(group).values())
        assert found.inside >= inside * found.rows
        assert found.width <= width


def test_no_run_that_died_is_said_to_fit() -> None:
    _, counts = verdicts.table()
    assert counts["fits"] == 0
    assert counts["out_of_memory"] >= 45


# Nobody in these threads measured anything, and nothing that memlint computes explains them.
UNEXPLAINED = {"hiyouga/LlamaFactory#3500", "hiyouga/LlamaFactory#5709", "huggingface/alignment-handbook#22"} | {
    "axolotl-ai-cloud/axolotl#2412",  # weights that are drawn at random, in what dtype is not recorded
    "hiyouga/LlamaFactory#9572",  # the DeepSpeed file and the traceback are not quoted
    "modelscope/ms-swift#6405",  # AWQ's kernels on experts of a file that another library stored
}


def test_threads_that_died_and_the_fixes_that_helped() -> None:
    table = threads.judged()
    wrong = {
        thread["thread"] for thread, runs in table for one in runs if (one.outcome, one.verdict) == ("died", "fits")
    }
    assert wrong <= UNEXPLAINED
    assert not [one for _, runs in table for one in runs if (one.outcome, one.verdict) == ("fitted", "out_of_memory")]
    known = [(thread["helped"], runs[0].fixes) for thread, runs in table if thread["helped"]]
    assert len(known) >= 21
    # Two get another way that fits and costs less than shorter prompts and a quarter of the batch: checkpointing.
    assert sum(any(threads.offered(fixes, kind) for kind in helped) for helped, fixes in known) >= 0.9 * len(known)


# Without the precision that its author trained in; one whose samples are far shorter than the limit in its file; one
# whose rank, targets, length and offload are not recorded.
UNRECORDED = {"trl#3456", "LlamaFactory#7197", "ms-swift#5615"}


def test_configs_whose_authors_name_their_cards() -> None:
    table = claims.answers()
    ran = [(claim["source"], one) for claim, one in table if one.outcome == "fitted"]
    assert len(ran) >= 150
    assert {source for source, one in ran if one.said == "over"} <= UNRECORDED
    assert sum(one.said == "if" for _, one in ran) <= 3
    assert sum(one.said == "unknown" for _, one in ran) <= 11
    # LlamaFactory#4199 (fp16) is one of them by 0.01 GiB.
    assert sum(one.said == "fits" for _, one in table if one.outcome == "died") <= 15
    assert all("why" in claim for claim, one in table if one.wrong or one.said == "unknown")


def test_plans_hold_when_they_are_simulated() -> None:
    found = plans_simulated.confirmed()
    assert len(found) == 10
    assert all(one.before.verdict in ("tight", "out_of_memory") and one.after.verdict == "fits" for one in found)
    assert all(one.holds for one in found), "run: python benchmarks/referee/plans_simulated.py --run"
    assert all(abs((one.after.allocated_bytes or 0) / one.peak - 1) <= 0.03 for one in found)


def test_plans_of_random_runs_hold_when_they_are_simulated() -> None:
    """Every plan and step that was simulated and is still offered: the closed form is near, and what is said to fit
    does."""
    found = list(random_plans.confirmed())
    assert len(found) >= 150
    # Open: Gemma 2's 8-bit states beside a full card are 1.5 % low, sequences that verl shares over 8 GPUs 2.02 %, the
    # end of a frozen Qwen2-VL's forward 2.04 %, the backward of 4-bit layers under FSDP 2 with Liger's loss 3.3 %, the
    # backward of FSDP 2 with Axolotl's checkpoints in host memory 7 %, simulated in Unsloth's way.
    assert sum(not row.holds for row in found) <= 1, "run: python benchmarks/referee/random_plans.py --run"
    assert sum(abs(row.error) <= 0.02 for row in found) >= 0.97 * len(found)
    assert sum(row.error < -0.02 for row in found) <= 3


def test_differences_of_one_knob() -> None:
    found = pairs.every()
    assert len(found) >= 100
    assert sum(abs(pair.error) <= 0.10 for pair in found) >= 0.9 * len(found)
