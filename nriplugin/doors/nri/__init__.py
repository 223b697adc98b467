"""The NRI door: the plugin of nriplugin, on the SDK in `nriplugin.nri`."""

from __future__ import annotations
