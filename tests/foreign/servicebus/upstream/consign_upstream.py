"""A plugin of pytest for the tests: where the server is, what they import without a use, and the part that one process runs."""

import fnmatch
import os
import pathlib
import socket
import sys
import types

import certifi
import pytest

from devtools_testutils.resources import HOST

PORTS = {5671: int(os.environ["CONSIGN_AMQPS_PORT"]), 443: int(os.environ["CONSIGN_HTTPS_PORT"])}
certifi.where = lambda: os.environ["SSL_CERT_FILE"]
resolve = socket.getaddrinfo


def getaddrinfo(host, port, *args, **kwargs):
    name = host.decode() if isinstance(host, bytes) else host
    if name not in (HOST, "127.0.0.1"):
        raise socket.gaierror(socket.EAI_NONAME, f"no host but the server is reached: {name}")
    return resolve("127.0.0.1", PORTS.get(int(port), port), *args, **kwargs)


class Socket(socket.socket):
    def setsockopt(self, level, option, *value):
        # The asynchronous client of 7.14.3 sets the largest segment of TCP, which a connection on loopback refuses.
        if (level, option) != (socket.IPPROTO_TCP, socket.TCP_MAXSEG):
            super().setsockopt(level, option, *value)


socket.getaddrinfo = getaddrinfo
socket.socket = Socket


def module(name, **contents):
    found = sys.modules[name] = types.ModuleType(name)
    vars(found).update(contents)


module("azure.common", AzureHttpError=Exception, AzureConflictHttpError=Exception)
module("azure.mgmt")
module("azure.mgmt.servicebus")
rights = types.SimpleNamespace(manage="manage", send="send", listen="listen")
module("azure.mgmt.servicebus.models", AccessRights=rights)


@pytest.fixture(scope="session")
def test_proxy():
    yield


def pytest_collection_modifyitems(config, items):
    part, parts = (int(number) for number in os.environ["CONSIGN_PART"].split("/"))
    items[:] = items[part::parts]
    lines = pathlib.Path(__file__).with_name("left-out.txt").read_text().splitlines()
    reasons = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    for item in items:
        # run.py takes no other test that is skipped.
        if item.get_closest_marker("skip") or item.get_closest_marker("skipif"):
            item.user_properties.append(("left out", "by its authors"))
        for pattern, reason in reasons:
            if fnmatch.fnmatch(item.name.split("[")[0], pattern):
                item.user_properties.append(("left out", pattern))
                item.add_marker(pytest.mark.skip(reason=f"left out: {reason}"))
