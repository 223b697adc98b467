"""Suites of other projects, run with nriplugin and without it, and compared."""
