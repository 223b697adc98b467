"""Runs the benches and writes docs/benchmarks.md, for `hack/bench all`."""
