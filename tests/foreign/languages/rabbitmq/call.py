import json
import sys
import uuid

import pika

url, queue, number = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
call = str(uuid.uuid4())


def replied(_channel, _method, properties, body):
    if properties.correlation_id != call:
        return
    fault = (properties.headers or {}).get("x-fault")
    print(f"fault {fault}" if fault else f"reply {json.loads(body)}")
    channel.stop_consuming()


# RabbitMQ passes replies straight to this channel. There is no queue to delete.
channel.basic_consume("amq.rabbitmq.reply-to", replied, auto_ack=True)
request = pika.BasicProperties(
    type="half",
    content_type="application/json",
    correlation_id=call,
    reply_to="amq.rabbitmq.reply-to",
    expiration="5000",
)
channel.basic_publish("", queue, number, request)
connection.call_later(5, channel.stop_consuming)
channel.start_consuming()
connection.close()
