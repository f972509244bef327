"""What may go wrong around a training, and what a training does that is not a plain loop: it must end all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import EarlyStoppingCallback, TrainerCallback

import memlint.train
from memlint.train import session
from memlint.train.meters import LiveTensorMeter
from tests.train.test_training import Counters, close, tiny, trainer


def told(one: Any) -> list[dict[str, Any]]:
    return [row for row in one.state.log_history if "memlint/measured_peak_gib" in row]


def hooks_of(model: torch.nn.Module) -> int:
    return len(model._forward_hooks) + len(model._forward_pre_hooks)


@pytest.mark.parametrize(
    "where", ["estimate", "predicted", "live_state", "state_bytes", "model_config", "write", "metrics", "log", "take"]
)
def test_whatever_fails_the_training_ends(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    owner = {
        "estimate": "memlint.train.predict.estimate",
        "predicted": "memlint.train.session.predicted",
        "live_state": "memlint.train.live.live_state",
        "state_bytes": "memlint.train.live.state_bytes",
        "model_config": "memlint.train.live.model_config",
        "write": "memlint.atomic_files.write_whole",
        "metrics": "memlint.train.record.TrainingRecord.metrics",
        "take": "memlint.train.meters.LiveTensorMeter.take",
    }
    one = trainer(tmp_path)
    callback = memlint.train.watch(one, gpu="A100-80GB")
    if where == "log":
        callback._log = fails
    else:
        monkeypatch.setattr(owner[where], fails)

    one.train()

    assert one.state.global_step == 3
    assert hooks_of(one.model) == 0


def test_a_reporter_that_fails_only_for_memlints_numbers_stops_nothing(tmp_path: Path) -> None:
    class Reporter(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if any(name.startswith("memlint/") for name in logs):
                raise ConnectionError("the service does not know these names")

    one = trainer(tmp_path)
    one.add_callback(Reporter())
    callback = memlint.train.watch(one, gpu="A100-80GB")

    one.train()

    assert one.state.global_step == 3
    assert callback.record is not None
    assert (tmp_path / "memlint-run.json").exists()


def test_a_training_that_its_evaluation_stops_is_told(tmp_path: Path) -> None:
    one = trainer(
        tmp_path,
        max_steps=50,
        learning_rate=0.0,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
    )
    one.add_callback(EarlyStoppingCallback(early_stopping_patience=2))
    memlint.train.watch(one, gpu="A100-80GB")

    one.train()

    assert one.state.global_step == 3
    assert len(told(one)) == 1


def test_a_training_goes_on_from_a_checkpoint_and_is_measured_again(tmp_path: Path) -> None:
    first = trainer(tmp_path, max_steps=2, save_strategy="steps", save_steps=2)
    memlint.train.watch(first, gpu="A100-80GB")
    first.train()
    (tmp_path / "memlint-run.json").unlink()
    second = trainer(tmp_path, max_steps=4)
    callback = memlint.train.watch(second, gpu="A100-80GB")

    second.train(resume_from_checkpoint=True)

    assert second.state.global_step == 4
    assert callback.record is not None and callback.record.worst.steps == 2
    assert callback.record.predicted is not None
    assert (tmp_path / "memlint-run.json").exists()


def test_one_trainer_may_train_twice_and_two_may_train_in_one_process(tmp_path: Path) -> None:
    one, other = trainer(tmp_path / "one"), trainer(tmp_path / "other", per_device_train_batch_size=4)
    first, second = memlint.train.watch(one, gpu="A100-80GB"), memlint.train.watch(other, gpu="A100-80GB")
    one.train()
    other.train()
    assert first.record is not None and second.record is not None
    assert (first.record.worst.longest[0], second.record.worst.longest[0]) == (2, 4)
    # What is measured is the process: the first trainer's model and optimizer are alive beside the second's.
    assert second.record.predicted is not None
    assert second.record.worst.peak.allocated > (second.record.predicted.allocated_bytes or 0)

    one.train()

    assert len(told(one)) == 1, "the second training's log has its own numbers"
    assert hooks_of(one.model) == hooks_of(other.model) == 0


def test_a_batch_that_is_made_smaller_after_an_error_leaves_no_hooks(tmp_path: Path) -> None:
    class OutOfMemory(TrainerCallback):  # type: ignore[misc]
        has_failed = False

        def on_step_end(self, *_: Any, **__: Any) -> None:
            if not self.has_failed:
                self.has_failed = True
                raise RuntimeError("CUDA out of memory.")

    one = trainer(tmp_path, per_device_train_batch_size=4, auto_find_batch_size=True)
    one.add_callback(OutOfMemory())
    callback = memlint.train.watch(one, gpu="A100-80GB")

    one.train()

    assert callback.record is not None
    assert callback.record.worst.longest[0] < 4
    assert hooks_of(one.model) == 0


def test_micro_batches_of_an_accumulation_are_one_step(tmp_path: Path) -> None:
    one = trainer(tmp_path, gradient_accumulation_steps=3)
    callback = memlint.train.watch(one, gpu="A100-80GB")

    one.train()

    assert callback.record is not None and callback.record.worst.steps == 3
    close(callback.record, "forward", "backward", "optimizer_step")


def test_parameters_of_every_kind_are_counted_or_passed_over() -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(100, 8, sparse=True)
            self.empty = torch.nn.Parameter(torch.empty(0))
            self.scalar = torch.nn.Parameter(torch.tensor(1.0))
            self.complex = torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))
            self.whole = torch.nn.Parameter(torch.zeros(3, dtype=torch.int8), requires_grad=False)
            self.tied = self.table.weight
            self.shown = torch.nn.Parameter(torch.zeros(1).expand(5), requires_grad=False)
            self.lazy = torch.nn.LazyLinear(4)
            self.register_buffer("absent", None)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            kept = self.complex.abs().sum() * self.scalar + self.empty.sum() * 0
            return self.lazy(self.table(ids)).sum() + kept

    model, ids = Odd(), torch.zeros((2, 3), dtype=torch.long)
    model(ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with memlint.train.measure(model, optimizer) as memory:
        for _ in range(2):
            model(ids).backward()
            optimizer.step()
    assert memory.record is not None
    assert memory.record.worst.steps == 2
    assert memory.record.worst.state_bytes >= 100 * 8 * 4


def test_a_model_without_parameters_and_no_optimizer_is_measured() -> None:
    model = torch.nn.Flatten()
    with memlint.train.measure(model) as memory:
        model(torch.zeros((2, 3, 4)))
    assert memory.record is not None
    assert memory.record.worst.steps == 0


def test_tensors_without_memory_are_not_counted() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    meter = LiveTensorMeter()
    meter.start(torch.nn.Linear(1, 1))
    before = meter.current
    with FakeTensorMode():
        held = [torch.empty(1_000_000), torch.empty(1_000_000, device="meta")]
    after = meter.current
    meter.stop()
    assert len(held) == 2
    assert after == before


@pytest.mark.parametrize("given", ["wrapper", "inner", "in place"])
def test_a_compiled_model_stays_compiled(
    given: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With fullgraph=True, a hook inside of the compiled model would be an error."""
    monkeypatch.setattr(session, "meter_for", lambda model: Counters())
    torch._dynamo.reset()
    model = called = tiny()
    if given == "in place":
        model.compile(backend="eager", fullgraph=True)
    else:
        called = torch.compile(model, backend="eager", fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.zeros((2, 16), dtype=torch.long)
    with memlint.train.measure(called if given == "wrapper" else model, optimizer, gpu="A100-80GB") as memory:
        for _ in range(2):
            called(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()

    assert memory.record is not None
    if given == "wrapper":
        assert {"forward", "backward", "optimizer_step"} <= set(memory.record.worst.phases)
        assert memory.record.predicted is not None
    else:
        assert memory.record.predicted is None, "what was not seen is not compared"
        assert "no call of the model was seen" in caplog.text


def test_the_trainers_compiled_model_is_hooked_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "meter_for", lambda model: Counters())
    torch._dynamo.reset()
    one = trainer(tmp_path, torch_compile=True, torch_compile_backend="eager")
    callback = memlint.train.watch(one, gpu="A100-80GB")

    one.train()

    assert callback.record is not None
    assert {"forward", "backward", "optimizer_step"} <= set(callback.record.worst.phases)
    assert callback.record.worst.longest == (2, 64)


def test_a_rank_whose_session_failed_still_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: list[Any] = []

    def all_gather_object(found: list[Any], own: Any) -> None:
        gathered.append(own)
        found[:] = [own] * len(found)

    monkeypatch.setattr(session.live, "world", lambda: (1, 2))
    monkeypatch.setattr(torch.distributed, "all_gather_object", all_gather_object)

    assert session.record_of(None) is None
    assert gathered == [None], "the other ranks wait for it"
