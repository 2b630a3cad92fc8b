import sys
import uuid

import pika

url, queue, order = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
# From here on a publish waits until RabbitMQ has stored the message.
channel.confirm_delivery()
properties = pika.BasicProperties(
    type="order",
    content_type="application/json",
    message_id=str(uuid.uuid4()),
    delivery_mode=pika.DeliveryMode.Persistent,
    headers={"tenant": "north"},
)
channel.basic_publish("", queue, order, properties, mandatory=True)
connection.close()
