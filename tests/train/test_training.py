"""Trainings of tiny models on the CPU, with the bytes of live tensors beside what memlint predicts."""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import memlint
import memlint.train
from memlint.memory.card.calibration import stack_of
from memlint.train.meters import LiveTensorMeter, MeasuredPeak
from memlint.train.predict import Training
from memlint.train.session import Session
from tests.commands.running import memlint as command
from tests.train.ranks import CONFIG

ROOT = Path(__file__).parents[2]
LENGTH = 64
NEAR = 0.02  # predicted and counted tensors differ by less, where the model's own tensors are all there is


def tiny(**more: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**CONFIG, tie_word_embeddings=False, **more))


def trainer(folder: Path, model: torch.nn.Module | None = None, **more: Any) -> Trainer:
    words = {"per_device_train_batch_size": 2, "max_steps": 3, "save_strategy": "no", "optim": "adamw_torch", **more}
    arguments = TrainingArguments(
        output_dir=str(folder), report_to=[], use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False, **words
    )
    rows = [{"input_ids": torch.arange(LENGTH), "labels": torch.arange(LENGTH)} for _ in range(8)]
    return Trainer(model or tiny(), arguments, train_dataset=rows, eval_dataset=rows)


def close(record: memlint.train.record.TrainingRecord, *phases: str) -> None:
    rows = {name: (told, peak) for name, told, peak in record.rows()}
    for name in phases:
        told, peak = rows[name]
        assert told and peak, rows
        assert told == pytest.approx(peak.allocated, rel=NEAR), (name, told, peak)


class Counters:
    """A GPU's counters, whose values say how often they were read."""

    device = "cuda"
    sees_loading = True
    taken = 0

    def start(self, model: torch.nn.Module) -> None: ...

    def take(self) -> MeasuredPeak:
        self.taken += 1
        return MeasuredPeak(self.taken, self.taken)

    def stop(self) -> None: ...


