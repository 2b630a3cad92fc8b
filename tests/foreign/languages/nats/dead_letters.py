import asyncio
import sys

import nats


async def main(url, queue, count):
    client = await nats.connect(url)
    letters = await client.jetstream().pull_subscribe_bind("dead", stream=f"consign_{queue}_x")
    for _ in range(int(count)):
        [letter] = await letters.fetch(1, timeout=30)
        headers = letter.headers
        print(headers.get("DeadLetterReason"), headers["Sb-Subject"], letter.data.decode())
        print(headers.get("DeadLetterErrorDescription"), file=sys.stderr)
        await letter.ack_sync()
    await client.close()


asyncio.run(main(*sys.argv[1:]))
