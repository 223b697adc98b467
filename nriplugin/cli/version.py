"""`nriplugin version`: the version, and those of Python, protobuf and NRI.

The implementation of protobuf is part of it, because the pure-Python one, which musl
images get, is many times slower.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import google.protobuf
from google.protobuf.internal import api_implementation

from nriplugin import __version__
from nriplugin.cli.printing import add_output_argument, print_document, print_line
from nriplugin.nri.releases import NRI_VERSION

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_output_argument(parser, "how the versions are printed", alias=True)


def main(args: argparse.Namespace) -> int:
    """Print the versions."""
    facts = {
        "nriplugin": __version__,
        "nri": NRI_VERSION,
        "python": platform.python_version(),
        "protobuf": f"{google.protobuf.__version__} ({api_implementation.Type()})",
    }
    if args.output != "table":
        print_document("Version", facts, args.output)
    else:
        print_line(" ".join(f"{name} {value}" for name, value in facts.items()))
    return 0
