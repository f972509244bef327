"""The card's interval before and after `memlint calibrate` has read files of the callback.

    python benchmarks/train/calibrated.py

The files are those of tiny trainings on the CPU, with what the counters of a GPU would show in place of the live
tensors: the tensors as predicted, and PyTorch's reserve 2, 3 and 4 % above the prediction. The interval is that of a
8 B model with the same framework, engine, method, card and PyTorch, and of one with another card.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import memlint
from benchmarks.train.trainer_steps import train
from memlint.train.record import FILE

ROOT = Path(__file__).resolve().parents[2]
SHARES = (1.02, 1.03, 1.04)
CONFIG = {"model_name_or_path": "meta-llama/Llama-3.1-8B", "output_dir": "out", "optim": "adamw_torch", "bf16": False}
CONFIG |= {"per_device_train_batch_size": 1, "max_length": 2048, "gradient_checkpointing": True, "learning_rate": 1e-5}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        train("plain", "out")
        record = json.loads(Path("out", FILE).read_text(encoding="utf-8"))
        Path("config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        release = torch.__version__.partition("+")[0]
        Path("memlint.yaml").write_text(f'versions: {{torch: "{release}"}}\n', encoding="utf-8")
        print("files  A100-80GB                 H200")
        _show(0)
        for number, share in enumerate(SHARES, 1):
            Path(f"run{number}.json").write_text(json.dumps(_on_a_card(record, share)), encoding="utf-8")
            subprocess.run(
                [sys.executable, "-m", "memlint", "calibrate", f"run{number}.json"],
                check=True,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            _show(number)


def _show(files: int) -> None:
    print(f"{files:<7}{_interval('A100-80GB'):<26}{_interval('H200')}", flush=True)


def _interval(gpu: str) -> str:
    found = memlint.estimate("config.json", gpu=gpu, gpus=1)
    low, high = (found.device_low_bytes or 0) / 2**30, (found.device_high_bytes or 0) / 2**30
    return f"{found.gib:.1f} ({low:.1f} - {high:.1f}) GiB"


def _on_a_card(record: dict[str, Any], share: float) -> dict[str, Any]:
    told = record["predicted"]
    measured = {"allocated_bytes": told["allocated_bytes"], "reserved_bytes": int(share * told["reserved_bytes"])}
    return {**record, "device": "cuda", "measured": {**record["measured"], **measured}}


if __name__ == "__main__":
    main()
