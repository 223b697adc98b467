"""Builds nriplugin's container image as an OCI archive, without a registry."""
