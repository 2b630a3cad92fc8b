import sys
import uuid

import psycopg
from proton import Message

url, queue, order = sys.argv[1:]
message = Message(
    id=uuid.uuid4().hex,
    subject="order",
    content_type="application/json",
    properties={"tenant": "north"},
    body=order.encode(),
    # The body is binary data. Otherwise it is a value of AMQP 1.0.
    inferred=True,
)
row = [queue, message.id, message.encode()]
# The relay sends the message when the transaction commits, together with your own rows.
with psycopg.connect(url) as database:
    database.execute("INSERT INTO consign_outbox (destination, message_id, message) VALUES (%s, %s, %s)", row)
    database.execute("NOTIFY consign_outbox")
