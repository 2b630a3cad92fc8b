import json
import sys

import psycopg

url, queue, order = sys.argv[1:]
properties = {"subject": "order", "content_type": "application/json", "application": {"tenant": "north"}}
# The message is sent when the transaction commits, together with your own rows.
with psycopg.connect(url) as database:
    database.execute("SELECT client_send(%s, %s, %s)", [queue, order.encode(), json.dumps(properties)])
