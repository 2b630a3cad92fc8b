"""Sessions, their order, their locks and their state."""

SESSIONS = {"RequiresSession": True}


def in_session(session, *texts):
    """Messages of a session."""
    return [ServiceBusMessage(text, session_id=session) for text in texts]


@scenario(queue(**SESSIONS))
async def named_session(s):
    await s.send(*in_session("a", "1", "2"), *in_session("b", "3"))
    async with s.receiver(session_id="a") as receiver:
        same("the session", receiver.session.session_id, "a")
        messages = await several(receiver, 2)
        same("the bodies", bodies(messages), ["1", "2"])
        same("the sessions", [message.session_id for message in messages], ["a", "a"])
        for message in messages:
            await receiver.complete_message(message)
        await nothing(receiver)


@scenario(queue(**SESSIONS))
async def next_session(s):
    await s.send(*in_session("a", "1"), *in_session("b", "2"))
    seen = {}
    for _ in range(2):
        async with s.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as receiver:
            message = await one(receiver)
            seen[receiver.session.session_id] = body(message)
            await receiver.complete_message(message)
    same("the sessions", seen, {"a": "1", "b": "2"})


@scenario(queue(**SESSIONS))
async def next_session_times_out(s):
    async def accept():
        async with s.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2):
            pass

    await refused(errors.OperationTimeoutError, accept)


@scenario(queue(**SESSIONS))
async def next_session_waits_for_a_message(s):
    async def later():
        await pause(1.5)
        await s.send(*in_session("late", "1"))

    async def accept():
        async with s.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as receiver:
            await receiver.complete_message(await one(receiver))
            return receiver.session.session_id

    same("the session", (await together(accept, later))[0], "late")


@scenario(queue(**SESSIONS))
async def session_is_locked_by_another(s):
    await s.send(*in_session("a", "1"))

    async def accept():
        async with s.receiver(session_id="a", max_wait_time=2):
            pass

    async with s.receiver(session_id="a"):
        await refused(errors.SessionCannotBeLockedError, accept)
    await accept()


@scenario(queue(**SESSIONS))
async def empty_session_is_accepted(s):
    async with s.receiver(session_id="empty") as receiver:
        await nothing(receiver)
        await s.send(*in_session("empty", "1"))
        await receiver.complete_message(await one(receiver))


@scenario(queue(**SESSIONS))
async def session_state(s):
    async with s.receiver(session_id="a") as receiver:
        same("the state", await receiver.session.get_state(), None)
        await receiver.session.set_state(b"\x00state")
        same("the state", await receiver.session.get_state(), b"\x00state")
    async with s.receiver(session_id="a") as receiver:
        same("the state", await receiver.session.get_state(), b"\x00state")
        await receiver.session.set_state(None)
        same("the state", await receiver.session.get_state(), None)


@scenario(queue(**SESSIONS))
async def renew_session_lock(s):
    async with s.receiver(session_id="a") as receiver:
        before = receiver.session.locked_until_utc
        await pause(0.2)
        until = await receiver.session.renew_lock()
        same("the lock ends later", until > before, True)


@scenario(queue(LockDuration="PT5S", **SESSIONS))
async def session_lock_is_lost(s):
    await s.send(*in_session("a", "1"))
    async with s.receiver(session_id="a") as receiver:
        message = await one(receiver)
        await pause(6)
        await refused(errors.SessionLockLostError, lambda: receiver.complete_message(message))
    same("the bodies", bodies(await s.drain(session_id="a")), ["1"])


@scenario(queue(LockDuration="PT5S", **SESSIONS))
async def session_lock_is_kept_by_renewals(s):
    await s.send(*in_session("a", "1"))
    async with s.receiver(session_id="a") as receiver:
        message = await one(receiver)
        for _ in range(5):
            await pause(1.3)
            await receiver.session.renew_lock()
        await receiver.complete_message(message)


@scenario(queue(LockDuration="PT5S", **SESSIONS))
async def automatic_renewal_of_a_session(s):
    await s.send(*in_session("a", "1"))
    async with AutoLockRenewer() as renewer, s.receiver(session_id="a") as receiver:
        renewer.register(receiver, receiver.session, max_lock_renewal_duration=60)
        message = await one(receiver)
        await pause(8)
        await receiver.complete_message(message)
        same("the error", receiver.session.auto_renew_error, None)


@scenario(queue(**SESSIONS))
async def send_without_a_session(s):
    async with s.sender() as sender:
        await refused(errors.ServiceBusError, lambda: sender.send_messages(ServiceBusMessage("1")))


