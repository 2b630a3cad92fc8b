"""`broker.py`: a broker of queues in memory with peek-lock, on the container of Qpid Proton.

It prints its port, and serves until its standard input ends. A queue is created by attaching a sender to `$create/NAME`, with the
bytes that it takes after a `?`, and deleted by `$delete/NAME`. Messages are kept as they were encoded.

A released message and one of a lost link return to their place, without a count; `modified` with `delivery-failed` counts; a
rejected message moves to `dead/NAME`, if that exists, and is discarded otherwise. A message with `x-opt-scheduled-enqueue-time` is
delivered at that time.
"""

import os
import sys
import threading
import time
from bisect import insort

from proton import Condition, Data, Delivery, Described, Endpoint, Handler, symbol, uint, ulong
from proton.handlers import EndpointStateHandler, FlowController
from proton.reactor import Container

HEADER, ANNOTATIONS = 0x70, 0x72


class Message:
    """An encoded message without its header."""

    def __init__(self, raw):
        self.header, self.rest, self.due = [], raw, None
        data, offset = Data(), 0
        while offset < len(raw):
            data.clear()
            offset += data.decode(raw[offset:])
            data.rewind()
            data.next()
            section = data.get_object()
            if section.descriptor == HEADER:
                self.header, self.rest = list(section.value), raw[offset:]
            elif section.descriptor == ANNOTATIONS:
                self.due = section.value.get(symbol("x-opt-scheduled-enqueue-time"))
                break
            elif section.descriptor > ANNOTATIONS:
                break
        self.header += [None] * (5 - len(self.header))
        self.failed = self.header[4] or 0

    def encoded(self):
        self.header[4] = uint(self.failed)
        data = Data()
        data.put_object(Described(ulong(HEADER), self.header))
        return data.encode() + self.rest

    def __len__(self):
        return len(self.rest)


class Queue:
    def __init__(self, limit=None):
        self.limit, self.size, self.last, self.messages = limit, 0, 0, []

    def append(self, message):
        """Adds a message at the end, if there is space."""
        if self.limit is not None and self.size + len(message) > self.limit:
            return False
        self.last += 1
        message.place = self.last
        self.size += len(message)
        self.messages.append((message.place, message))
        return True

    def put_back(self, message):
        insort(self.messages, (message.place, message))

    def remove(self, message):
        self.size -= len(message)


