"""Faults of the plugin, the runtime and the disk, under a stream of containers."""
