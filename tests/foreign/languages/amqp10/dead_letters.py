import sys

from proton.utils import BlockingConnection

url, address, count = sys.argv[1:]
# By default the client sends no password to a broker that permits ANONYMOUS.
mechanism = "PLAIN" if "@" in url else "ANONYMOUS"
connection = BlockingConnection(url, timeout=30, allowed_mechs=mechanism, allow_insecure_mechs=True)
# It has no credit until `receive` requests one message.
receiver = connection.create_receiver(address)
for _ in range(int(count)):
    letter = receiver.receive()
    properties = letter.properties or {}
    print(properties.get("DeadLetterReason"), letter.subject, bytes(letter.body).decode())
    print(properties.get("DeadLetterErrorDescription"), file=sys.stderr)
    # Until here the message is locked. It is released if this program ends.
    receiver.accept()
connection.close()
