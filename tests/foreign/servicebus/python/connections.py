"""Connections: transports, keys, and entities that do not exist."""

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import parse_connection_string

import base64
import hashlib
import hmac
import time
import urllib.parse

REFUSED = (errors.ServiceBusAuthenticationError, errors.ServiceBusAuthorizationError)


def signature(connection, resource, seconds=600, key=None):
    """A token of a shared access key."""
    parsed = parse_connection_string(connection)
    resource = urllib.parse.quote_plus(resource)
    expiry = str(int(time.time()) + seconds)
    signed = hmac.new((key or parsed.shared_access_key).encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    signed = urllib.parse.quote_plus(base64.b64encode(signed))
    return f"SharedAccessSignature sr={resource}&sig={signed}&se={expiry}&skn={parsed.shared_access_key_name}"


def with_token(connection, **options):
    """The connection string of a token instead of a key."""
    parts = dict(part.split("=", 1) for part in connection.strip(";").split(";"))
    parts.pop("SharedAccessKeyName")
    parts.pop("SharedAccessKey")
    parts["SharedAccessSignature"] = signature(connection, parts["Endpoint"], **options)
    return "".join(f"{name}={value};" for name, value in parts.items())


async def send_by(s, client, text="1"):
    async with client as client, client.get_queue_sender(s.name) as sender:
        await sender.send_messages(ServiceBusMessage(text))


async def round_trip(s, **options):
    """Sends and receives by a client."""
    async with s.client(**options) as client:
        async with client.get_queue_sender(s.name) as sender:
            await sender.send_messages(ServiceBusMessage("1"))
        async with client.get_queue_receiver(s.name) as receiver:
            message = await one(receiver)
            same("the body", body(message), "1")
            await receiver.complete_message(message)
            same("the peeked", await receiver.peek_messages(), [])


@scenario(queue())
async def wrong_key(s):
    await refused(REFUSED, lambda: send_by(s, s.client("wrong_key")))


@scenario(queue())
async def key_that_may_only_listen(s):
    await refused(REFUSED, lambda: send_by(s, s.client("listen_only")))
    await s.send("1")
    async with s.client("listen_only") as client, client.get_queue_receiver(s.name) as receiver:
        await receiver.complete_message(await one(receiver))


@scenario(queue())
async def key_that_may_only_send(s):
    await send_by(s, s.client("send_only"))

    async def receive():
        async with s.client("send_only") as client, client.get_queue_receiver(s.name) as receiver:
            await receiver.receive_messages(max_wait_time=2)

    await refused(REFUSED, receive)
    same("the bodies", bodies(await s.drain()), ["1"])


@scenario(queue())
async def token_in_the_connection_string(s):
    connection = with_token(s.setting("connection"))
    await send_by(s, ServiceBusClient.from_connection_string(connection, retry_total=0))
    same("the bodies", bodies(await s.drain()), ["1"])


@scenario(queue())
async def token_that_has_expired(s):
    s.setting("wrong_key")
    connection = with_token(s.setting("connection"), seconds=-60)
    await refused(REFUSED, lambda: send_by(s, ServiceBusClient.from_connection_string(connection, retry_total=0)))


@scenario(queue())
async def token_of_another_key(s):
    s.setting("wrong_key")
    connection = with_token(s.setting("connection"), key="other")
    await refused(REFUSED, lambda: send_by(s, ServiceBusClient.from_connection_string(connection, retry_total=0)))


@scenario()
async def queue_is_unknown(s):
    s.setting("wrong_key")

    async def send():
        async with s.client() as client, client.get_queue_sender("unknown-queue") as sender:
            await sender.send_messages(ServiceBusMessage("1"))

    async def receive():
        async with s.client() as client, client.get_queue_receiver("unknown-queue") as receiver:
            await receiver.receive_messages(max_wait_time=2)

    for attempt in [send, receive]:
        await refused((errors.MessagingEntityNotFoundError, errors.ServiceBusAuthenticationError), attempt)


@scenario(queue())
async def entity_in_the_connection_string(s):
    connection = f"{s.setting('connection').rstrip(';')};EntityPath={s.name}"
    await send_by(s, ServiceBusClient.from_connection_string(connection, retry_total=0))
    same("the bodies", bodies(await s.drain()), ["1"])


@scenario(queue())
async def over_web_socket(s):
    await round_trip(s, connection="web_socket", transport_type=TransportType.AmqpOverWebsocket, custom_endpoint_address=s.setting("web_socket_endpoint"), connection_verify=s.setting("ca"))


@scenario(queue())
async def over_tls(s):
    await round_trip(s, connection="tls", connection_verify=s.setting("ca"))


@scenario(queue())
async def many_connections(s):
    await together(*[lambda i=i: send_by(s, s.client(), str(i)) for i in range(12)])
    same("the bodies", sorted(bodies(await s.drain(count=12)), key=int), [str(i) for i in range(12)])


@scenario(queue())
async def client_is_opened_again(s):
    for i in range(3):
        await send_by(s, s.client(), str(i))
    same("the bodies", bodies(await s.drain(count=3)), ["0", "1", "2"])


@scenario(queue())
async def idle_sender_sends_again(s):
    async with s.sender() as sender:
        await sender.send_messages(ServiceBusMessage("1"))
        await pause(3)
        await sender.send_messages(ServiceBusMessage("2"))
    same("the bodies", bodies(await s.drain(count=2)), ["1", "2"])
