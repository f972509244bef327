"""What hides a finding: comments in the file, settings, and a baseline of accepted findings."""
