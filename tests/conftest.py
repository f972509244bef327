"""Interrupts work in the tests, also where a shell started them in the background.

Such a shell has its processes ignore SIGINT, and whatever they start inherits that: an interrupted memlint would
go on, and the tests of interrupts would fail.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
