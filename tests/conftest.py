"""What the whole suite needs of its process.

Interrupts work in the tests, also where a shell started them in the background: such a shell has its processes ignore
SIGINT, and whatever they start inherits that. An interrupted memlint would go on, and the tests of interrupts fail.

PyTorch computes on one thread: each worker of pytest has a core, and threads that wait for each other on a core that
another worker holds cost three times the time of the tiny models here.
"""

import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
