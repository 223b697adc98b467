"""The floor: a plugin that parses nothing and answers a constant.

What is left of a request's time is the runtime, the kernel, and waking up a Python
process. Registers, configures and synchronizes properly, then answers every request
with the same adjustment, taking only the stream id from the bytes.

usage: floor.py SOCKET
"""

from __future__ import annotations

import socket
import sys
from collections import deque
from typing import Any

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.connection import Connection
from nriplugin.nri.methods import BY_RPC, RUNTIME_SERVICE
from nriplugin.wire.ttrpc import Call

sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
sock.connect(sys.argv[1])
connection = Connection(sock, serves=1, calls=2)
register = nri.RegisterPluginRequest(plugin_name="floor", plugin_idx="99")
_, head, body = connection.client.call(
    RUNTIME_SERVICE, "RegisterPlugin", register.SerializeToString()
)
connection.send_call(head, body)

events = nri.ConfigureResponse(events=BY_RPC["CreateContainer"].mask)
synchronized = False
inbox: deque[Any] = deque()
while not synchronized:
    call = inbox.popleft() if inbox else connection.receive(inbox)
    if isinstance(call, Call):
        payload = b""
        if call.method == "Configure":
            payload = events.SerializeToString()
        elif nri.SynchronizeRequest.FromString(call.payload).more:
            payload = nri.SynchronizeResponse(more=True).SerializeToString()
        else:
            synchronized = True
        connection.send(connection.reply(call.stream_id, payload))

response = nri.CreateContainerResponse()
response.adjust.linux.resources.unified.update(
    {"cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": "268435456"}
)
answer = bytearray(connection.reply(1, response.SerializeToString()))
buffer = bytearray(64 << 10)
view = memoryview(buffer)
while size := sock.recv_into(buffer):
    # Go writes header and payload apart, so a request may come in two pieces.
    while size < 18 or size < 8 + int.from_bytes(buffer[4:8], "big"):
        size += sock.recv_into(view[size:])
    answer[12:16] = buffer[12:16]
    sock.sendall(answer)
