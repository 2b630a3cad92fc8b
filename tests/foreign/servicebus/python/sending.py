"""Messages that are sent, and what arrives."""

from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageHeader, AmqpMessageProperties


@scenario(queue())
async def send_one(s):
    await s.send("1")
    same("the bodies", bodies(await s.drain()), ["1"])


@scenario(queue())
async def send_list(s):
    async with s.sender() as sender:
        await sender.send_messages([ServiceBusMessage(str(i)) for i in range(20)])
    same("the bodies", bodies(await s.drain(count=20)), [str(i) for i in range(20)])


@scenario(queue())
async def send_batch(s):
    async with s.sender() as sender:
        batch = await sender.create_message_batch()
        for i in range(30):
            batch.add_message(ServiceBusMessage(f"batch {i}", message_id=f"id {i}"))
        await sender.send_messages(batch)
    received = await s.drain(count=30)
    same("the bodies", bodies(received), [f"batch {i}" for i in range(30)])
    same("the ids", [message.message_id for message in received], [f"id {i}" for i in range(30)])


@scenario(queue())
async def send_empty_batch(s):
    async with s.sender() as sender:
        await sender.send_messages(await sender.create_message_batch())
    async with s.receiver() as receiver:
        await nothing(receiver)


@scenario(queue())
async def batch_has_a_limit(s):
    async with s.sender() as sender:
        batch = await sender.create_message_batch(max_size_in_bytes=2_000)
        batch.add_message(ServiceBusMessage(b"x" * 1_000))
        await refused(errors.MessageSizeExceededError, lambda: add(batch))
        await sender.send_messages(batch)
    same("the sizes", [len(body(message)) for message in await s.drain()], [1_000])


async def add(batch):
    batch.add_message(ServiceBusMessage(b"x" * 1_000))


@scenario(queue())
async def send_200_kilobytes(s):
    large = bytes(i * 31 % 251 for i in range(200_000))
    await s.send(ServiceBusMessage(large))
    received = await s.drain()
    same("the body is the same", [b"".join(message.body) == large for message in received], [True])


@scenario(queue(MaxMessageSizeInKilobytes=1024))
async def send_300_kilobytes(s):
    large = bytes(i * 31 % 251 for i in range(300_000))
    await s.send(ServiceBusMessage(large))
    received = await s.drain()
    same("the body is the same", [b"".join(message.body) == large for message in received], [True])


@scenario(queue())
async def send_too_large(s):
    async with s.sender() as sender:
        for size in (300_000, 3_000_000):
            large = ServiceBusMessage(b"x" * size)
            await refused(errors.MessageSizeExceededError, lambda: sender.send_messages(large))
    async with s.sender() as sender:
        await sender.send_messages(ServiceBusMessage("small"))
    same("the bodies", bodies(await s.drain()), ["small"])


@scenario(queue())
async def send_empty_body(s):
    await s.send(ServiceBusMessage(b""))
    same("the bodies", bodies(await s.drain()), [""])


@scenario(queue())
async def send_several_data_sections(s):
    async with s.sender() as sender:
        await sender.send_messages(AmqpAnnotatedMessage(data_body=[b"one", b"two"]))
    received = await s.drain()
    same("the sections", [list(message.body) for message in received], [[b"one", b"two"]])


@scenario(queue())
async def body_of_a_value(s):
    value = {b"number": 7, b"text": b"text", b"list": [1, 2, 3]}
    async with s.sender() as sender:
        await sender.send_messages(AmqpAnnotatedMessage(value_body=value))
    async with s.receiver() as receiver:
        message = await one(receiver)
        same("the kind", message.body_type, AmqpMessageBodyType.VALUE)
        same("the value", message.body, value)
        await receiver.complete_message(message)


@scenario(queue())
async def body_of_sequences(s):
    sequences = [[1, b"two", 3.5], [True, None]]
    async with s.sender() as sender:
        await sender.send_messages(AmqpAnnotatedMessage(sequence_body=sequences))
    async with s.receiver() as receiver:
        message = await one(receiver)
        same("the kind", message.body_type, AmqpMessageBodyType.SEQUENCE)
        same("the sequences", [list(part) for part in message.body], sequences)
        await receiver.complete_message(message)


