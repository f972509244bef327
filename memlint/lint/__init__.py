"""From files to reports: which files, their settings and rules, the analysis of each, suppressions, the summary."""
