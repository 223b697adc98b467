"""The configuration: strict YAML from a file or from the runtime, made into settings.

Import this package only when there is a configuration. It needs PyYAML and msgspec, and
a node without a configuration must not spend time and memory on them.
"""

from __future__ import annotations

from nriplugin.config.compiled import Config, parse_config, read_config, read_text

__all__ = ["Config", "parse_config", "read_config", "read_text"]
