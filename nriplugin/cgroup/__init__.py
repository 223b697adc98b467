"""The node's cgroups: where they are, what they hold, and how they are changed.

This is the only package that touches the kernel's cgroup files. It takes no decisions.
Each sub-package imports only those below it, and `hack/check` enforces that:

* `locate`: the cgroup version, the driver, and which path is which pod or container.
* `journal`: the database of original values, and putting them back; `systemd`: values
  that are set as unit properties over D-Bus. `writing` is handed both as objects and
  knows only their interfaces.
* `writing`: from updates to writes, in an order that the kernel takes.
* `types`: resource types and their files on both cgroup versions; `tasks`: how many
  tasks run, sleep or wait.
* `files`: this machine's files below one root; `guest`: those of a VM's guest.
* `syscalls`: openat2 and statfs.
"""

from __future__ import annotations
