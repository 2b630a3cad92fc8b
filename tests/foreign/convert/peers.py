"""Producers and consumers of Python: one step of a case, by its name.

    peers.py STEP ARGUMENTS

ARGUMENTS is an object of JSON. What the step has read goes to the standard output, as JSON.
"""

import base64
import json
import sys

WAIT = 20


def as_json(value):
    """Bytes, which have no form in JSON: text if they are UTF-8."""
    if isinstance(value, (bytes, bytearray)):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return str(value)


# Amazon SQS by boto3.


def sqs(url):
    import boto3

    access = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    return boto3.client("sqs", endpoint_url=url, region_name="eu-west-1", **access)


def sqs_send(url, queue):
    attributes = {
        "Content-Type": {"DataType": "String", "StringValue": "application/json"},
        "tenant": {"DataType": "String.name", "StringValue": "acme"},
        "count": {"DataType": "Number", "StringValue": "5"},
        "price": {"DataType": "Number.float", "StringValue": "1.50"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    fifo = {"MessageGroupId": "customer-7", "MessageDeduplicationId": "order-7"} if queue.endswith(".fifo") else {}
    sent = sqs(url).send_message(QueueUrl=queue, MessageBody='{"id": 7}', MessageAttributes=attributes, **fifo)
    return sent["MessageId"]


def sqs_receive(url, queue):
    """One message, which stays in the queue."""
    answer = sqs(url).receive_message(
        QueueUrl=queue, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"], WaitTimeSeconds=WAIT
    )
    return answer["Messages"][0]


# Kafka by confluent-kafka.


def kafka_producer(servers):
    from confluent_kafka import Producer

    return Producer({"bootstrap.servers": servers})


def kafka_send(servers, topic, key, value, headers):
    """Values of headers are texts, lists of bytes, or null."""
    headers = [(name, bytes(value) if isinstance(value, list) else value) for name, value in headers]
    producer = kafka_producer(servers)
    producer.produce(topic, value=value, key=key, headers=headers, timestamp=1_700_000_000_123)
    return producer.flush(WAIT)


def kafka_receive(servers, topic):
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(WAIT)
    if message.error():
        raise RuntimeError(message.error())
    read = {"key": message.key(), "value": message.value(), "headers": message.headers(), "time": message.timestamp()[1]}
    consumer.close()
    return read


# CloudEvents, by the Kafka binding of their SDK.


def event_send(servers, topic):
    from cloudevents.core.bindings import kafka
    from cloudevents.core.formats.json import JSONFormat
    from cloudevents.core.v1.event import CloudEvent

    attributes = {"type": "order.placed", "source": "/shop", "id": "A-1", "datacontenttype": "application/json"}
    message = kafka.to_binary(CloudEvent(attributes, {"id": 7}), JSONFormat())
    producer = kafka_producer(servers)
    producer.produce(topic, value=message.value, key=message.key, headers=list(message.headers.items()))
    return producer.flush(WAIT)


def event_receive(servers, topic):
    from cloudevents.core.bindings import kafka
    from cloudevents.core.formats.json import JSONFormat

    read = kafka_receive(servers, topic)
    message = kafka.KafkaMessage(headers=dict(read["headers"]), key=read["key"], value=read["value"])
    event = kafka.from_kafka(message, JSONFormat())
    return {"attributes": event.get_attributes(), "data": event.get_data()}


STEPS = [sqs_send, sqs_receive, kafka_send, kafka_receive, event_send, event_receive]

if __name__ == "__main__":
    step = {step.__name__: step for step in STEPS}[sys.argv[1]]
    print(json.dumps(step(**json.loads(sys.argv[2])), default=as_json))