@scenario(queue())
async def annotated_message(s):
    sent = AmqpAnnotatedMessage(
        data_body=b"data",
        header=AmqpMessageHeader(priority=7, durable=True),
        properties=AmqpMessageProperties(message_id="annotated", subject="subject", group_sequence=3, user_id=b"user"),
        application_properties={"a": 1},
        annotations={"x-own": "annotation"},
        footer={"x-footer": "footer"},
    )
    async with s.sender() as sender:
        await sender.send_messages(sent)
    (message,) = await s.drain()
    raw = message.raw_amqp_message
    same("the id", message.message_id, "annotated")
    same("the priority", raw.header.priority, 7)
    same("the group sequence", raw.properties.group_sequence, 3)
    same("the user", raw.properties.user_id, b"user")
    same("the annotation", raw.annotations[b"x-own"], b"annotation")
    same("the footer", raw.footer[b"x-footer"], b"footer")


@scenario(queue())
async def system_properties(s):
    sent = {
        "message_id": "id",
        "correlation_id": "correlation",
        "subject": "subject",
        "content_type": "application/json",
        "to": "to",
        "reply_to": "reply",
        "reply_to_session_id": "reply session",
        "partition_key": "key",
    }
    await s.send(ServiceBusMessage(b"{}", **sent))
    (message,) = await s.drain()
    same("the properties", {name: getattr(message, name) for name in sent}, sent)


@scenario(queue())
async def application_properties_of_each_type(s):
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    key = uuid.uuid4()
    sent = {
        "text": "\u00fc text",
        "empty": "",
        "int": 7,
        "negative": -7,
        "float": 1.5,
        "true": True,
        "false": False,
        "uuid": key,
        "at": at,
        "null": None,
    }
    await s.send(ServiceBusMessage("1", application_properties=sent))
    (message,) = await s.drain()
    got = {name.decode(): value for name, value in message.application_properties.items()}
    for name in ["text", "empty"]:
        got[name] = got[name].decode()
    # The client decodes a timestamp as milliseconds.
    got["at"] = datetime.datetime.fromtimestamp(got["at"] / 1_000, datetime.timezone.utc)
    same("the properties", got, sent)


@scenario(queue())
async def what_the_server_adds(s):
    before = utc_now()
    await s.send("1", "2")
    async with s.receiver() as receiver:
        messages = await several(receiver, 2)
        numbers = [message.sequence_number for message in messages]
        same("the numbers", numbers, [1, 2])
        for message in messages:
            same("the delivery count", message.delivery_count, 0)
            same("the state", message.state, ServiceBusMessageState.ACTIVE)
            same("it has a lock token", isinstance(message.lock_token, uuid.UUID), True)
            # Clocks of the client and of the server have one source here.
            same("it was enqueued now", before - seconds(2) < message.enqueued_time_utc < utc_now() + seconds(2), True)
            same("the lock ends later", message.locked_until_utc > message.enqueued_time_utc, True)
            await receiver.complete_message(message)


@scenario(queue())
async def message_without_an_id_gets_one(s):
    await s.send("1", "2")
    received = await s.drain(count=2)
    same("both have an id", all(message.message_id for message in received), True)
    same("the ids are different", len({message.message_id for message in received}), 2)


@scenario(queue())
async def received_message_is_sent_again(s):
    await s.send(ServiceBusMessage("again", application_properties={"n": 1}))
    async with s.receiver() as receiver, s.sender() as sender:
        message = await one(receiver)
        await sender.send_messages(message)
        await receiver.complete_message(message)
        copy = await one(receiver)
        same("the copy", [body(copy), copy.application_properties], ["again", {b"n": 1}])
        same("the number", copy.sequence_number, 2)
        await receiver.complete_message(copy)


@scenario(queue())
async def two_senders_at_once(s):
    async def send(name):
        await s.send(*[f"{name} {i}" for i in range(10)])

    await together(lambda: send("a"), lambda: send("b"))
    received = bodies(await s.drain(count=20))
    for name in "ab":
        same(f"the order of {name}", [text for text in received if text[0] == name], [f"{name} {i}" for i in range(10)])


@scenario(queue(), queue())
async def two_queues_on_one_client(s):
    async with s.client() as client:
        for name in s.names:
            async with client.get_queue_sender(name) as sender:
                await sender.send_messages(ServiceBusMessage(name))
    for name in s.names:
        same("the bodies", bodies(await s.drain(name)), [name])


