"""Words and options of TrainingArguments that end a run: each was tried with transformers 5.23.0."""

from __future__ import annotations

import pytest

import memlint

CONFIG = (
    "model_name_or_path: Qwen/Qwen2.5-0.5B\noutput_dir: o\nlearning_rate: 2.0e-5\nnum_train_epochs: 1\n"
    "weight_decay: 0.1\nsave_steps: 9\n{}\n"
)


def said(line: str) -> list[str]:
    found = memlint.check(CONFIG.format(line), path="train.yaml", fixes=False, isolated=True).findings
    return [one.message for one in found if one.rule in ("CFG002", "CFG003", "CFG004")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("debug: underflow", "`debug: underflow`: did you mean `underflow_overflow`?"),
        ("debug: underflow_overflow", ""),
        ("debug: some_word", ""),
        ("torch_compile_backend: inductorr", "`torch_compile_backend: inductorr`: did you mean `inductor`?"),
        ("torch_compile_backend: Inductor", ""),
        ("lr_scheduler_kwargs: num_cycles=2", "`lr_scheduler_kwargs: num_cycles=2` is no mapping"),
        ("""lr_scheduler_kwargs: '{"num_cycles": 2}'\nlr_scheduler_type: cosine""", ""),
        ("gradient_checkpointing: true\ngradient_checkpointing_kwargs: reentrant", "`gradient_checkpointing_kwargs: r"),
        ("gradient_checkpointing_kwargs: {use_rentrant: false}", "checkpointing takes no `use_rentrant`: did you mean"),
        ("gradient_checkpointing_kwargs: {use_reentrant: false}", ""),
        (
            "lr_scheduler_type: cosine\nlr_scheduler_kwargs: {num_cycle: 2}",
            "`cosine` takes no `num_cycle`: did you mean",
        ),
        ("lr_scheduler_type: cosine\nlr_scheduler_kwargs: {num_cycles: 2}", ""),
        ("lr_scheduler_type: warmup_stable_decay", "`warmup_stable_decay` needs `num_decay_steps`"),
        ("lr_scheduler_type: warmup_stable_decay\nlr_scheduler_kwargs: {num_decay_steps: 9}", ""),
        ("lr_scheduler_type: warmup_stable_decay\ndeepspeed: ds.json", ""),
        ("per_device_train_batch_size: 0", "`per_device_train_batch_size` must be at least 1, got 0"),
        ("gradient_accumulation_steps: 0", "`gradient_accumulation_steps` must be at least 1, got 0"),
        ("dataloader_num_workers: -1", "`dataloader_num_workers` must be at least 0, got -1"),
        ("use_peft: true\nlora_r: -100", "`lora_r` must be at least 1, got -100"),
        ("lora_r: -100", "`lora_r` must be at least 1, got -100"),
        ("use_peft: false\nlora_r: -100", ""),
    ],
)
def test_words_that_end_a_run(line: str, message: str) -> None:
    found = said(line)
    assert [one[: len(message)] for one in found] == ([message] if message else [])
