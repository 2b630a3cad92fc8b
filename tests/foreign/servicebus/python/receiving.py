"""Ways to receive and to peek."""


@scenario(queue())
async def receive_from_empty_queue(s):
    async with s.receiver() as receiver:
        await nothing(receiver)


@scenario(queue())
async def receive_waits_for_a_message(s):
    async def later():
        await pause(1.5)
        await s.send("later")

    async def now():
        async with s.receiver() as receiver:
            message = await one(receiver)
            await receiver.complete_message(message)
            return body(message)

    same("the body", (await together(now, later))[0], "later")


@scenario(queue())
async def receive_fewer_than_there_are(s):
    await s.send(*map(str, range(5)))
    async with s.receiver() as receiver:
        messages = await several(receiver, 2)
        same("the bodies", bodies(messages), ["0", "1"])
        for message in messages:
            await receiver.complete_message(message)
    same("the rest", bodies(await s.drain(count=3)), ["2", "3", "4"])


@scenario(queue())
async def receive_in_a_loop(s):
    await s.send(*map(str, range(10)))
    seen = []
    async with s.receiver(max_wait_time=WAIT) as receiver:
        async for message in receiver:
            seen.append(body(message))
            await receiver.complete_message(message)
    same("the bodies", seen, [str(i) for i in range(10)])


@scenario(queue())
async def receive_and_delete(s):
    await s.send("1", "2", "3")
    async with s.receiver(receive_mode=RECEIVE_AND_DELETE) as receiver:
        messages = await several(receiver, 3)
        same("the bodies", bodies(messages), ["1", "2", "3"])
        await refused(ValueError, lambda: receiver.complete_message(messages[0]))
    async with s.receiver() as receiver:
        await nothing(receiver)


@scenario(queue())
async def receive_and_delete_in_a_loop(s):
    await s.send(*map(str, range(10)))
    seen = []
    async with s.receiver(receive_mode=RECEIVE_AND_DELETE, max_wait_time=WAIT) as receiver:
        async for message in receiver:
            seen.append(body(message))
    same("the bodies", seen, [str(i) for i in range(10)])


@scenario(queue())
async def prefetch(s):
    await s.send(*map(str, range(20)))
    async with s.receiver(prefetch_count=10) as receiver:
        seen = await several(receiver, 20)
        for message in seen:
            await receiver.complete_message(message)
    same("the bodies", bodies(seen), [str(i) for i in range(20)])
    async with s.receiver() as receiver:
        await nothing(receiver)


@scenario(queue())
async def prefetched_messages_return_at_close(s):
    await s.send(*map(str, range(5)))
    async with s.receiver(prefetch_count=5) as receiver:
        message = await one(receiver)
        await receiver.complete_message(message)
    same("the rest", bodies(await s.drain(count=4)), ["1", "2", "3", "4"])


@scenario(queue())
async def two_receivers_get_different_messages(s):
    await s.send("1", "2")
    async with s.receiver() as first, s.receiver() as second:
        a, b = await one(first), await one(second)
        same("the bodies", sorted(bodies([a, b])), ["1", "2"])
        await first.complete_message(a)
        await second.complete_message(b)


@scenario(queue())
async def many_messages(s):
    async with s.sender() as sender:
        for part in range(10):
            await sender.send_messages([ServiceBusMessage(str(part * 50 + i)) for i in range(50)])
    async with s.receiver(prefetch_count=100) as receiver:
        seen = await several(receiver, 500)
        for message in seen:
            await receiver.complete_message(message)
    same("the bodies", bodies(seen), [str(i) for i in range(500)])


@scenario(queue())
async def peek_does_not_lock(s):
    await s.send("1", "2", "3")
    async with s.receiver() as receiver:
        peeked = await receiver.peek_messages(max_message_count=10)
        same("the peeked", bodies(peeked), ["1", "2", "3"])
        same("the delivery counts", [message.delivery_count for message in peeked], [0, 0, 0])
        same("the received", bodies(await several(receiver, 3)), ["1", "2", "3"])


@scenario(queue())
async def peek_from_a_number(s):
    await s.send(*map(str, range(5)))
    async with s.receiver() as receiver:
        same("the peeked", bodies(await receiver.peek_messages(2, sequence_number=3)), ["2", "3"])


@scenario(queue())
async def peek_empty_queue(s):
    async with s.receiver() as receiver:
        same("the peeked", await receiver.peek_messages(), [])


@scenario(queue())
async def peek_continues_after_the_last(s):
    await s.send(*map(str, range(4)))
    async with s.receiver() as receiver:
        first = await receiver.peek_messages(2)
        rest = await receiver.peek_messages(10, sequence_number=first[-1].sequence_number + 1)
        same("the peeked", bodies(first) + bodies(rest), ["0", "1", "2", "3"])


@scenario(queue())
async def peek_locked_and_deferred(s):
    await s.send("locked", "deferred")
    async with s.receiver() as receiver:
        locked, deferred = await several(receiver, 2)
        await receiver.defer_message(deferred)
        # Without a number the client peeks from the last message that it received.
        peeked = await receiver.peek_messages(10, sequence_number=1)
        same("the bodies", bodies(peeked), ["locked", "deferred"])
        same("the states", [m.state for m in peeked], [ServiceBusMessageState.ACTIVE, ServiceBusMessageState.DEFERRED])
        await receiver.complete_message(locked)


@scenario(queue())
async def peek_dead_letters(s):
    await s.send("dead")
    async with s.receiver() as receiver:
        await receiver.dead_letter_message(await one(receiver), reason="reason", error_description="description")
    async with s.receiver(sub_queue=DEAD_LETTER) as receiver:
        (peeked,) = await receiver.peek_messages()
        same("the reason", [peeked.dead_letter_reason, peeked.dead_letter_error_description], ["reason", "description"])


@scenario(queue())
async def peek_large(s):
    await s.send(*[ServiceBusMessage(b"x" * 100_000) for _ in range(3)])
    async with s.receiver() as receiver:
        peeked = await receiver.peek_messages(10)
        same("the sizes", [len(body(message)) for message in peeked], [100_000] * len(peeked))
        same("some were peeked", len(peeked) >= 1, True)


@scenario(queue())
async def receiver_goes_on_after_a_pause(s):
    async with s.receiver() as receiver:
        await nothing(receiver)
        await s.send("1")
        await receiver.complete_message(await one(receiver))
        await nothing(receiver)
        await s.send("2")
        message = await one(receiver)
        same("the body", body(message), "2")
        await receiver.complete_message(message)
