"""Lints files: selects them, looks up their settings and rules, analyses each, applies suppressions, makes reports."""