@scenario(queue(**SESSIONS))
async def receiver_without_a_session(s):
    async def receive():
        async with s.receiver() as receiver:
            await receiver.receive_messages(max_wait_time=2)

    await refused(errors.ServiceBusError, receive)


@scenario(queue())
async def session_of_a_plain_queue(s):
    async def accept():
        async with s.receiver(session_id="a") as receiver:
            await receiver.receive_messages(max_wait_time=2)

    await refused(errors.ServiceBusError, accept)


@scenario(queue(**SESSIONS))
async def defer_in_a_session(s):
    await s.send(*in_session("a", "1"))
    async with s.receiver(session_id="a") as receiver:
        message = await one(receiver)
        await receiver.defer_message(message)
        (deferred,) = await receiver.receive_deferred_messages(message.sequence_number)
        same("the body", body(deferred), "1")
        await receiver.complete_message(deferred)


@scenario(queue(**SESSIONS))
async def dead_letter_in_a_session(s):
    await s.send(*in_session("a", "1"))
    async with s.receiver(session_id="a") as receiver:
        await receiver.dead_letter_message(await one(receiver), reason="reason")
    async with s.receiver(sub_queue=DEAD_LETTER) as receiver:
        dead = await one(receiver)
        same("the message", [dead.session_id, dead.dead_letter_reason], ["a", "reason"])
        await receiver.complete_message(dead)


@scenario(queue(**SESSIONS))
async def abandon_in_a_session(s):
    await s.send(*in_session("a", "1", "2"))
    async with s.receiver(session_id="a") as receiver:
        await receiver.abandon_message(await one(receiver))
        messages = await several(receiver, 2)
        same("the bodies", bodies(messages), ["1", "2"])
        same("the counts", [message.delivery_count for message in messages], [1, 0])


@scenario(queue(**SESSIONS))
async def peek_in_a_session(s):
    await s.send(*in_session("a", "1"), *in_session("b", "2"), *in_session("a", "3"))
    async with s.receiver(session_id="a") as receiver:
        same("the peeked", bodies(await receiver.peek_messages(10)), ["1", "3"])


@scenario(queue(**SESSIONS))
async def schedule_in_a_session(s):
    async with s.sender() as sender:
        await sender.schedule_messages(in_session("a", "1", "2"), utc_now() + seconds(2))
    same("the bodies", bodies(await s.drain(count=2, session_id="a")), ["1", "2"])


@scenario(queue(**SESSIONS))
async def batch_in_a_session(s):
    async with s.sender() as sender:
        await sender.send_messages(in_session("a", *map(str, range(10))))
    same("the bodies", bodies(await s.drain(count=10, session_id="a")), [str(i) for i in range(10)])


@scenario(queue(**SESSIONS))
async def receive_and_delete_in_a_session(s):
    await s.send(*in_session("a", "1", "2"))
    async with s.receiver(session_id="a", receive_mode=RECEIVE_AND_DELETE) as receiver:
        same("the bodies", bodies(await several(receiver, 2)), ["1", "2"])
    async with s.receiver(session_id="a") as receiver:
        await nothing(receiver)


@scenario(queue(**SESSIONS))
async def closed_session_is_available_again(s):
    await s.send(*in_session("a", "1"))
    for count in range(2):
        async with s.receiver(session_id="a") as receiver:
            message = await one(receiver)
            same("the delivery count", message.delivery_count, 0)
    same("the bodies", bodies(await s.drain(session_id="a")), ["1"])


@scenario(queue(**SESSIONS))
async def list_sessions(s):
    await s.send(*in_session("a", "1"), *in_session("b", "2"))
    async with s.receiver(session_id="c") as receiver:
        await receiver.session.set_state(b"state")
    async with s.client() as client:
        if not hasattr(client, "list_queue_sessions"):
            raise Missing("this version of the client lists no sessions")
        found = [name async for name in client.list_queue_sessions(s.name)]
    same("the sessions", sorted(found), ["a", "b", "c"])


@scenario(queue(**SESSIONS))
async def list_sessions_by_time_of_state(s):
    await s.send(*in_session("a", "1"))
    before = utc_now() - seconds(60)
    async with s.receiver(session_id="c") as receiver:
        await receiver.session.set_state(b"state")
    async with s.client() as client:
        if not hasattr(client, "list_queue_sessions"):
            raise Missing("this version of the client lists no sessions")
        found = [name async for name in client.list_queue_sessions(s.name, state_updated_after=before)]
    same("the sessions", found, ["c"])
