"""Producers and consumers of Python: one step of a case, by its name.

    peers.py STEP ARGUMENTS

ARGUMENTS is an object of JSON. What the step has read goes to the standard output, as JSON.
"""

import asyncio
import base64
import datetime
import gzip
import json
import sys
import time
import zlib

WAIT = 15
TIME = datetime.datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=datetime.timezone.utc)
ORDER = {"id": 7, "customer": "Müller & Söhne", "total": 434.59000000000003}


def as_json(value):
    """What has no form in JSON, as one that says what it is."""
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return {"time": value.isoformat()}
    return str(value)


# RabbitMQ by kombu.


def kombu_send(url, queue, serializer):
    import kombu

    with kombu.Connection(url) as connection:
        connection.Producer().publish(ORDER, routing_key=queue, serializer=serializer, headers={"origin": "kombu"})


def kombu_receive(url, queue):
    import kombu

    with kombu.Connection(url) as connection:
        simple = connection.SimpleQueue(kombu.Queue(queue, no_declare=True))
        message = simple.get(timeout=WAIT)
        message.ack()
        return {"payload": message.payload, "content_type": message.content_type, "headers": message.headers}


# RabbitMQ by pika.


class Pika:
    """A channel."""

    def __init__(self, url):
        import pika

        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, queue, body, **properties):
        import pika

        self.channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, **properties)
        self.channel.basic_publish("", queue, body, properties, mandatory=True)

    def receive(self, queue):
        """The properties and the body of one message."""
        until = time.monotonic() + WAIT
        while time.monotonic() < until:
            method, properties, body = self.channel.basic_get(queue)
            if method:
                self.channel.basic_ack(method.delivery_tag)
                return properties, body
            time.sleep(0.02)
        raise TimeoutError(f"no message in {queue}")


def pika_send(url, queue):
    headers = {
        "text": "value",
        "number": 5,
        "large": 5_000_000_000,
        "negative": -5,
        "truth": True,
        "bytes": b"\x00\xff",
        "instant": TIME,
        "nothing": None,
        "list": ["a", 1],
        "table": {"a": 1},
    }
    with Pika(url) as pika:
        pika.send(
            queue,
            json.dumps(ORDER).encode(),
            content_type="application/json; charset=utf-8",
            content_encoding="utf-8",
            headers=headers,
            message_id="order-7",
            correlation_id="trace-7",
            reply_to="replies",
            type="order.placed",
            expiration="60000",
            timestamp=1770091506,
            priority=3,
            app_id="shop",
        )


def pika_receive(url, queue):
    with Pika(url) as pika:
        properties, body = pika.receive(queue)
    shown = {name: value for name, value in vars(properties).items() if value is not None}
    return {"properties": shown, "body": body.decode()}


def pika_call(url, queue, replies):
    import pika

    direct = "amq.rabbitmq.reply-to"
    with Pika(url) as client:
        channel = client.channel
        reply_to = direct if replies == "direct" else channel.queue_declare("", exclusive=True).method.queue
        answers = []
        # Before the call, as direct replies need it.
        channel.basic_consume(reply_to, lambda *answer: answers.append(answer), auto_ack=True)
        properties = pika.BasicProperties(
            reply_to=reply_to, correlation_id="call-7", content_type="application/json", type="double"
        )
        channel.basic_publish("", queue, json.dumps(ORDER).encode(), properties)
        until = time.monotonic() + WAIT
        while not answers and time.monotonic() < until:
            client.connection.process_data_events(time_limit=0.1)
    if not answers:
        raise TimeoutError("no reply")
    _, _, properties, body = answers[0]
    return {
        "correlation_id": properties.correlation_id,
        "content_type": properties.content_type,
        "body": json.loads(body),
        "headers": properties.headers,
    }


# CloudEvents over RabbitMQ.


def event(data):
    from cloudevents.core.v1.event import CloudEvent

    attributes = {
        "specversion": "1.0",
        "id": "A-1",
        "source": "/my%20shop",
        "type": "com.example.order.placed",
        "time": TIME,
        "subject": "order 7",
        "datacontenttype": "application/json",
        "dataschema": "https://shop.example/order",
        "comexampletext": "value",
        "comexamplenumber": 5,
        "comexampletruth": True,
    }
    return CloudEvent(attributes, data)


def cloud_event_send(url, queue, binding, mode):
    import importlib

    module = importlib.import_module(f"cloudevents.core.bindings.{binding}")
    message = getattr(module, f"to_{mode}_event")(event(ORDER))
    if binding == "amqp":
        headers, content_type = message.application_properties, message.properties.get("content-type")
        body = message.application_data
    else:
        headers, content_type, body = message.headers, message.content_type, message.body
    with Pika(url) as pika:
        pika.send(queue, body, headers=dict(headers), content_type=content_type)


def cloud_event_batch_send(url, queue):
    from cloudevents.core.formats.json import JSONFormat

    body = b"[" + b",".join(JSONFormat().write(event(ORDER)) for _ in range(3)) + b"]"
    with Pika(url) as pika:
        pika.send(queue, body, content_type="application/cloudevents-batch+json; charset=utf-8")


def shown(read):
    attributes = {
        name: value.isoformat() if isinstance(value, datetime.datetime) else value
        for name, value in read.get_attributes().items()
    }
    return {"attributes": attributes, "data": read.get_data()}


def cloud_event_receive(url, queue, binding):
    import importlib

    module = importlib.import_module(f"cloudevents.core.bindings.{binding}")
    with Pika(url) as pika:
        properties, body = pika.receive(queue)
    headers = properties.headers or {}
    if binding == "amqp":
        message = module.AMQPMessage({"content-type": properties.content_type}, headers, body)
    else:
        message = module.RabbitMQMessage(headers, properties.content_type, body)
    read = {"amqp": "from_amqp_event", "rabbitmq": "from_rabbitmq_event"}[binding]
    return shown(getattr(module, read)(message))


