"""`memlint calibrate`: records the measured memory of a run, which narrows the intervals of later estimates.

FILE is a config, with `--measured 71.3GiB`, or the `memlint-run.json` that `memlint.train` wrote.
"""

from __future__ import annotations

import os

from memlint.atomic_files import NotWritten
from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.lint.linter import Linter
from memlint.lint.measurements import measurements_folder
from memlint.lint.training_record import is_training_record, measurements_of
from memlint.memory.card.calibration import METRICS, MIN_MEASUREMENTS, record, size, stack_of
from memlint.memory.card.measurements import FILE, Measurement, load
from memlint.memory.estimate import estimate
from memlint.memory.values import Estimate
from memlint.report.units import gib
from memlint.repository.workspace import read_bytes
from memlint.run import Run

_FIELDS = {"max_allocated": "allocated_bytes", "max_reserved": "reserved_bytes", "nvidia-smi": "device_bytes"}


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(
        program,
        "Records what a run really took. With three measurements of a stack (framework, engine, GPU, PyTorch, method)\n"
        f"the card's interval for that stack narrows. They are kept in {FILE} beside the settings.",
    )
    options.add_paths(parser)
    parser.add_argument("--measured", metavar="SIZE", help="71.3GiB, 73012MiB")
    parser.add_argument("--metric", choices=METRICS, default="nvidia-smi", help="what was read (default: nvidia-smi)")
    options.add_hardware(parser)
    options.add_settings(parser)
    given = parser.parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    if len(given.paths) != 1:
        raise UsageError("calibrate wants one file")
    path = given.paths[0]
    measurements = _of_training(path) if not given.measured else (_of_command_line(path, given),)
    folder = measurements_folder(os.path.abspath(path), given.settings)
    for measurement in measurements:
        count = _kept(folder, measurement)
        to_stdout(_confirmation(measurement, os.path.join(folder, FILE), count))
    return 0


def _of_training(path: str) -> tuple[Measurement, ...]:
    """The measurements in a file that `memlint.train` wrote. Raises UsageError for any other."""
    try:
        data = read_bytes(os.path.abspath(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if not is_training_record(data):
        raise UsageError("calibrate wants --measured SIZE for a config, or a file that memlint.train wrote")
    return measurements_of(data, path)


def _of_command_line(path: str, given: options.Options) -> Measurement:
    found, known_run = _only_run(path, given)
    return _measurement(path, given, found, known_run)


def _kept(folder: str, measurement: Measurement) -> int:
    """Stores a measurement and returns how many there are for its software stack. Raises UsageError."""
    try:
        record(folder, measurement)
        return sum(one.stack == measurement.stack and one.metric == measurement.metric for one in load(folder))
    except (ValueError, NotWritten) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{os.path.join(folder, FILE)}: {error.strerror}") from None


def _only_run(path: str, given: options.Options) -> tuple[Estimate, Run]:
    """The only run in a file, with its estimate without calibration. Raises UsageError if there is not exactly one."""
    analysed = Linter(options.lint_request(given, fixes=False)).analyse(path)
    runs = [one for analysis in analysed.analyses for one in analysis.runs]
    if len(runs) != 1:
        raise UsageError(f"{path}: calibrate wants a file with one run, this one has {len(runs)}")
    return estimate(runs[0]), runs[0]


def _measurement(path: str, given: options.Options, found: Estimate, known_run: Run) -> Measurement:
    predicted = getattr(found, _FIELDS[given.metric])
    if predicted is None:
        missing = "; ".join(f"{one.field}: {one.reason}" for one in found.unknown)
        raise UsageError(f"{path}: there is no estimate to compare with ({missing})")
    try:
        measured = size(given.measured)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Measurement(stack_of(known_run), given.metric, measured, predicted, path)


def _confirmation(measurement: Measurement, file: str, count: int) -> str:
    share = 100 * (measurement.predicted / measurement.measured - 1)
    measured, predicted = gib(measurement.measured), gib(measurement.predicted)
    first = f"{measurement.metric}: measured {measured} GiB, estimated {predicted} GiB ({share:+.1f} %)\n"
    missing_count = MIN_MEASUREMENTS - count
    state = f"{missing_count} more until its interval narrows" if missing_count > 0 else "its interval rests on them"
    return first + f"kept in {os.path.relpath(file)}: {count} of {measurement.stack}; {state}\n"
