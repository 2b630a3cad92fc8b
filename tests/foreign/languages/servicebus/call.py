import json
import sys
import uuid
from datetime import timedelta

from azure.servicebus import ServiceBusClient, ServiceBusMessage

url, queue, number = sys.argv[1:]
replies = f"{queue}-replies"
call = str(uuid.uuid4())
with ServiceBusClient.from_connection_string(url) as client:
    # Callers share the queue of replies: each call has a session.
    with client.get_queue_receiver(replies, session_id=call) as receiver, client.get_queue_sender(queue) as sender:
        request = ServiceBusMessage(
            number,
            subject="half",
            content_type="application/json",
            message_id=call,
            reply_to=replies,
            reply_to_session_id=call,
            time_to_live=timedelta(seconds=30),
        )
        sender.send_messages(request)
        received = receiver.receive_messages(max_wait_time=30)
        if not received:
            sys.exit("no reply")
        fault = (received[0].application_properties or {}).get(b"x-fault")
        print(f"fault {fault.decode()}" if fault else f"reply {json.loads(b''.join(received[0].body))}")
        receiver.complete_message(received[0])
