"""`Tree`: a node's cgroups, read and set by resource type.

It joins `Files` (the node's, or those of a VM's guest) with the `Registry` of the
node's cgroup version, so that the same call reads or sets the same thing on v1 and v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.types.registry import Registry, Support
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from nriplugin.cgroup.files import Files
    from nriplugin.cgroup.types.contents import Given
    from nriplugin.cgroup.types.registry import Resource


class Tree:
    """The cgroups of one node: its files, and the registry of its cgroup version."""

    def __init__(
        self, files: Files, version: int, registry: Registry | None = None
    ) -> None:
        self.files = files
        self.version = version
        self.registry = Registry(version) if registry is None else registry
        self._support: dict[str, Support] = {}

    def path(self, type: str, cgroup: str) -> str:
        """Return the path of a type's file, such as `/kubepods/cpu.max` on v2.

        Raises:
            ConfigError: this version has no such type.
        """
        return self.registry.get(type).path(cgroup)

    def file_path(self, cgroup: str, file: str) -> str:
        """Return the path of a cgroup's file, given by its own name.

        On v1 a file is in the hierarchy of the controller that its name begins with.
        """
        if self.version == 1:
            return f"/{file.partition('.')[0]}{cgroup}/{file}"
        return f"{cgroup}/{file}"

    def exists(self, cgroup: str) -> bool:
        """Whether there is a cgroup.

        Raises:
            CgroupError: that cannot be found out.
        """
        return self.files.exists(self._directory(cgroup))

    def supported(self, type: str, cgroup: str) -> Support:
        """Say whether this kernel has the file; the answer is remembered per type.

        A file that is missing in this cgroup only, because the cgroup is gone or its
        controller is off, says nothing about the kernel and is not remembered.
        """
        known = self._support.get(type)
        if known is None:
            resource, lasting = self.registry.get(type), True
            check = self.registry.support_check(type)
            if check is not None:
                known = check(self.files)
            else:
                known, lasting = self._look(resource, cgroup)
            if lasting:
                self._support[type] = known
        return known

    def read(self, type: str, cgroup: str) -> str:
        """Return the text of the file, unchanged.

        Raises:
            ConfigError: this version has no such type.
            CgroupError: the file cannot be read.
        """
        return self.files.read(self.registry.get(type).path(cgroup))

    def get(self, type: str, cgroup: str) -> Any:  # noqa: ANN401 # by type
        """Return the parsed value: a number (-1 is no limit), or what formats.py has.

        Raises:
            ConfigError: this version has no such type.
            CgroupError: the file cannot be read, or its text not parsed.
        """
        resource = self.registry.get(type)
        path = resource.path(cgroup)
        return resource.parse_at(path, self.files.read(path))

    def set(self, type: str, cgroup: str, value: Given) -> None:
        """Write a value; a partial type keeps the rest of its file.

        Raises:
            ConfigError: this version has no such type, or the value is not valid.
            CgroupError: the file cannot be written.
        """
        resource = self.registry.get(type)
        path = resource.path(cgroup)
        resource.validate(value)
        current = self.files.read(path) if resource.content.partial else None
        self.files.write(path, resource.format(value, current))

    def children(self, cgroup: str) -> list[str]:
        """Return the names of the cgroups directly below a cgroup, sorted."""
        return self.files.children(self._directory(cgroup))

    def _directory(self, cgroup: str) -> str:
        # On v1 every hierarchy has the kubelet's cgroups; every node has that of cpu.
        return f"/cpu{cgroup}" if self.version == 1 else cgroup

    def _look(self, resource: Resource, cgroup: str) -> tuple[Support, bool]:
        """Return the answer, and whether it holds for every cgroup of this kernel."""
        path = resource.path(cgroup)
        if self.files.exists(path):
            return Support(True, f"{path} is there"), True
        directory = path.rpartition("/")[0] or "/"
        if not self.files.exists(directory):
            return Support(False, f"{directory} is not there"), False
        if (
            self.version == 2
            and resource.controller
            and not self._enabled(resource.controller, directory)
        ):
            return Support(
                False, f"controller {resource.controller} is off in {directory}"
            ), False
        # The root cgroup has no limits, so a file that it lacks may be in all others.
        needs = f", it needs {resource.needs}" if resource.needs else ""
        return Support(False, f"{path} is not there{needs}"), cgroup != "/"

    def _enabled(self, controller: str, directory: str) -> bool:
        file = (
            "/cgroup.controllers"
            if directory == "/"
            else f"{directory}/cgroup.controllers"
        )
        try:
            return controller in self.files.read(file).split()
        except CgroupError:
            return True  # no such list here: the file itself decides
