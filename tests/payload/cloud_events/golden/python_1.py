"""Writes python_1.json: events as the Python package `cloudevents` 1.x writes them. pip install 'cloudevents==1.13.0'"""
import base64, json
from cloudevents import kafka
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent

TIME = "2026-02-03T04:05:06.789000+00:00"


def attributes(**more):
    return {"specversion": "1.0", "id": "A-1", "source": "/my%20shop", "type": "com.example.order.placed", "time": TIME, **more}


EVENTS = {
    "minimal": (attributes(), None),
    "json": (attributes(subject="order 7", datacontenttype="application/json", dataschema="https://x.example/s"), {"id": 7}),
    "extensions": (attributes(datacontenttype="application/json", text="value", With_Upper="v"), {"id": 7}),
}


def golden():
    for name, (given, value) in EVENTS.items():
        event = CloudEvent(given, value)
        messages = {"http binary": to_binary(event), "http structured": to_structured(event)}
        if name != "minimal":
            message = kafka.to_binary(event)
            messages["kafka binary"] = ({k: v.decode() for k, v in message.headers.items()}, message.value)
        for kind, (headers, body) in messages.items():
            headers, body = dict(headers), body or b""
            content_type = headers.pop("content-type", None)
            attributes = {k.lower(): v for k, v in given.items() if k != "specversion"}
            data = None if value is None else base64.b64encode(json.dumps(value).encode()).decode()
            yield {
                "name": f"{kind} {name}",
                "content_type": content_type,
                "properties": headers,
                "body": base64.b64encode(body).decode(),
                "attributes": attributes,
                "data": data,
            }


lines = ",\n".join(json.dumps(each) for each in golden())
open("python_1.json", "w").write(f"[\n{lines}\n]\n")
