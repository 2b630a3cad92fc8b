import asyncio
import json
import sys

import nats


async def main(url, subject, number):
    client = await nats.connect(url)
    reply = await client.request(subject, number.encode(), timeout=30)
    fault = (reply.headers or {}).get("Nats-Service-Error")
    print(f"fault {fault}" if fault else f"reply {json.loads(reply.data)}")
    await client.close()


asyncio.run(main(*sys.argv[1:]))
