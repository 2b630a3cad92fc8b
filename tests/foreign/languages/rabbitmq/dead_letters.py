import sys

import pika

url, queue, count = sys.argv[1:]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
letters = channel.consume(f"{queue}/$deadletterqueue")
for _, (method, properties, body) in zip(range(int(count)), letters):
    print(properties.headers.get("DeadLetterReason"), properties.type, body.decode())
    print(properties.headers.get("DeadLetterErrorDescription"), file=sys.stderr)
    channel.basic_ack(method.delivery_tag)
channel.cancel()
connection.close()
