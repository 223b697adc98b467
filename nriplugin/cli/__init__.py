"""The command line: argument parsing and printing, one module per command."""

from __future__ import annotations