def test_the_trainer_is_measured_beside_the_estimate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "memlint.train")
    one = trainer(tmp_path, save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=2)
    callback = memlint.train.watch(one, gpu="A100-80GB")

    one.train()

    assert callback.record is not None
    close(callback.record, "forward", "backward", "optimizer_step", "evaluation", "save")
    assert callback.record.worst.longest == (2, LENGTH)
    assert callback.record.worst.steps == 3
    assert "estimate before the first step" in caplog.messages[0]
    assert str(callback.record) in caplog.messages
    told = [row for row in one.state.log_history if "memlint/measured_peak_gib" in row]
    assert len(told) == 1, "the reporters hear it once"
    losses = [row for row in one.state.log_history if "loss" in row]
    assert len(losses) == 0 or losses[-1]["step"] <= 3
    written = json.loads((tmp_path / "memlint-run.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(callback.record.to_dict()))
    assert written["measured"]["state_bytes"] <= written["measured"]["allocated_bytes"]


def test_frozen_parameters_are_those_of_the_live_model(tmp_path: Path) -> None:
    model = tiny()
    for parameter in model.model.layers[:2].parameters():
        parameter.requires_grad = False
    one = trainer(tmp_path, model)
    callback = memlint.train.watch(one, gpu="A100-80GB")

    one.train()

    assert callback.record is not None and callback.record.predicted is not None
    trained = sum(each.numel() for each in model.parameters() if each.requires_grad)
    assert callback.record.predicted.trainable_parameters == trained
    phases = {phase.name: phase.components for phase in callback.record.predicted.phases}
    assert phases["optimizer_step"]["optimizer_states"] == pytest.approx(2 * 4 * trained, rel=0.01)


def test_a_loop_of_ones_own_is_measured(tmp_path: Path) -> None:
    model, ids = tiny(), torch.randint(0, 2048, (3, 48))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    with memlint.train.measure(model, optimizer, gpu="A100-80GB", folder=str(tmp_path)) as memory:
        for _ in range(2):
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    assert memory.estimate.run.batch.micro_batch_size == 3
    assert memory.estimate.run.sequence.length == 48
    assert memory.record is not None
    close(memory.record, "forward", "backward", "optimizer_step")
    assert (tmp_path / "memlint-run.json").exists()
    assert not model._forward_hooks and not model._forward_pre_hooks, "nothing stays on the model"


def test_a_model_that_memlint_does_not_know_is_measured_all_the_same() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with memlint.train.measure(model, optimizer) as memory:
        for _ in range(2):
            model(torch.randn(16, 64)).sum().backward()
            optimizer.step()

    assert memory.record is not None and memory.record.predicted is None
    assert memory.record.worst.phases["backward"].allocated > 0


def test_a_training_that_does_not_fit_is_warned_of_or_stopped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    warned = trainer(tmp_path, max_steps=1)
    memlint.train.watch(warned, gpu="1GiB", length=2_000_000)
    warned.train()
    assert any("does not fit its card" in message for message in caplog.messages)
    stopped = trainer(tmp_path, max_steps=1)
    memlint.train.watch(stopped, gpu="1GiB", length=2_000_000, on_misfit="stop")
    with pytest.raises(memlint.train.DoesNotFit, match="does not fit"):
        stopped.train()
    assert issubclass(memlint.train.DoesNotFit, memlint.Error)


@pytest.mark.parametrize(
    "where", ["Session.start", "Session.record", "Session.own_record", "PhaseRecorder.enter", "PhaseRecorder.saved"]
)
def test_a_failure_of_memlints_never_stops_a_training(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from memlint.train import phases, session

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("memlint is broken")

    owner, name = where.split(".")
    monkeypatch.setattr(getattr(session, owner, None) or getattr(phases, owner), name, fails)
    one = trainer(tmp_path, save_strategy="steps", save_steps=2)
    memlint.train.watch(one, gpu="A100-80GB")
    resize = torch.UntypedStorage.resize_

    one.train()

    assert one.state.global_step == 3
    assert any("memlint is broken" in message for message in caplog.messages)
    assert torch.UntypedStorage.resize_ is resize  # the meter is stopped
    assert not one.model._forward_pre_hooks and not one.model._forward_hooks


# gloo copies what it scatters, and its thread frees the copy when it comes to it.
@pytest.mark.parametrize(("kind", "near"), [("ddp", NEAR), ("fsdp", 0.15)])
def test_ranks_are_gathered_and_told_by_the_first(kind: str, near: float, tmp_path: Path) -> None:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = subprocess.run(
        [*launcher, str(ROOT / "tests/train/ranks.py"), kind, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]

    record = json.loads((tmp_path / "memlint-run.json").read_text(encoding="utf-8"))

    assert [one["rank"] for one in record["ranks"]] == [0, 1]
    assert record["stack"].split()[1] == kind
    for name in ("forward", "backward", "optimizer_step"):
        told = record["phases"][name]
        assert told["predicted_bytes"] == pytest.approx(told["measured_bytes"], rel=near), (name, record["phases"])


def on_a_card(record: dict[str, Any], reserved: float) -> dict[str, Any]:
    """The record as a GPU would have it: PyTorch reserved `reserved` times the prediction."""
    told = record["predicted"]
    measured = {**record["measured"], "allocated_bytes": told["allocated_bytes"]}
    measured["reserved_bytes"] = max(int(told["reserved_bytes"] * reserved), told["allocated_bytes"])
    return {**record, "device": "cuda", "measured": measured}


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    one = trainer(tmp_path / "out")
    callback = memlint.train.watch(one, gpu="A100-80GB")
    one.train()
    assert callback.record is not None
    return callback.record.to_dict()


# The files of other stacks than the recorded one: keys, GPU, number of GPUs.
OTHERS: dict[str, tuple[dict[str, Any], str, int]] = {
    "adapter": ({"use_peft": True, "lora_r": 8}, "A100-80GB", 1),
    "card": ({}, "H100-80GB", 1),
    "ranks": ({}, "A100-80GB", 2),
}
LONG = 4096  # of the files that are estimated, so that PyTorch's part outweighs the context's


def intervals(folder: Path) -> dict[str, memlint.Estimate]:
    """The estimates of the recorded stack and of others, with what `calibrate` keeps in the folder."""
    found = {}
    for name, (more, gpu, gpus) in {"same": ({}, "A100-80GB", 1), **OTHERS}.items():
        keys = {"model_name_or_path": "./model", "output_dir": "out", "optim": "adamw_torch", "learning_rate": 1e-5}
        keys |= {"per_device_train_batch_size": 8, "max_length": LONG, "bf16": False, **more}
        (folder / f"{name}.json").write_text(json.dumps(keys), encoding="utf-8")
        found[name] = memlint.estimate(folder / f"{name}.json", gpu=gpu, gpus=gpus)
    return found


def width(one: memlint.Estimate) -> int:
    assert one.device_low_bytes is not None and one.device_high_bytes is not None
    return one.device_high_bytes - one.device_low_bytes


def test_a_record_narrows_the_interval_of_what_was_measured(tmp_path: Path, record: dict[str, Any]) -> None:
    tiny().save_pretrained(tmp_path / "model")
    (tmp_path / "memlint.yaml").write_text(f'versions: {{torch: "{torch.__version__.partition("+")[0]}"}}\n')
    before = intervals(tmp_path)
    assert record["stack"] == stack_of(before["same"].run)
    for number, share in enumerate((1.02, 1.03, 1.04)):
        name = f"run{number}.json"
        (tmp_path / name).write_text(json.dumps(on_a_card(record, share)), encoding="utf-8")
        assert intervals(tmp_path) == before, "fewer than three change nothing"
        done = command(tmp_path, "calibrate", name)
        assert done.code == 0, done.err
    assert "its interval rests on them" in done.out.splitlines()[-1]

    after = intervals(tmp_path)

    told, same = before["same"], after["same"]
    assert same.allocated_bytes == told.allocated_bytes, "the tensors' figure stays"
    assert width(same) < 0.5 * width(told)
    assert f"3 measurements of {record['stack']}" in str(same.to_dict()["assumptions"])
    outside = (told.device_bytes or 0) - (told.reserved_bytes or 0)
    for share in (1.02, 1.03, 1.04):
        seen = outside + share * (told.reserved_bytes or 0)
        assert (same.device_low_bytes or 0) <= seen <= (same.device_high_bytes or 0)
    for name in OTHERS:
        assert after[name] == before[name], name


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "cpu"}, "on the CPU"),
        ({"steps": 1}, "1 steps"),
        ({"measured": {"allocated_bytes": 10, "reserved_bytes": 20, "state_bytes": 30}}, "alive at the end"),
        ({"measured": {"allocated_bytes": 10**9, "reserved_bytes": 10, "state_bytes": 1}}, "are below"),
        ({"measured": {"allocated_bytes": 10**12, "reserved_bytes": 10**12, "state_bytes": 1}}, "times the estimate"),
        ({"predicted": {"allocated_bytes": None}}, "no estimate"),
        ({"schema_version": 9}, "schema version 9"),
        ({"measured": None}, "no training record"),
    ],
)
def test_a_measurement_that_contradicts_itself_is_refused(
    change: dict[str, Any], reason: str, tmp_path: Path, record: dict[str, Any]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({**on_a_card(record, 1.1), **change}), encoding="utf-8")

    done = command(tmp_path, "calibrate", "run.json")

    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert not list(tmp_path.glob(".memlint-measurements.json"))


def test_only_longer_batches_are_measured_after_the_first_steps() -> None:
    model, meter = tiny(), Counters()
    optimizer = torch.optim.AdamW(model.parameters())
    session = Session(Training(model, optimizer, {}, (1, 8), "A100-80GB"), "warn", meter)
    session.start()

    def step(length: int) -> int:
        before = meter.taken
        ids = torch.zeros((1, length), dtype=torch.long)
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        return meter.taken - before

    taken = [step(8) for _ in range(14)]
    assert all(number >= 3 for number in taken[:10])
    assert taken[11:] == [0, 0, 0]
    assert step(16) >= 3
    session.stop()
    assert session.recorder.longest == (1, 16)


def test_tensors_that_an_earlier_training_left_in_a_cycle_are_not_counted() -> None:
    def counted() -> int:
        meter = LiveTensorMeter()
        meter.start(model)
        meter.stop()
        return meter.current

    model = tiny()
    before = counted()
    gc.disable()
    try:
        left: list[Any] = [torch.zeros(1 << 20)]
        left.append(left)
        del left
        assert counted() == before
    finally:
        gc.enable()
