"""Messages between HTTP and the client."""

import base64
import json
import ssl
import urllib.request


def call(s, method, path, headers=(), body=None):
    """A request with the key of the administration. Returns the status, the headers and the body."""
    fields = dict(field.split("=", 1) for field in s.setting("administration").rstrip(";").split(";"))
    url = fields["Endpoint"].replace("sb://", "https://").rstrip("/") + path
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    key = f"{fields['SharedAccessKeyName']}:{fields['SharedAccessKey']}"
    request.add_header("Authorization", "Basic " + base64.b64encode(key.encode()).decode())
    context = ssl.create_default_context(cafile=s.setting("ca"))
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    with urllib.request.build_opener(*handlers).open(request, timeout=30) as response:
        return response.status, response.headers, response.read()


@scenario(queue())
async def sent_over_http(s):
    broker = {
        "MessageId": "m",
        "CorrelationId": "c",
        "Label": "l",
        "ReplyTo": "r",
        "To": "t",
        "TimeToLive": 60,
        "PartitionKey": "p",
        "ReplyToSessionId": "rs",
    }
    headers = {
        "BrokerProperties": json.dumps(broker),
        "Content-Type": "application/json",
        "text": '"a"',
        "whole": "5",
        "float": "0.5",
        "yes": "true",
        "at": '"Sun, 06 Nov 1994 08:49:37 GMT"',
    }
    status, _, _ = call(s, "POST", f"/{s.name}/messages", headers.items(), b'{"a":1}')
    same("the status", status, 201)
    async with s.receiver() as receiver:
        message = await one(receiver)
        await receiver.complete_message(message)
    same("the body", body(message), '{"a":1}')
    texts = (message.message_id, message.correlation_id, message.subject, message.reply_to, message.to, message.content_type)
    same("the texts", texts, ("m", "c", "l", "r", "t", "application/json"))
    same("the keys", (message.partition_key, message.reply_to_session_id), ("p", "rs"))
    same("the time to live", message.time_to_live, seconds(60))
    properties = {key.decode(): value for key, value in message.application_properties.items()}
    at = properties.pop("at")
    same("the properties", properties, {"text": b"a", "whole": 5, "float": 0.5, "yes": True})
    same("the time", getattr(at, "year", at), 1994 if hasattr(at, "year") else 784111777000)


@scenario(queue())
async def received_over_http(s):
    message = ServiceBusMessage(
        b'{"a":1}',
        message_id="m",
        correlation_id="c",
        subject="l",
        reply_to="r",
        to="t",
        content_type="application/json",
        time_to_live=seconds(60),
        application_properties={"Text": 'a "b"', "whole": 5, "float": 0.5, "yes": True},
    )
    await s.send(message)
    status, headers, content = call(s, "DELETE", f"/{s.name}/messages/head?timeout=10")
    same("the response", (status, content, headers["Content-Type"]), (200, b'{"a":1}', "application/json"))
    broker = json.loads(headers["BrokerProperties"])
    same("the broker's", (broker.pop("SequenceNumber"), broker.pop("DeliveryCount"), broker.pop("State")), (1, 1, "Active"))
    broker.pop("EnqueuedTimeUtc")
    expected = {"MessageId": "m", "CorrelationId": "c", "Label": "l", "ReplyTo": "r", "To": "t", "TimeToLive": 60}
    same("the properties", broker, expected)
    values = [headers[name] for name in ("text", "whole", "float", "yes")]
    same("the values", values, ['"a \\"b\\""', "5", "0.5", "true"])


@scenario(queue())
async def locked_over_http_and_settled_by_the_client(s):
    await s.send("1")
    status, headers, _ = call(s, "POST", f"/{s.name}/messages/head?timeout=10")
    same("the status", status, 201)
    async with s.receiver() as receiver:
        await nothing(receiver)
    path = headers["Location"].split("/", 3)[3]
    same("the status", call(s, "PUT", f"/{path}")[0], 200)
    async with s.receiver() as receiver:
        message = await one(receiver)
        same("the deliveries", message.delivery_count, 1)
        path = f"/{s.name}/messages/{message.message_id}/{message.lock_token}"
        same("the status", call(s, "DELETE", path)[0], 200)
        await refused(errors.MessageLockLostError, lambda: receiver.complete_message(message))
