"""memlint's own settings: found upward from each file, checked by schema, every value with its origin."""

from __future__ import annotations

from memlint.settings.effective import SettingRow, changed_by, effective, is_in_force, severity_of, show, with_profile
from memlint.settings.files import forget, forget_changed, load_settings, named_plugins
from memlint.settings.model import FileSettings, Mistake, Settings, SettingsError, SettingsFile
from memlint.settings.user import user_plugins

__all__ = [
    "FileSettings",
    "Mistake",
    "SettingRow",
    "Settings",
    "SettingsError",
    "SettingsFile",
    "changed_by",
    "effective",
    "forget",
    "forget_changed",
    "is_in_force",
    "load_settings",
    "named_plugins",
    "severity_of",
    "show",
    "user_plugins",
    "with_profile",
]
