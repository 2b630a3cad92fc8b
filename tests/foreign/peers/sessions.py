"""Publishers of other clients that choose the slot of a session: one step of a case, by its name.

    sessions.py STEP ARGUMENTS

ARGUMENTS is an object of JSON. How many messages were published goes to the standard output, as JSON.
"""

import json
import pathlib
import sys

README = pathlib.Path(__file__).parents[3] / "transports" / "rabbitmq" / "README.md"


def slot_queue(path, session_id, slots):
    """The function of the README of consign-rabbitmq, as it stands there."""
    code = {}
    exec(README.read_text().split("```python\n")[1].split("```")[0], code)
    return code["slot_queue"](path, session_id, slots)


def pika(url, queue, slots, sessions, messages):
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(messages):
        for session in sessions:
            properties = pika.BasicProperties(headers={"sb-session-id": session}, delivery_mode=2)
            channel.basic_publish("", slot_queue(queue, session, slots), str(number), properties, mandatory=True)
    connection.close()
    return {"published": messages * len(sessions)}


def main():
    step, arguments = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(globals()[step](**arguments)))


main()
