"""`azure_client.py PORT IDLE_PORT PREFIX`: the AMQP client inside of the Azure SDK beside the node of the tests.

It is the package `_pyamqp` of azure-servicebus. Prints what it has seen.
"""

import json
import signal
import sys
import time

from azure.servicebus._pyamqp import ReceiveClient, SendClient
from azure.servicebus._pyamqp._connection import Connection
from azure.servicebus._pyamqp.error import AMQPException, RetryPolicy
from azure.servicebus._pyamqp.link import LinkState
from azure.servicebus._pyamqp.message import Message
from azure.servicebus._pyamqp.sasl import SASLAnonymousCredential, SASLPlainCredential

PORT, IDLE_PORT, PREFIX = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
# Longer than the idle timeout of the node.
IDLE = 12
LARGE = bytes(i * 31 % 251 for i in range(1 << 20))
CREDENTIALS = {"ANONYMOUS": SASLAnonymousCredential(), "PLAIN": SASLPlainCredential("guest", "guest")}
seen = {}


class Auth:
    """What a client authenticates with."""

    auth_type = "SASL"

    def __init__(self, mechanism):
        self.sasl = CREDENTIALS[mechanism]


def open_client(kind, queue, port=PORT, mechanism="ANONYMOUS", **options):
    """A client whose link is attached. A refusal raises the error of the node."""
    address = queue if queue == "missing" else f"{PREFIX}/{queue}"
    options |= {"use_tls": False, "retry_policy": RetryPolicy(retry_total=0), "max_message_size": 2 << 20}
    client = kind(f"127.0.0.1:{port}", address, auth=Auth(mechanism), **options)
    client.open()
    client.client_ready()
    while client._link.state != LinkState.ATTACHED:
        if client._link._error:
            raise client._link._error
        try:
            client._connection.listen(wait=0.1)
        except ValueError:
            # The attach of a refusal has no terminus. The detach follows.
            pass
    return client


def send(queue, body, **options):
    with open_client(SendClient, queue, **options) as client:
        # It raises an error for any other outcome.
        client.send_message(Message(data=[body]), timeout=20)
    return "accepted"


def receive(client):
    """The next delivery: its transfer and its message."""
    client._link.flow(link_credit=1)
    while client._received_messages.empty():
        client.do_work()
    return client._received_messages.get()


def settle(client, transfer, outcome, **fields):
    """Settles a delivery, and waits until the node has settled it."""
    client.settle_messages(transfer[1], transfer[2], outcome, await_outcome=True, outcome_timeout=20, **fields)


def body(message):
    return b"".join(message.data).decode()


def settle_each_way():
    seen["sent"] = [send("orders", b"1"), send("orders", b"2")]
    client = open_client(ReceiveClient, "orders", link_credit=1)
    steps = {
        "released": {},
        "modified": {"delivery_failed": True},
        "accepted": {},
        "rejected": {},
    }
    for step, fields in steps.items():
        transfer, message = receive(client)
        seen[step] = [body(message), message.header.delivery_count if message.header else 0]
        settle(client, transfer, step, **fields)
    client.close()


def exchange_large():
    send("large", LARGE)
    client = open_client(ReceiveClient, "large")
    transfer, message = receive(client)
    settle(client, transfer, "accepted")
    received = b"".join(message.data)
    seen["large"] = len(received) if received == LARGE else "not the same"
    client.close()


def drain():
    send("drained", b"3")
    client = open_client(ReceiveClient, "drained")
    flows = []
    # The client ignores the flow that ends a drain.
    client._link._incoming_flow = flows.append
    client._link.flow(link_credit=10, drain=True)
    while not any(flow[8] for flow in flows):
        client._connection.listen(wait=0.1)
    received = client._received_messages.qsize()
    settle(client, client._received_messages.get()[0], "accepted")
    seen["drained"] = [received, flows[-1][6]]
    client.close()


def detach():
    send("detached", b"4")
    seen["detached"] = []
    for last in [False, True]:
        client = open_client(ReceiveClient, "detached")
        transfer, message = receive(client)
        seen["detached"].append(body(message))
        if last:
            settle(client, transfer, "accepted")
        client.close()


def refusal():
    seen["refused"] = []
    for kind in [SendClient, ReceiveClient]:
        try:
            open_client(kind, "missing")
        except AMQPException as error:
            seen["refused"].append(text(error.condition))


def idle():
    client = open_client(SendClient, "idle", port=IDLE_PORT)
    until = time.monotonic() + IDLE
    while time.monotonic() < until:
        client._connection.listen(wait=0.1)
    client.send_message(Message(data=[b"5"]), timeout=20)
    seen["idle"] = "accepted"
    client.close()


def text(value):
    """Texts of a peer are bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def open_each_way():
    """Authenticates by each mechanism."""
    opens = []
    incoming_open = Connection._incoming_open

    def record(connection, channel, frame):
        opens.append(text(frame[0]))
        return incoming_open(connection, channel, frame)

    Connection._incoming_open = record
    seen["mechanisms"] = []
    for mechanism in CREDENTIALS:
        with open_client(SendClient, "orders", mechanism=mechanism) as client:
            seen["mechanisms"].append(text(client._auth.sasl.mechanism))
    seen["container"] = opens[0]
    Connection._incoming_open = incoming_open


def stop(*_):
    # The client catches other exceptions.
    sys.exit(f"Error in {step.__name__}: no answer in time")


signal.signal(signal.SIGALRM, stop)
for step in [open_each_way, settle_each_way, exchange_large, drain, detach, refusal, idle]:
    signal.alarm(20)
    try:
        step()
    except Exception as error:
        sys.exit(f"Error in {step.__name__}: {error!r}")
signal.alarm(0)
print(json.dumps(seen))
