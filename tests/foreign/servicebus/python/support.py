"""What the scenarios share. `run.py` gives each module these names."""

import datetime
import uuid
from contextlib import asynccontextmanager

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus import exceptions as errors
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient

DEAD_LETTER = ServiceBusSubQueue.DEAD_LETTER
RECEIVE_AND_DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
# How long a receiver waits for what is there.
WAIT = 10
# How long a receiver waits for what is not there.
SHORT = 1


def utc_now():
    """Now, as the client has it."""
    return datetime.datetime.now(datetime.timezone.utc)


def seconds(count):
    """A duration."""
    return datetime.timedelta(seconds=count)


def body(message):
    """The bytes of a body as text."""
    return b"".join(message.body).decode()


def bodies(messages):
    """The bodies of messages."""
    return [body(message) for message in messages]


class Context:
    """A client of the server, and the names of a scenario's entities."""

    def __init__(self, settings, names):
        self.settings, self.names = settings, names
        self.name = names[0] if names else None

    def setting(self, name):
        """A setting of the run."""
        if not self.settings.get(name):
            raise Missing(f"the server under test has no {name}")
        return self.settings[name]

    def client(self, connection="connection", **options):
        """A client that tries once."""
        return ServiceBusClient.from_connection_string(self.setting(connection), **{"retry_total": 0, **options})

    async def send(self, *messages, to=None):
        """Sends messages to a queue, one by one."""
        async with self.client() as client, client.get_queue_sender(to or self.name) as sender:
            for message in messages:
                await sender.send_messages(message if isinstance(message, ServiceBusMessage) else ServiceBusMessage(message))

    async def publish(self, *messages, to=None):
        """Sends messages to a topic, one by one."""
        async with self.client() as client, client.get_topic_sender(to or self.name) as sender:
            for message in messages:
                await sender.send_messages(message if isinstance(message, ServiceBusMessage) else ServiceBusMessage(message))

    @asynccontextmanager
    async def sender(self, queue=None, **options):
        """A sender of a queue."""
        async with self.client(**options) as client, client.get_queue_sender(queue or self.name) as sender:
            yield sender

    @asynccontextmanager
    async def receiver(self, queue=None, client_options={}, **options):
        """A receiver of a queue."""
        async with self.client(**client_options) as client:
            async with client.get_queue_receiver(queue or self.name, **options) as receiver:
                yield receiver

    @asynccontextmanager
    async def subscription(self, name, **options):
        """A receiver of a subscription."""
        async with self.client() as client:
            async with client.get_subscription_receiver(self.name, name, **options) as receiver:
                yield receiver

    async def drain(self, queue=None, count=1, **options):
        """Completes what a queue has, of which a number is expected, and returns it."""
        async with self.receiver(queue, **options) as receiver:
            return await take(receiver, count)


async def take(receiver, count=1):
    """Completes what a receiver gets: a number of messages, and the others that are there."""
    taken = []
    while messages := await receiver.receive_messages(max_message_count=50, max_wait_time=WAIT if len(taken) < count else SHORT):
        for message in messages:
            await receiver.complete_message(message)
        taken += messages
    return taken


async def one(receiver, wait=WAIT):
    """Receives one message."""
    messages = await receiver.receive_messages(max_message_count=1, max_wait_time=wait)
    same("the number of messages", len(messages), 1)
    return messages[0]


async def several(receiver, count):
    """Receives a number of messages, in as many calls as it takes."""
    messages = []
    while len(messages) < count:
        more = await receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=WAIT)
        if not more:
            raise Expected(f"{len(messages)} of {count} messages came")
        messages += more
    return messages


async def nothing(receiver):
    """Fails if a receiver gets a message."""
    messages = await receiver.receive_messages(max_message_count=1, max_wait_time=SHORT)
    same("the messages", bodies(messages), [])


async def refused(kind, function):
    """Fails unless a call raises an error of the kind, which it returns."""
    try:
        await function()
    except kind as error:
        return error
    except Exception as error:
        raise Expected(f"{type(error).__name__} instead of {kind}: {error}") from error
    raise Expected(f"no {kind}")
