"""`proton_client.py PORT IDLE_PORT PREFIX`: the client of Qpid Proton beside the node of the tests. Prints what it has seen."""

import json
import sys

from proton import Delivery, Message, Timeout
from proton.utils import BlockingConnection, LinkDetached

PORT, IDLE_PORT, PREFIX = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
# Longer than the idle timeout of the node.
IDLE = 12
LARGE = bytes(i * 31 % 251 for i in range(1 << 20))
seen = {}


def connect(port, mechanism="ANONYMOUS"):
    user = {"user": "guest", "password": "guest"} if mechanism == "PLAIN" else {}
    url = f"amqp://127.0.0.1:{port}"
    return BlockingConnection(url, timeout=20, allowed_mechs=mechanism, allow_insecure_mechs=True, **user)


def send(connection, queue, body):
    sender = connection.create_sender(f"{PREFIX}/{queue}")
    delivery = sender.send(Message(body=body))
    sender.close()
    return "accepted" if delivery.remote_state == Delivery.ACCEPTED else str(delivery.remote_state)


def settle_each_way(connection):
    # One message at a time: Proton writes the flow of a receive before the disposition that precedes it.
    seen["sent"] = [send(connection, "orders", "1")]
    receiver = connection.create_receiver(f"{PREFIX}/orders", credit=0)

    def receive():
        message = receiver.receive()
        return [message.body, message.delivery_count]

    seen["released"] = receive()
    receiver.release(delivered=False)
    seen["modified"] = receive()
    receiver.fetcher.unsettled[0].local.failed = True
    receiver.release(delivered=True)
    seen["accepted"] = receive()
    receiver.accept()
    seen["sent"].append(send(connection, "orders", "2"))
    seen["rejected"] = receive()
    receiver.reject()
    receiver.close()


def exchange_large(connection):
    send(connection, "large", LARGE)
    receiver = connection.create_receiver(f"{PREFIX}/large", credit=1)
    body = bytes(receiver.receive().body)
    receiver.accept()
    receiver.close()
    seen["large"] = len(body) if body == LARGE else "not the same"


def drain(connection):
    send(connection, "drained", "3")
    receiver = connection.create_receiver(f"{PREFIX}/drained", credit=0)
    receiver.link.drain(10)
    connection.wait(lambda: receiver.link.credit == 0 or not receiver.link.draining())
    received = 0
    while receiver.fetcher.has_message:
        receiver.fetcher.pop()
        receiver.accept()
        received += 1
    seen["drained"] = [received, receiver.link.credit]
    receiver.close()


def detach(connection):
    send(connection, "detached", "4")
    bodies = []
    for _ in range(2):
        receiver = connection.create_receiver(f"{PREFIX}/detached", credit=1)
        bodies.append(receiver.receive().body)
        if len(bodies) == 2:
            receiver.accept()
        receiver.close()
    seen["detached"] = bodies


def refusal(connection):
    conditions = []
    for attach in [connection.create_sender, connection.create_receiver]:
        try:
            attach("missing")
        except LinkDetached as error:
            conditions.append(error.condition)
    seen["refused"] = conditions


def idle():
    connection = connect(IDLE_PORT)
    try:
        connection.wait(lambda: False, timeout=IDLE)
    except Timeout:
        seen["idle"] = send(connection, "idle", "5")
    connection.close()


def open_each_way():
    seen["mechanisms"] = []
    for mechanism in ["ANONYMOUS", "PLAIN"]:
        connection = connect(PORT, mechanism)
        seen["mechanisms"].append(connection.conn.transport.sasl().mech)
        seen["container"] = connection.conn.remote_container
        connection.close()


def exchange():
    connection = connect(PORT)
    for step in [settle_each_way, exchange_large, drain, detach, refusal]:
        run(step, connection)
    connection.close()


def run(step, *arguments):
    try:
        step(*arguments)
    except Exception as error:
        sys.exit(f"Error in {step.__name__}: {error!r}")


for step in [open_each_way, exchange, idle]:
    run(step)
print(json.dumps(seen))
