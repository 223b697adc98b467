"""The handlers: each module has a handler's settings, annotations and rule."""

from __future__ import annotations
