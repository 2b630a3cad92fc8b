"""Outcomes of received messages, and their locks."""


@scenario(queue())
async def complete(s):
    await s.send("1")
    async with s.receiver() as receiver:
        await receiver.complete_message(await one(receiver))
        await nothing(receiver)
        same("the peeked", await receiver.peek_messages(), [])


@scenario(queue())
async def complete_in_any_order(s):
    await s.send(*map(str, range(5)))
    async with s.receiver() as receiver:
        messages = await several(receiver, 5)
        for i in [3, 0, 4, 1, 2]:
            await receiver.complete_message(messages[i])
        same("the peeked", await receiver.peek_messages(), [])


@scenario(queue())
async def complete_twice(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        await receiver.complete_message(message)
        await refused(errors.MessageAlreadySettled, lambda: receiver.complete_message(message))


@scenario(queue(MaxDeliveryCount=10))
async def abandon(s):
    await s.send("1")
    async with s.receiver() as receiver:
        for count in range(3):
            message = await one(receiver)
            same("the delivery count", message.delivery_count, count)
            await receiver.abandon_message(message)
        message = await one(receiver)
        same("the delivery count", message.delivery_count, 3)
        await receiver.complete_message(message)


@scenario(queue())
async def abandoned_is_first_again(s):
    await s.send("1", "2")
    async with s.receiver() as receiver:
        await receiver.abandon_message(await one(receiver))
        same("the bodies", bodies(await several(receiver, 2)), ["1", "2"])


@scenario(queue(MaxDeliveryCount=3))
async def delivery_count_is_exceeded(s):
    await s.send("poison")
    async with s.receiver() as receiver:
        for _ in range(3):
            await receiver.abandon_message(await one(receiver))
        await nothing(receiver)
    async with s.receiver(sub_queue=DEAD_LETTER) as receiver:
        message = await one(receiver)
        same("the reason", message.dead_letter_reason, "MaxDeliveryCountExceeded")
        same("it is described", bool(message.dead_letter_error_description), True)
        await receiver.complete_message(message)


@scenario(queue())
async def defer_and_receive(s):
    await s.send("1", "2", "3")
    async with s.receiver() as receiver:
        messages = await several(receiver, 3)
        for message in messages:
            await receiver.defer_message(message)
        await nothing(receiver)
        numbers = [message.sequence_number for message in messages]
        deferred = await receiver.receive_deferred_messages(numbers[:2])
        same("the bodies", bodies(deferred), ["1", "2"])
        for message in deferred:
            same("the state", message.state, ServiceBusMessageState.DEFERRED)
            await receiver.complete_message(message)
        (last,) = await receiver.receive_deferred_messages(numbers[2])
        await receiver.complete_message(last)
        same("the peeked", await receiver.peek_messages(), [])


@scenario(queue())
async def deferred_is_received_and_deleted(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        await receiver.defer_message(message)
    async with s.receiver(receive_mode=RECEIVE_AND_DELETE) as receiver:
        (deferred,) = await receiver.receive_deferred_messages(message.sequence_number)
        same("the body", body(deferred), "1")
        await refused(errors.MessageNotFoundError, lambda: receiver.receive_deferred_messages(message.sequence_number))


@scenario(queue())
async def deferred_is_abandoned(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        await receiver.defer_message(message)
        (deferred,) = await receiver.receive_deferred_messages(message.sequence_number)
        await receiver.abandon_message(deferred)
        (deferred,) = await receiver.receive_deferred_messages(message.sequence_number)
        await receiver.complete_message(deferred)


@scenario(queue())
async def deferred_is_dead_lettered(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        await receiver.defer_message(message)
        (deferred,) = await receiver.receive_deferred_messages(message.sequence_number)
        await receiver.dead_letter_message(deferred, reason="late")
    async with s.receiver(sub_queue=DEAD_LETTER) as receiver:
        dead = await one(receiver)
        same("the reason", dead.dead_letter_reason, "late")
        await receiver.complete_message(dead)


@scenario(queue())
async def deferred_is_renewed(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        await receiver.defer_message(message)
        (deferred,) = await receiver.receive_deferred_messages(message.sequence_number)
        before = deferred.locked_until_utc
        await pause(0.2)
        same("the lock ends later", await receiver.renew_message_lock(deferred) > before, True)
        await receiver.complete_message(deferred)


@scenario(queue())
async def deferred_number_is_unknown(s):
    async with s.receiver() as receiver:
        await refused(errors.MessageNotFoundError, lambda: receiver.receive_deferred_messages([12_345]))


@scenario(queue())
async def dead_letter(s):
    await s.send(ServiceBusMessage("1", application_properties={"own": "kept"}))
    async with s.receiver() as receiver:
        message = await one(receiver)
        await receiver.dead_letter_message(message, reason="reason", error_description="description")
        await nothing(receiver)
    async with s.receiver(sub_queue=DEAD_LETTER) as receiver:
        dead = await one(receiver)
        same("the body", body(dead), "1")
        same("the reason", [dead.dead_letter_reason, dead.dead_letter_error_description], ["reason", "description"])
        same("the property", dead.application_properties[b"own"], b"kept")
        await receiver.complete_message(dead)
        await nothing(receiver)


@scenario(queue())
async def dead_letter_without_a_reason(s):
    await s.send("1")
    async with s.receiver() as receiver:
        await receiver.dead_letter_message(await one(receiver))
    same("the bodies", bodies(await s.drain(sub_queue=DEAD_LETTER)), ["1"])


@scenario(queue())
async def dead_letter_of_several(s):
    await s.send(*map(str, range(5)))
    async with s.receiver() as receiver:
        for message in await several(receiver, 5):
            await receiver.dead_letter_message(message, reason=body(message))
    dead = await s.drain(count=5, sub_queue=DEAD_LETTER)
    same("the reasons", [message.dead_letter_reason for message in dead], [str(i) for i in range(5)])


@scenario(queue())
async def dead_letter_is_abandoned_and_resubmitted(s):
    await s.send("1")
    async with s.receiver() as receiver:
        await receiver.dead_letter_message(await one(receiver), reason="reason")
    async with s.receiver(sub_queue=DEAD_LETTER) as dead_letters, s.sender() as sender:
        await dead_letters.abandon_message(await one(dead_letters))
        message = await one(dead_letters)
        await sender.send_messages(ServiceBusMessage(body(message)))
        await dead_letters.complete_message(message)
    same("the bodies", bodies(await s.drain()), ["1"])


@scenario(queue(ForwardDeadLetteredMessagesTo="@1"), queue())
async def dead_letters_are_forwarded(s):
    await s.send("1")
    async with s.receiver() as receiver:
        await receiver.dead_letter_message(await one(receiver), reason="reason")
    (message,) = await s.drain(s.names[1])
    same("the reason", message.dead_letter_reason, "reason")
    same("the source", message.dead_letter_source, s.name)


@scenario(queue())
async def renew_lock(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        before = message.locked_until_utc
        await pause(0.2)
        until = await receiver.renew_message_lock(message)
        same("the lock ends later", until > before, True)
        same("the message has it", message.locked_until_utc, until)
        await receiver.complete_message(message)


@scenario(queue(LockDuration="PT5S"))
async def lock_is_kept_by_renewals(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        for _ in range(5):
            await pause(1.3)
            await receiver.renew_message_lock(message)
        await receiver.complete_message(message)
        same("the peeked", await receiver.peek_messages(), [])


@scenario(queue(LockDuration="PT5S"))
async def lock_is_lost(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
        await pause(5.5)
        await refused(errors.MessageLockLostError, lambda: receiver.complete_message(message))
        await refused(errors.MessageLockLostError, lambda: receiver.renew_message_lock(message))
        again = await one(receiver)
        same("the delivery count", again.delivery_count, 1)
        await receiver.complete_message(again)


@scenario(queue(LockDuration="PT5S"))
async def lost_lock_reaches_another_receiver(s):
    await s.send("1")
    async with s.receiver() as first, s.receiver() as second:
        await one(first)
        again = await one(second)
        same("the delivery count", again.delivery_count, 1)
        await second.complete_message(again)


@scenario(queue(LockDuration="PT5S"))
async def automatic_renewal(s):
    await s.send("1")
    async with AutoLockRenewer() as renewer, s.receiver() as receiver:
        message = await one(receiver)
        renewer.register(receiver, message, max_lock_renewal_duration=60)
        await pause(8)
        await receiver.complete_message(message)
        same("the error", message.auto_renew_error, None)


@scenario(queue(LockDuration="PT5S"))
async def automatic_renewal_of_a_receiver(s):
    await s.send("1", "2")
    async with AutoLockRenewer(max_lock_renewal_duration=60) as renewer:
        async with s.receiver(auto_lock_renewer=renewer) as receiver:
            messages = await several(receiver, 2)
            await pause(8)
            for message in messages:
                await receiver.complete_message(message)
            await nothing(receiver)


@scenario(queue())
async def settle_after_the_receiver_is_closed(s):
    await s.send("1")
    async with s.receiver() as receiver:
        message = await one(receiver)
    await refused(ValueError, lambda: receiver.complete_message(message))
    same("the bodies", bodies(await s.drain()), ["1"])


@scenario(queue())
async def closed_receiver_releases_without_a_count(s):
    await s.send("1")
    async with s.receiver() as receiver:
        await one(receiver)
    (message,) = await s.drain()
    same("the delivery count", message.delivery_count, 0)
