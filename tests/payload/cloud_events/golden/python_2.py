"""Writes python_2.json: events as the Python package `cloudevents` 2.x writes them. pip install 'cloudevents==2.2.0'"""
import base64, json
from datetime import datetime, timezone
from cloudevents.core.bindings import amqp, http, kafka, rabbitmq
from cloudevents.core.v1.event import CloudEvent

TIME = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=timezone.utc)
TEXT = "2026-02-03T04:05:06.789000Z"
MILLIS = "2026-02-03T04:05:06.789Z"


def attributes(**more):
    return {"specversion": "1.0", "id": "A-1", "source": "/my%20shop", "type": "com.example.order.placed", "time": TIME, **more}


EVENTS = {
    "minimal": (attributes(), None),
    "json": (attributes(subject="order 7", datacontenttype="application/json", dataschema="https://x.example/s"), {"id": 7}),
    "text": (attributes(datacontenttype="text/plain"), "caf\u00e9"),
    "bytes": (attributes(datacontenttype="application/octet-stream"), b"\x00\xff"),
    "extensions": (attributes(text="value", number=5, large=5_000_000_000, truth=True), {"id": 7}),
    "an instant": (attributes(expirytime=TIME), {"id": 7}),
    "a long name": (attributes(anextensionwithaverylongname="value"), {"id": 7}),
}


def expected(attributes, binding):
    """What the values are after the binding: it has no types, or its own."""
    def text(name, value):
        if isinstance(value, datetime):
            # Beside `time`, AMQP says of an instant only that it is an integer.
            return ("1770091506789" if name == "expirytime" else MILLIS) if binding == "amqp" else TEXT
        if isinstance(value, bool) and binding in ("amqp", "json"):
            return str(value).lower()
        return str(value)
    return {name: text(name, value) for name, value in attributes.items() if name != "specversion"}


def data(value):
    if value is None:
        return None
    body = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return base64.b64encode(body).decode()


def golden():
    for name, (given, value) in EVENTS.items():
        event = CloudEvent(given, value)
        for binding in (amqp, rabbitmq, kafka, http):
            kind = binding.__name__.rsplit(".", 1)[1]
            for mode in ("binary", "structured"):
                message = getattr(binding, f"to_{mode}_event")(event)
                if kind == "amqp":
                    headers, body = dict(message.application_properties), message.application_data
                    content_type = message.properties.get("content-type")
                elif kind == "rabbitmq":
                    headers, body, content_type = dict(message.headers), message.body, message.content_type
                else:
                    headers = {k: v.decode() if isinstance(v, bytes) else v for k, v in message.headers.items()}
                    content_type = headers.pop("content-type", None)
                    body = message.value if kind == "kafka" else message.body
                # The HTTP binding escapes the values of headers, which its transport undoes.
                if kind == "http" and mode == "binary":
                    headers = {k: http._decode_header_value("", v) for k, v in headers.items()}
                yield {
                    "name": f"{kind} {mode} {name}",
                    "content_type": content_type,
                    "properties": headers,
                    "body": base64.b64encode(body).decode(),
                    "attributes": expected(given, "json" if mode == "structured" else kind),
                    "data": data(value),
                }


lines = ",\n".join(json.dumps(each) for each in golden())
open("python_2.json", "w").write(f"[\n{lines}\n]\n")
