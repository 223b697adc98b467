"""The configuration: strict YAML from a file or from the runtime, made ready for use.

Imported only when there is a configuration: a node without one does not pay for the
YAML reader.
"""

from __future__ import annotations

from nriplugin.config.compiled import Config, parse_config, read_config, read_text

__all__ = ["Config", "parse_config", "read_config", "read_text"]
