import asyncio
import json
import sys

from faststream.rabbit import Channel, RabbitBroker


async def main(url, queue, order):
    properties = {"message_type": "order", "headers": {"tenant": "north"}, "persist": True}
    # A message for which there is no queue is an error.
    channel = Channel(on_return_raises=True)
    async with RabbitBroker(url, default_channel=channel) as broker:
        # A dictionary or a model of Pydantic is sent as application/json, but a str as text/plain.
        await broker.publish(json.loads(order), queue, **properties)


asyncio.run(main(*sys.argv[1:]))
