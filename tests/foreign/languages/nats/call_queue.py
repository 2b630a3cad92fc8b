import asyncio
import json
import sys
import uuid

import nats


async def main(url, queue, number):
    client = await nats.connect(url)
    call = str(uuid.uuid4())
    inbox = client.new_inbox()
    replies = await client.subscribe(inbox)
    headers = {"Sb-Subject": "half", "Sb-Reply-To": inbox, "Sb-Correlation-Id": call}
    # The stream has stored the request when this returns.
    await client.jetstream().publish(f"consign.{queue}.m", number.encode(), headers=headers)
    reply = await replies.next_msg(timeout=30)
    assert reply.headers["Sb-Correlation-Id"] == call
    fault = reply.headers.get("Nats-Service-Error")
    print(f"fault {fault}" if fault else f"reply {json.loads(reply.data)}")
    await client.close()


asyncio.run(main(*sys.argv[1:]))
