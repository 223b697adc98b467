"""How this machine's apt reaches its mirror, for an apt of another suite.

The mirror's address is read from this machine's apt settings at run time and is written
to no file of the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from nodes.shell import NodeError, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def mirror(archive: str = "debian", sources: Path = Path("/etc/apt")) -> str:
    """Return the address of the mirror of an archive that this machine has."""
    files = [
        *sources.glob("sources.list.d/*.sources"),
        *sources.glob("sources.list.d/*.list"),
    ]
    files.append(sources / "sources.list")
    for file in files:
        text = file.read_text() if file.is_file() else ""
        for address in re.findall(r"^(?:URIs:|deb(?:\s+\[.*\])?)\s+(\S+)", text, re.M):
            if re.search(rf"/{archive}/?$", address):
                return str(address)
    raise NodeError(f"{sources}: no Debian mirror in the apt sources of this machine")


def settings() -> str:
    """Return the lines of apt.conf about reaching the mirror, such as proxies."""
    wanted = re.compile(r"Acquire::(https?::|Check-Valid-Until |Retries |ForceIPv4 )")
    lines = run("apt-config", "dump").splitlines()
    return "".join(f"{line}\n" for line in lines if wanted.match(line))
