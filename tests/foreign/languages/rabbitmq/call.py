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


def returned(_channel, _method, _properties, _body):
    sys.exit(f"there is no queue {queue}")


# RabbitMQ passes replies straight to this channel. There is no queue to delete.
channel.basic_consume("amq.rabbitmq.reply-to", replied, auto_ack=True)
channel.add_on_return_callback(returned)
request = pika.BasicProperties(
    type="half",
    content_type="application/json",
    correlation_id=call,
    reply_to="amq.rabbitmq.reply-to",
    expiration="30000",
)
channel.basic_publish("", queue, number, request, mandatory=True)
connection.call_later(30, lambda: sys.exit("no reply"))
channel.start_consuming()
connection.close()
