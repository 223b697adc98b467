"""The controllers with one file or few: pids, hugetlb and rdma. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.result import Rule
from nriplugin.convert.validate import MAX_NUMBER, MAX_PIDS
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.convert.model import Resources
    from nriplugin.convert.result import Conversion

PIDS_RULE = Rule(("pids.limit",), "as given; no limit is max")
PIDS_ZERO_RULE = Rule(
    ("pids.limit",), "0 becomes 1: systemd refuses 0, and there is a process"
)
HUGETLB_RULE = Rule(("hugepageLimits",), "bytes, for use and for reservations")
RDMA_RULE = Rule(("rdma",), "one line per device")

# The kernel's names of page sizes; a size that is spelt in another way has no file.
_PAGE_SIZE = r"[1-9][0-9]*(KB|MB|GB)"
_DEVICE = r"[^\s/]+"


def convert_pids(given: Resources, out: Conversion) -> None:
    """Add pids.max."""
    limit = given.pids_limit
    if limit is None:
        return
    if limit is UNLIMITED:
        out.write("pids.max", "max", PIDS_RULE)
    elif limit == 0:
        out.write("pids.max", "1", PIDS_ZERO_RULE)
    elif 0 < limit <= MAX_PIDS:
        out.write("pids.max", str(limit), PIDS_RULE)
    else:
        raise ConversionError("pids.limit", limit, f"0 to {MAX_PIDS}, or no limit")


def convert_hugetlb(given: Resources, out: Conversion) -> None:
    """Add hugetlb.SIZE.max and hugetlb.SIZE.rsvd.max."""
    # Runtimes append to the list at each update, so the last entry of a size counts.
    for size, limit in sorted(dict(given.hugepage_limits).items()):
        if not re.fullmatch(_PAGE_SIZE, size):
            raise ConversionError("hugepageLimits", size, "a size such as 2MB or 1GB")
        if not 0 <= limit <= MAX_NUMBER:
            expected = f"0 to {MAX_NUMBER} bytes"
            raise ConversionError(f"hugepageLimits {size}", limit, expected)
        out.write(f"hugetlb.{size}.max", str(limit), HUGETLB_RULE)
        out.write(f"hugetlb.{size}.rsvd.max", str(limit), HUGETLB_RULE)


def convert_rdma(given: Resources, out: Conversion) -> None:
    """Add rdma.max."""
    lines = []
    for device, handles, objects in given.rdma:
        if not re.fullmatch(_DEVICE, device):
            raise ConversionError("rdma", device, "the name of a device")
        parts = [device]
        for key, number in (("hca_handle", handles), ("hca_object", objects)):
            if number is not None:
                if number < 0:
                    raise ConversionError(f"rdma {device} {key}", number, "0 or more")
                parts.append(f"{key}={number}")
        if len(parts) > 1:
            lines.append(" ".join(parts))
    if lines:
        out.write("rdma.max", "\n".join(lines), RDMA_RULE)
