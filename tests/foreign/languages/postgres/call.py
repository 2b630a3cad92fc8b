import json
import sys
import time

import psycopg

url, queue, number = sys.argv[1:]
with psycopg.connect(url, autocommit=True) as database:
    # The queue is deleted after this connection has ended.
    [replies] = database.execute("SELECT client_reply_queue()").fetchone()
    properties = {
        "subject": "half",
        "content_type": "application/json",
        "reply_to": replies,
        "time_to_live_ms": 30_000,
    }
    call = "SELECT client_send(%s, %s, %s)"
    [call] = database.execute(call, [queue, number.encode(), json.dumps(properties)]).fetchone()
    receive = "SELECT id, lock, properties, body FROM client_receive(%s)"
    deadline = time.monotonic() + 30
    # A notification has arrived, or a second has passed.
    while not (reply := database.execute(receive, [replies]).fetchone()):
        if time.monotonic() > deadline:
            sys.exit("no reply in time")
        list(database.notifies(timeout=1, stop_after=1))
    letter, lock, properties, body = reply
    assert properties["correlation_id"] == call
    fault = properties.get("application", {}).get("x-fault")
    print(f"fault {fault}" if fault else f"reply {json.loads(body)}")
    database.execute("SELECT client_complete(%s, %s)", [letter, lock])
