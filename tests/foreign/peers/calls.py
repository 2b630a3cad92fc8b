"""Calls of other clients, many at once: one step of a case, by its name.

    calls.py STEP ARGUMENTS

ARGUMENTS is an object of JSON. How many replies belonged to which calls goes to the standard output, as JSON.
"""

import asyncio
import contextlib
import json
import sys
import time
import uuid

WAIT = 15


class Calls:
    """The calls that wait, each for the square of its number."""

    def __init__(self):
        self.waiting = {}
        self.counts = {"matched": 0, "wrong": 0, "unknown": 0}

    def begin(self, number):
        call = str(uuid.uuid4())
        self.waiting[call] = number
        return call

    def replied(self, call, body):
        if call not in self.waiting:
            self.counts["unknown"] += 1
            return
        number = self.waiting.pop(call)
        self.counts["matched" if body.decode() == str(number * number) else "wrong"] += 1


def pika(url, queue, replies, calls):
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    direct = "amq.rabbitmq.reply-to"
    reply_to = direct if replies == "direct" else channel.queue_declare("", exclusive=True).method.queue
    all_calls = Calls()
    # Before the calls, as direct replies need it.
    channel.basic_consume(
        reply_to, lambda _channel, _method, properties, body: all_calls.replied(properties.correlation_id, body), auto_ack=True
    )
    for number in range(calls):
        properties = pika.BasicProperties(reply_to=reply_to, correlation_id=all_calls.begin(number))
        channel.basic_publish(exchange="", routing_key=queue, properties=properties, body=str(number))
    until = time.monotonic() + WAIT
    while all_calls.waiting and time.monotonic() < until:
        connection.process_data_events(time_limit=0.1)
    connection.close()
    return all_calls.counts


def nats_request(url, subject, calls):
    async def run():
        import nats

        client = await nats.connect(url)
        all_calls = Calls()

        async def call(number):
            waiting = all_calls.begin(number)
            reply = await client.request(subject, str(number).encode(), timeout=WAIT)
            all_calls.replied(waiting, reply.data)

        await asyncio.gather(*(call(number) for number in range(calls)))
        await client.close()
        return all_calls.counts

    return asyncio.run(run())


def jetstream(url, subject, calls):
    async def run():
        import nats

        client = await nats.connect(url)
        all_calls = Calls()
        inbox = client.new_inbox()
        done = asyncio.Event()

        async def replied(reply):
            all_calls.replied((reply.headers or {}).get("Sb-Correlation-Id"), reply.data)
            if not all_calls.waiting:
                done.set()

        await client.subscribe(inbox, cb=replied)

        async def send(number):
            headers = {"Sb-Reply-To": inbox, "Sb-Correlation-Id": all_calls.begin(number)}
            await client.jetstream().publish(subject, str(number).encode(), headers=headers)

        await asyncio.gather(*(send(number) for number in range(calls)))
        with contextlib.suppress(TimeoutError):
            # The counts tell what has not come.
            await asyncio.wait_for(done.wait(), WAIT)
        # A second reply to a call would come now.
        await client.flush()
        await client.close()
        return all_calls.counts

    return asyncio.run(run())


def main():
    step, arguments = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(globals()[step](**arguments)))


main()
