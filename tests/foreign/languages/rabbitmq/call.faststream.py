import asyncio
import sys
import uuid

from faststream.rabbit import Channel, RabbitBroker


async def main(url, queue, number):
    call = str(uuid.uuid4())
    request = {"message_type": "half", "correlation_id": call, "expiration": 30}
    # A message for which there is no queue is an error.
    channel = Channel(on_return_raises=True)
    async with RabbitBroker(url, default_channel=channel) as broker:
        reply = await broker.request(int(number), queue, timeout=30, **request)
    assert reply.correlation_id == call
    fault = reply.headers.get("x-fault")
    print(f"fault {fault}" if fault else f"reply {await reply.decode()}")


asyncio.run(main(*sys.argv[1:]))
