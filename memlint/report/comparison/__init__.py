"""Reports of `memlint diff`: what two commits change in findings and in memory."""
