"""Commands that a Python program starts, as scripts of a shell: its subprocesses, jobs and training on SageMaker."""