class Broker(Handler):
    def __init__(self):
        super().__init__()
        self.handlers = [FlowController(100), EndpointStateHandler(delegate=self)]
        self.queues, self.senders, self.locked = {}, {}, {}
        self.due, self.last_due, self.last_tag, self.last_address = [], 0, 0, 0

    def on_reactor_init(self, event):
        listener = event.container.listen("127.0.0.1:0")._selectable
        # Proton's backlog is 10: with more connections at once, the kernel answers with cookies, and resets some.
        listener.listen(256)
        print(listener.getsockname()[1], flush=True)

    def on_connection_bound(self, event):
        event.transport.idle_timeout = 10

    # Links.

    @staticmethod
    def address(link):
        return (link.source if link.is_sender else link.target).address or ""

    @staticmethod
    def key(link):
        # No container uses a name twice.
        return (link.connection.remote_container, link.name)

    def on_link_remote_open(self, event):
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode, link.rcv_settle_mode = link.remote_snd_settle_mode, 0
        if link.is_sender and link.remote_source.dynamic:
            self.last_address += 1
            link.source.address = f"dynamic/{self.last_address}"
            self.queues[link.source.address] = Queue()
        condition = self.control(link) or self.missing(link)
        if condition:
            # An attach without a source or a target is refused.
            (link.source if link.is_sender else link.target).type = 0
            link.condition = condition
            link.open()
            link.close()
            return
        if link.is_sender:
            self.senders[self.key(link)] = link
        link.open()

    def missing(self, link):
        address = self.address(link)
        if address.startswith("$") or address in self.queues:
            return None
        return Condition("amqp:not-found", f"there is no queue {address}")

    def control(self, link):
        operation, _, name = self.address(link).partition("/")
        if operation == "$create":
            name, _, limit = name.partition("?")
            if name in self.queues:
                return Condition("amqp:precondition-failed", "the queue exists")
            self.queues[name] = Queue(int(limit) if limit else None)
        elif operation == "$delete":
            if self.queues.pop(name, None) is None:
                return Condition("amqp:not-found", f"there is no queue {name}")
            for sender in [sender for sender in self.senders.values() if self.address(sender) == name]:
                self.unlock(self.key(sender))
                sender.condition = Condition("amqp:resource-deleted", "the queue was deleted")
                sender.close()
        return None

    def on_link_remote_close(self, event):
        self.unlock(self.key(event.link))

    def on_session_remote_close(self, event):
        for link in [link for link in self.senders.values() if link.session == event.session]:
            self.unlock(self.key(link))

    def on_connection_remote_close(self, event):
        self.on_transport_closed(event)

    def on_transport_closed(self, event):
        for link in [link for link in self.senders.values() if link.connection == event.connection]:
            self.unlock(self.key(link))

    def unlock(self, key):
        """Makes the messages of a link available again, in their places."""
        link = self.senders.pop(key, None)
        messages = self.locked.pop(key, {})
        if link:
            address = self.address(link)
            if address.startswith("dynamic/"):
                self.queues.pop(address, None)
            for message in messages.values():
                self.put_back(address, message)
            self.deliver(address)

    # Messages.

    def on_delivery(self, event):
        delivery, link = event.delivery, event.link
        if link.is_receiver:
            if delivery.readable and not delivery.partial:
                message = Message(link.recv(delivery.pending))
                link.advance()
                self.store(event.container, link, delivery, message)
        elif delivery.updated:
            self.settle(link, delivery)

    def store(self, container, link, delivery, message):
        address = self.address(link)
        wait = (message.due or 0) / 1000 - time.time()
        queue = self.queues.get(address)
        if queue is None:
            self.reject(delivery, "amqp:resource-deleted", "the queue was deleted")
        elif wait > 0:
            self.last_due += 1
            insort(self.due, (message.due, self.last_due, address, message))
            container.schedule(wait, self)
            delivery.update(Delivery.ACCEPTED)
        elif queue.append(message):
            delivery.update(Delivery.ACCEPTED)
        else:
            self.reject(delivery, "amqp:resource-limit-exceeded", "the queue is full")
        delivery.settle()
        self.deliver(address)

    @staticmethod
    def reject(delivery, condition, description):
        delivery.local.condition = Condition(condition, description)
        delivery.update(Delivery.REJECTED)

    def on_timer_task(self, event):
        now = time.time() * 1000
        while self.due and self.due[0][0] <= now:
            _, _, address, message = self.due.pop(0)
            if address in self.queues and self.queues[address].append(message):
                self.deliver(address)
        # A timer may be early, as when the clock is set back.
        if self.due:
            event.container.schedule((self.due[0][0] - now) / 1000 + 0.01, self)

    def put_back(self, address, message):
        if address in self.queues:
            self.queues[address].put_back(message)

    def on_link_flow(self, event):
        if event.link.is_sender:
            self.send(event.link)

    def deliver(self, address):
        for link in list(self.senders.values()):
            if self.address(link) == address:
                self.send(link)

    def send(self, link):
        queue = self.queues.get(self.address(link))
        while queue and link.credit > 0 and queue.messages and link.state & Endpoint.LOCAL_ACTIVE:
            self.last_tag += 1
            tag = f"{self.last_tag:08}"
            _, message = queue.messages.pop(0)
            delivery = link.delivery(tag)
            link.stream(message.encoded())
            link.advance()
            if link.snd_settle_mode == 1:
                queue.remove(message)
                delivery.settle()
            else:
                self.locked.setdefault(self.key(link), {})[tag] = message
        if self.key(link) in self.senders:
            # Another link has the next message.
            self.senders[self.key(link)] = self.senders.pop(self.key(link))
        if link.drain_mode:
            link.drained()

    def settle(self, link, delivery):
        state, failed = delivery.remote_state, delivery.remote.failed
        if not state and not delivery.settled:
            return
        address, message = self.address(link), self.locked.get(self.key(link), {}).pop(delivery.tag, None)
        if message is not None:
            queue = self.queues.get(address)
            if state == Delivery.MODIFIED and failed:
                message.failed += 1
            if state in (Delivery.ACCEPTED, Delivery.REJECTED) and queue:
                queue.remove(message)
            if state == Delivery.REJECTED and f"dead/{address}" in self.queues:
                self.queues[f"dead/{address}"].append(message)
                self.deliver(f"dead/{address}")
            if state not in (Delivery.ACCEPTED, Delivery.REJECTED):
                self.put_back(address, message)
        if not delivery.settled:
            delivery.local.failed = failed
            delivery.update(state)
        delivery.settle()
        self.deliver(address)


def until_the_input_ends():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=until_the_input_ends, daemon=True).start()
Container(Broker()).run()
