"""Task states of a cgroup v1 directory, counted by the kernel.

The request goes over generic netlink: CGROUPSTATS_CMD_GET in the family TASKSTATS, with
an open directory of a v1 hierarchy. pyroute2 knows that family but not these two
messages, so they are declared here (linux/cgroupstats.h). The kernel refuses a
directory of cgroup v2; states.py walks the threads there.

Import this module late: pyroute2 costs a fifth of a second and 20 MB, which only
`nriplugin load` on a v1 node needs.
"""

from __future__ import annotations

import os
from errno import EINVAL, EIO, ENOENT, EXDEV
from typing import TYPE_CHECKING

from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST, genlmsg, nla_struct
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from nriplugin.cgroup.syscalls import best_opener
from nriplugin.cgroup.tasks.states import TaskStates
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from typing import Self

FAMILY = "TASKSTATS"
CGROUPSTATS_CMD_GET = 4


class _Request(genlmsg):
    nla_map = (
        ("CGROUPSTATS_CMD_ATTR_UNSPEC", "none"),
        ("CGROUPSTATS_CMD_ATTR_FD", "uint32"),
    )


class _Reply(genlmsg):
    nla_map = (
        ("CGROUPSTATS_TYPE_UNSPEC", "none"),
        ("CGROUPSTATS_TYPE_CGROUP_STATS", "cgroupstats"),
    )

    class cgroupstats(nla_struct):  # noqa: N801 (the map above names it)
        fields = (
            ("sleeping", "Q"),
            ("running", "Q"),
            ("stopped", "Q"),
            ("uninterruptible", "Q"),
            ("io_wait", "Q"),
        )


class CgroupStats:
    """Counts below the mount point of one v1 hierarchy, such as /sys/fs/cgroup/cpu.

    A container is in the same place of every hierarchy, so one is enough.
    """

    def __init__(self, hierarchy: str) -> None:
        self._root = -1
        self._opener = best_opener()(os.O_RDONLY | os.O_DIRECTORY)
        self._socket = GenericNetlinkSocket()
        try:
            self._socket.bind(FAMILY, _Reply)
            self._root = os.open(hierarchy, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except NetlinkError as exc:
            self.close()
            reason = "the kernel does not offer it (CONFIG_TASKSTATS)"
            raise CgroupError("open", FAMILY, None, exc.code or EIO, reason) from exc
        except OSError as exc:
            self.close()
            raise CgroupError("open", hierarchy, None, exc.errno or EIO) from exc

    def close(self) -> None:
        """Close the socket and the hierarchy's directory."""
        self._socket.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def states(self, cgroup: str) -> TaskStates:
        """Count the tasks of a cgroup, without those of the cgroups below.

        Raises:
            CgroupError: there is no such cgroup, or it is not one of v1.
        """
        try:
            directory = self._open(cgroup)
        except OSError as exc:
            raise CgroupError("open", cgroup, None, exc.errno or EIO) from exc
        try:
            return self._ask(cgroup, directory)
        except NetlinkError as exc:
            raise CgroupError("read", cgroup, None, exc.code or EIO) from exc
        finally:
            os.close(directory)

    def _open(self, cgroup: str) -> int:
        if cgroup[:1] != "/" or "\0" in cgroup:
            raise OSError(EINVAL, "not an absolute path below the hierarchy")
        if ".." in cgroup.split("/"):
            raise OSError(EXDEV, "leads out of its directory")
        name = cgroup.strip("/").encode("utf-8", "surrogateescape")
        return self._opener(name or b".", self._root)

    def _ask(self, cgroup: str, directory: int) -> TaskStates:
        request = _Request()
        request["cmd"] = CGROUPSTATS_CMD_GET
        request["version"] = 1
        request["attrs"].append(["CGROUPSTATS_CMD_ATTR_FD", directory])
        # Without NLM_F_ACK, a request that has no reply would block for ever.
        flags = NLM_F_REQUEST | NLM_F_ACK
        replies = self._socket.nlm_request(
            request, msg_type=self._socket.prid, msg_flags=flags
        )
        for reply in replies:
            counts = reply.get_attr("CGROUPSTATS_TYPE_CGROUP_STATS")
            if counts is not None:
                fields = [name for name, _ in _Reply.cgroupstats.fields]
                return TaskStates(**{name: counts[name] for name in fields})
        raise CgroupError("read", cgroup, None, ENOENT, "the kernel counted nothing")
