"""Which of Axolotl's checks a release and a copy of it have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from memlint.formats.axolotl.checks import CHECKS
from memlint.formats.axolotl.releases import RELEASES
from tests.commands.running import memlint

ROOT = Path(__file__).parents[3]
RULES = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "rules/axolotl").glob("*.yaml"))]
FSDP2 = (
    "base_model: Qwen/Qwen2.5-1.5B\ndatasets: [{path: tatsu-lab/alpaca, type: alpaca}]\nsequence_len: 1024\n"
    "micro_batch_size: 1\ngradient_accumulation_steps: 4\nnum_epochs: 1\noptimizer: adamw_torch\n"
    "learning_rate: 0.0001\nadapter: qlora\nlora_r: 8\nload_in_4bit: true\nbf16: true\noutput_dir: out\n"
    "fsdp_version: 2\nfsdp_config: {cpu_ram_efficient_loading: true}\n"
)
CHECK = "    def check_fsdp2_cpu_ram_efficient_loading_w_4bit(cls, data): ...\n"
OLD = 'setup(name="axolotl", version="0.4.1")\n'
COPY = "from pydantic import BaseModel\nclass AxolotlInputConfig(BaseModel):\n    sequence_len: int = 512\n"


@pytest.mark.parametrize("rule", [one for one in RULES if "refuses" in one["message"]], ids=lambda rule: rule["id"])
def test_a_rule_that_says_refused_names_its_check(rule: dict[str, object]) -> None:
    named = [name for source in rule["sources"] for name in re.findall(r" \((\w+)\)$", source)]  # type: ignore[attr-defined]
    functions, since = CHECKS[str(rule["id"])]
    assert list(functions) == named
    assert since in [release.version[:2] for release in RELEASES]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, True),
        ({"requirements.txt": "axolotl==0.19.0\n"}, True),
        ({"requirements.txt": "axolotl==0.16.1\n"}, False),
        ({"src/axolotl/utils/schemas/config.py": COPY}, False),
        ({"src/axolotl/utils/schemas/config.py": COPY, "requirements.txt": "axolotl==0.19.0\n"}, False),
        ({"src/axolotl/utils/schemas/config.py": COPY + CHECK}, True),
        ({"src/axolotl/utils/config/models/input/v0_4_1/__init__.py": COPY}, False),
        ({"src/axolotl/utils/config/models/input/v0_4_1/__init__.py": COPY + CHECK, "setup.py": OLD}, True),
    ],
    ids=["newest", "stated", "older", "copy", "copy and release", "copy that checks", "older copy", "that checks"],
)
def test_what_a_release_or_a_copy_does_not_check_is_not_said_to_be_refused(
    files: dict[str, str], told: bool, tmp_path: Path
) -> None:
    for name, text in {"a.yaml": FSDP2, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert ("AXO044" in memlint(tmp_path, "check", "a.yaml").out) is told
