import sys

import psycopg

url, queue, count = sys.argv[1:]
receive = """
    SELECT id, lock, dead_letter_reason, dead_letter_description, properties ->> 'subject', body
    FROM client_receive(%s)
"""
left = int(count)
with psycopg.connect(url, autocommit=True) as database:
    database.execute("SELECT client_listen()")
    while left > 0:
        letter = database.execute(receive, [f"{queue}/$deadletterqueue"]).fetchone()
        if not letter:
            # A notification has arrived, or a second has passed.
            list(database.notifies(timeout=1, stop_after=1))
            continue
        number, lock, reason, description, subject, body = letter
        print(reason, subject, body.decode())
        print(description, file=sys.stderr)
        database.execute("SELECT client_complete(%s, %s)", [number, lock])
        left -= 1