@scenario(queue(RequiresDuplicateDetection=True, DuplicateDetectionHistoryTimeWindow="PT1M"))
async def duplicates_are_dropped(s):
    await s.send(*[ServiceBusMessage(str(i), message_id="same") for i in range(3)], ServiceBusMessage("other", message_id="other"))
    same("the bodies", bodies(await s.drain(count=2)), ["0", "other"])


@scenario(queue())
async def schedule_and_receive(s):
    async with s.sender() as sender, s.receiver() as receiver:
        # Far enough for a busy machine to see it scheduled.
        at = utc_now() + seconds(20)
        (number,) = await sender.schedule_messages(ServiceBusMessage("later"), at)
        await nothing(receiver)
        (peeked,) = await receiver.peek_messages()
        same("the state", peeked.state, ServiceBusMessageState.SCHEDULED)
        same("the number", peeked.sequence_number, number)
        message = await one(receiver, wait=30)
        same("the body", body(message), "later")
        same("it was not early", utc_now() >= at, True)
        await receiver.complete_message(message)


@scenario(queue())
async def schedule_several(s):
    async with s.sender() as sender:
        at = utc_now() + seconds(2)
        numbers = await sender.schedule_messages([ServiceBusMessage(str(i)) for i in range(5)], at)
        same("the number of numbers", len(set(numbers)), 5)
    same("the bodies", sorted(bodies(await s.drain(count=5))), [str(i) for i in range(5)])


@scenario(queue())
async def schedule_by_property(s):
    at = utc_now() + seconds(2)
    await s.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=at))
    async with s.receiver() as receiver:
        message = await one(receiver)
        same("it was not early", utc_now() >= at - seconds(0.01), True)
        same("the time", abs(message.scheduled_enqueue_time_utc - at) < seconds(0.01), True)
        await receiver.complete_message(message)


@scenario(queue())
async def cancel_scheduled(s):
    async with s.sender() as sender, s.receiver() as receiver:
        numbers = await sender.schedule_messages([ServiceBusMessage(str(i)) for i in range(3)], utc_now() + seconds(8))
        await sender.cancel_scheduled_messages(numbers[1])
        same("the rest", bodies(await several(receiver, 2)), ["0", "2"])
        await nothing(receiver)


@scenario(queue())
async def cancel_several_scheduled(s):
    async with s.sender() as sender, s.receiver() as receiver:
        numbers = await sender.schedule_messages([ServiceBusMessage(str(i)) for i in range(3)], utc_now() + seconds(60))
        await sender.cancel_scheduled_messages(numbers)
        same("the peeked", await receiver.peek_messages(max_message_count=10), [])


@scenario(queue())
async def cancel_unknown_number(s):
    async with s.sender() as sender:
        await refused(errors.MessageNotFoundError, lambda: sender.cancel_scheduled_messages(12_345))


@scenario(queue())
async def schedule_in_the_past(s):
    async with s.sender() as sender:
        await sender.schedule_messages(ServiceBusMessage("past"), utc_now() - seconds(60))
    same("the bodies", bodies(await s.drain()), ["past"])


@scenario(queue())
async def time_to_live_ends(s):
    await s.send(ServiceBusMessage("short", time_to_live=seconds(1)), ServiceBusMessage("long", time_to_live=seconds(600)))
    await pause(2)
    (message,) = await s.drain()
    same("the body", body(message), "long")
    same("the time to live", message.time_to_live, seconds(600))
    same("it expires", message.expires_at_utc, message.enqueued_time_utc + seconds(600))


@scenario(queue(DefaultMessageTimeToLive="PT1S", DeadLetteringOnMessageExpiration=True))
async def expired_is_dead_lettered(s):
    await s.send("expired")
    await pause(2)
    async with s.receiver() as receiver:
        await nothing(receiver)
    async with s.receiver(sub_queue=DEAD_LETTER) as receiver:
        message = await one(receiver)
        same("the reason", message.dead_letter_reason, "TTLExpiredException")
        await receiver.complete_message(message)


@scenario(queue(ForwardTo="@1"), queue())
async def forward_to(s):
    await s.send("forwarded")
    same("the bodies", bodies(await s.drain(s.names[1])), ["forwarded"])
