"""The table of CRI's messages that the tests on nodes are made with."""

from __future__ import annotations

import pytest
from support import cri_messages

from nriplugin.api import cri_pb2

# Messages that nriplugin's own text has under another name.
OTHER_NAMES = {
    "Metadata": "PodSandboxMetadata",
    "StopPodSandboxRequest": "PodSandboxRequest",
    "RemovePodSandboxRequest": "PodSandboxRequest",
    "StartContainerRequest": "ContainerRequest",
    "StopContainerRequest": "ContainerRequest",
    "RemoveContainerRequest": "ContainerRequest",
}


def test_a_message_is_what_the_runtime_reads() -> None:
    """Bytes that were worked out by hand: numbers, texts, a map, a message in one."""
    content = {
        "container_id": "ab",
        "linux": {"cpu_shares": 300, "unified": {"pids.max": "9"}},
    }
    assert cri_messages.encode("UpdateContainerResourcesRequest", content) == (
        b"\x0a\x02ab\x12\x12\x18\xac\x02\x4a\x0d\x0a\x08pids.max\x12\x019"
    )


def test_an_answer_is_read() -> None:
    """Fields that the table does not have are passed over."""
    data = b"\x0a\x03new\x12\x0a\x0a\x04info\x12\x02{}"
    status = cri_messages.decode("ContainerStatusResponse", data)
    assert dict(status.info) == {"info": "{}"}


@pytest.mark.parametrize("name", cri_messages.MESSAGES)
def test_the_table_agrees_with_nriplugins_own_text(name: str) -> None:
    """Two texts that were written by hand: a field of both has one number."""
    ours = cri_pb2.DESCRIPTOR.message_types_by_name.get(OTHER_NAMES.get(name, name))
    theirs = cri_messages.decode(name, b"").DESCRIPTOR
    if ours is None:
        return
    for field in theirs.fields:
        if field.name in ours.fields_by_name:
            assert field.number == ours.fields_by_name[field.name].number, field.name
