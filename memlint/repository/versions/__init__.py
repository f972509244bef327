"""The framework versions that a repository pins or installs."""
