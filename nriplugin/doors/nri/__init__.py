"""The NRI door: our plugin on the SDK in `nriplugin.nri`."""

from __future__ import annotations
