"""`proton_broker.py`: a broker of queues in memory with peek-lock, on the container of Qpid Proton.

It prints its port, and serves until it is stopped. An address is a queue, made on first use; one that begins with `missing` is
refused. Rejected messages go to `dead/ADDRESS`.
"""

from collections import defaultdict, deque

from proton import Condition, Delivery, Endpoint, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

IDLE_TIMEOUT = 8


class Broker(MessagingHandler):
    def __init__(self):
        super().__init__(prefetch=100, auto_accept=True, auto_settle=False)
        self.queues = defaultdict(deque)
        # Links that send to receivers, by the name of the connection and their own.
        self.senders = {}
        # Locked messages by the key of their link and their tag.
        self.locked = defaultdict(dict)
        self.last_tag = 0

    def on_start(self, event):
        acceptor = event.container.listen("127.0.0.1:0")
        print(acceptor._selectable.getsockname()[1], flush=True)

    def on_connection_bound(self, event):
        event.transport.idle_timeout = IDLE_TIMEOUT

    # Links.

    @staticmethod
    def address(link):
        return (link.remote_source if link.is_sender else link.remote_target).address or ""

    @staticmethod
    def key(link):
        return (link.connection.remote_container, link.name)

    def on_link_opening(self, event):
        link = event.link
        if self.address(link).startswith("missing"):
            # It is closed as soon as it is open, without a source and a target.
            link.condition = Condition("amqp:not-found", f"no queue {self.address(link)}")
            return
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if link.is_sender:
            self.senders[self.key(link)] = link

    def on_link_local_open(self, event):
        if event.link.condition:
            event.link.close()

    def on_link_closing(self, event):
        self.unlock(self.key(event.link))

    def on_disconnected(self, event):
        container = event.connection.remote_container
        for key in [key for key in self.senders if key[0] == container]:
            self.unlock(key)

    def unlock(self, key):
        """Makes the messages of a link available again, in their order."""
        link = self.senders.pop(key, None)
        if link:
            messages = [message for _, message in sorted(self.locked.pop(key, {}).items())]
            self.queues[self.address(link)].extendleft(reversed(messages))
            self.deliver(self.address(link))

    # Messages.

    def on_message(self, event):
        address = self.address(event.link)
        self.queues[address].append(event.message)
        self.deliver(address)

    def on_link_flow(self, event):
        if event.link.is_sender:
            self.send(event.link)

    def deliver(self, address):
        for link in list(self.senders.values()):
            if self.address(link) == address:
                self.send(link)

    def send(self, link):
        queue = self.queues[self.address(link)]
        while link.credit > 0 and queue and link.state & Endpoint.LOCAL_ACTIVE:
            self.last_tag += 1
            tag = f"{self.last_tag:08}"
            message = queue.popleft()
            link.send(message, tag=tag)
            self.locked[self.key(link)][tag] = message
        if link.drain_mode:
            link.drained()

    def on_delivery(self, event):
        delivery, link = event.delivery, event.link
        if not (link.is_sender and delivery.updated):
            return
        message = self.locked[self.key(link)].pop(delivery.tag, None)
        if message is not None:
            self.settle(self.address(link), message, delivery)
        if not delivery.settled:
            # The receiver waits for it.
            delivery.local.failed = delivery.remote.failed
            delivery.update(delivery.remote_state)
        delivery.settle()
        self.deliver(self.address(link))

    def settle(self, address, message, delivery):
        state = delivery.remote_state
        if state == Delivery.ACCEPTED:
            return
        if state == Delivery.REJECTED:
            self.queues[f"dead/{address}"].append(message)
            return
        if state == Delivery.MODIFIED and delivery.remote.failed:
            message.delivery_count += 1
        self.queues[address].appendleft(message)


Container(Broker()).run()
