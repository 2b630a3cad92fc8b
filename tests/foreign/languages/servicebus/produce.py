import sys
import uuid

from azure.servicebus import ServiceBusClient, ServiceBusMessage

url, queue, order = sys.argv[1:]
message = ServiceBusMessage(
    order,
    subject="order",
    content_type="application/json",
    message_id=str(uuid.uuid4()),
    application_properties={"tenant": "north"},
)
with ServiceBusClient.from_connection_string(url) as client, client.get_queue_sender(queue) as sender:
    sender.send_messages(message)
