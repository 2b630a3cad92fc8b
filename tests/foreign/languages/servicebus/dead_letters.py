import sys

from azure.servicebus import ServiceBusClient, ServiceBusSubQueue

url, queue, count = sys.argv[1:]
left = int(count)
with (
    ServiceBusClient.from_connection_string(url) as client,
    client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
):
    while left > 0:
        for letter in receiver.receive_messages(max_message_count=left, max_wait_time=5):
            print(letter.dead_letter_reason, letter.subject, b"".join(letter.body).decode())
            print(letter.dead_letter_error_description, file=sys.stderr)
            receiver.complete_message(letter)
            left -= 1