def cloud_event_batch_receive(url, queue):
    from cloudevents.core.formats.json import JSONFormat

    with Pika(url) as pika:
        properties, body = pika.receive(queue)
    events = [JSONFormat().read(None, json.dumps(each).encode()) for each in json.loads(body)]
    return {"content_type": properties.content_type, "events": [shown(each) for each in events]}


# OpenTelemetry over RabbitMQ and NATS.


def produced(send):
    """Sends with the context of a span, and returns the span's ids."""
    from opentelemetry.propagate import inject
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("shop").start_as_current_span("publish") as span:
        headers = {}
        inject(headers)
        send(headers)
        context = span.get_span_context()
        return {"trace": format(context.trace_id, "032x"), "span": format(context.span_id, "016x")}


def consumed(headers):
    """The ids of the span that a consumer of Python would continue."""
    from opentelemetry import trace
    from opentelemetry.propagate import extract

    context = trace.get_current_span(extract(headers)).get_span_context()
    return {"trace": format(context.trace_id, "032x"), "span": format(context.span_id, "016x")}


def trace_rabbitmq_send(url, queue):
    with Pika(url) as pika:
        return produced(lambda headers: pika.send(queue, b"{}", headers=headers, content_type="application/json"))


def trace_rabbitmq_receive(url, queue):
    with Pika(url) as pika:
        return consumed(pika.receive(queue)[0].headers or {})


async def with_nats(url, step):
    import nats

    client = await nats.connect(url)
    try:
        return await step(client.jetstream(timeout=WAIT))
    finally:
        await client.close()


def nats_send(url, subject, headers, body):
    async def step(jetstream):
        await jetstream.publish(subject, body, headers=headers)

    asyncio.run(with_nats(url, step))


def nats_last(url, stream):
    async def step(jetstream):
        info = await jetstream.stream_info(stream)
        return await jetstream.get_msg(stream, seq=info.state.last_seq)

    return asyncio.run(with_nats(url, step))


def trace_nats_send(url, subject):
    return produced(lambda headers: nats_send(url, subject, {**headers, "Content-Type": "application/json"}, b"{}"))


def trace_nats_receive(url, stream):
    return consumed({name.lower(): value for name, value in (nats_last(url, stream).headers or {}).items()})


def nats_json_send(url, subject):
    headers = {"Content-Type": "application/json", "Nats-Msg-Id": "order-7", "tenant": "acme"}
    nats_send(url, subject, headers, json.dumps(ORDER).encode())


def cloud_event_nats_send(url, subject):
    from cloudevents.core.bindings import http

    # The binding of NATS encodes the values of headers as that of HTTP does.
    message = http.to_binary_event(event(ORDER))
    nats_send(url, subject, dict(message.headers), message.body)


def cloud_event_nats_receive(url, stream):
    from cloudevents.core.bindings import http

    message = nats_last(url, stream)
    headers = {name.lower(): value for name, value in message.headers.items()}
    return shown(http.from_http_event(http.HTTPMessage(headers, message.data)))


def nats_receive(url, stream):
    message = nats_last(url, stream)
    return {"headers": message.headers, "body": message.data.decode()}


# Content encodings.


def compressed_zstd(body, variant):
    import zstandard

    match variant:
        case "one-shot":
            return zstandard.ZstdCompressor().compress(body)
        case "level 19":
            return zstandard.ZstdCompressor(level=19).compress(body)
        case "checksum":
            return zstandard.ZstdCompressor(write_checksum=True).compress(body)
        case "no content size":
            return zstandard.ZstdCompressor(write_content_size=False).compress(body)
        case "stream":
            stream = zstandard.ZstdCompressor().compressobj()
            half = len(body) // 2
            first = stream.compress(body[:half]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            return first + stream.compress(body[half:]) + stream.flush()
        case "two frames":
            half = len(body) // 2
            compressor = zstandard.ZstdCompressor()
            return compressor.compress(body[:half]) + compressor.compress(body[half:])
        case "behind a skippable frame":
            return b"\x50\x2a\x4d\x18\x04\x00\x00\x00meta" + zstandard.ZstdCompressor().compress(body)
    raise ValueError(variant)


def compressed_gzip(body, variant):
    match variant:
        case "one-shot":
            return gzip.compress(body)
        case "level 1":
            return gzip.compress(body, compresslevel=1)
        case "with a name and a time":
            import io

            buffer = io.BytesIO()
            with gzip.GzipFile("order.json", "wb", fileobj=buffer, mtime=1770091506) as file:
                file.write(body)
            return buffer.getvalue()
        case "two members":
            half = len(body) // 2
            return gzip.compress(body[:half]) + gzip.compress(body[half:])
    raise ValueError(variant)


def compressed_deflate(body, variant):
    match variant:
        case "zlib":
            return zlib.compress(body)
        case "raw":
            return zlib.compress(body, wbits=-15)
    raise ValueError(variant)


def compress(encoding, variant, body):
    body = base64.b64decode(body)
    body = {"zstd": compressed_zstd, "gzip": compressed_gzip, "deflate": compressed_deflate}[encoding](body, variant)
    return base64.b64encode(body).decode()


def decompress(encoding, body):
    import zstandard

    body = base64.b64decode(body)
    # The calls that a program writes first.
    zstd = zstandard.ZstdDecompressor().decompress
    decompressed = {"gzip": gzip.decompress, "deflate": zlib.decompress, "zstd": zstd}[encoding](body)
    return base64.b64encode(decompressed).decode()


def main():
    step, arguments = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(globals()[step](**arguments), default=as_json))


main()
