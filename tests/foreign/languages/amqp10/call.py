import json
import sys
import uuid

from proton import Delivery, Message
from proton.utils import BlockingConnection

url, address, number, *replies = sys.argv[1:]
# By default the client sends no password to a broker that permits ANONYMOUS.
mechanism = "PLAIN" if "@" in url else "ANONYMOUS"
connection = BlockingConnection(url, timeout=30, allowed_mechs=mechanism, allow_insecure_mechs=True)
# A queue of this caller, or else an address of the broker that ends with the connection.
receiver = connection.create_receiver(replies[0] if replies else None, dynamic=not replies)
call = str(uuid.uuid4())
request = Message(
    number.encode(),
    # One data section. By default the body is a value.
    inferred=True,
    subject="half",
    content_type="application/json",
    id=call,
    correlation_id=call,
    # The path of the queue: its address without the prefix of RabbitMQ 3.
    reply_to=receiver.remote_source.address.removeprefix("/amq/queue/"),
    properties={"x-timeout-ms": 30_000},
)
if connection.create_sender(address).send(request).remote_state != Delivery.ACCEPTED:
    sys.exit("the request is not accepted")
while True:
    reply = receiver.receive()
    receiver.accept()
    # A queue may have the reply of a call that has ended.
    if reply.correlation_id == call:
        break
fault = (reply.properties or {}).get("x-fault")
print(f"fault {fault}" if fault else f"reply {json.loads(bytes(reply.body))}")
connection.close()
