"""What the whole suite needs of its process.

Interrupts work in the tests, also where a shell started them in the background: such a shell has its processes ignore
SIGINT, and whatever they start inherits that. An interrupted memlint would go on, and the tests of interrupts fail.

PyTorch computes on one thread: each worker of pytest has a core, and threads that wait for each other on a core that
another worker holds cost three times the time of the tiny models here.

What importing and collecting made stays to the end. The garbage collector does not look at it: a full collection of
20,000 tests and their modules takes a second, and each training of the tests asks for several.
"""

import gc
import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
