import sys
import uuid

from proton import Delivery, Message
from proton.utils import BlockingConnection

url, address, order = sys.argv[1:]
# By default the client sends no password to a broker that permits ANONYMOUS.
mechanism = "PLAIN" if "@" in url else "ANONYMOUS"
connection = BlockingConnection(url, timeout=30, allowed_mechs=mechanism, allow_insecure_mechs=True)
message = Message(
    order.encode(),
    inferred=True,
    durable=True,
    subject="order",
    content_type="application/json",
    id=str(uuid.uuid4()),
    properties={"tenant": "north"},
)
# `send` waits for the outcome. It raises for `rejected` and `released`, and not for `modified`.
if connection.create_sender(address).send(message).remote_state != Delivery.ACCEPTED:
    sys.exit("the message is not accepted")
connection.close()
