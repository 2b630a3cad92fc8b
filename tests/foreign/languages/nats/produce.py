import asyncio
import sys
import uuid

import nats


async def main(url, queue, order):
    client = await nats.connect(url)
    headers = {
        "Sb-Subject": "order",
        "Content-Type": "application/json",
        "Nats-Msg-Id": str(uuid.uuid4()),
        "tenant": "north",
    }
    # The stream has stored the message when this returns.
    await client.jetstream().publish(f"consign.{queue}.m", order.encode(), headers=headers)
    await client.close()


asyncio.run(main(*sys.argv[1:]))
