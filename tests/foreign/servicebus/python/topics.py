"""Topics, subscriptions and the filters of their rules."""


def sql(expression, action=None):
    """A rule of an SQL expression."""
    filters = {"FilterType": "Sql", "SqlFilter": {"SqlExpression": expression}}
    return rule("sql", **filters, **({"Action": {"SqlExpression": action}} if action else {}))


def correlation(**fields):
    """A rule of a correlation filter."""
    return rule("correlation", FilterType="Correlation", CorrelationFilter=fields)


def with_properties(text, **properties):
    """A message with application properties."""
    return ServiceBusMessage(text, application_properties=properties)


async def expect(s, subscription, *expected):
    """Completes what a subscription has."""
    async with s.subscription(subscription) as receiver:
        same(f"the bodies of {subscription}", bodies(await take(receiver, len(expected))), list(expected))


@scenario(topic(subscription("a"), subscription("b")))
async def each_subscription_gets_a_copy(s):
    await s.publish("1", "2")
    await expect(s, "a", "1", "2")
    await expect(s, "b", "1", "2")


@scenario(topic(subscription("a")))
async def batch_to_a_topic(s):
    async with s.client() as client, client.get_topic_sender(s.name) as sender:
        batch = await sender.create_message_batch()
        for i in range(10):
            batch.add_message(ServiceBusMessage(str(i)))
        await sender.send_messages(batch)
    await expect(s, "a", *map(str, range(10)))


@scenario(topic(subscription("a")))
async def schedule_to_a_topic(s):
    async with s.client() as client, client.get_topic_sender(s.name) as sender:
        numbers = await sender.schedule_messages([ServiceBusMessage("1"), ServiceBusMessage("2")], utc_now() + seconds(8))
        await sender.cancel_scheduled_messages(numbers[0])
    await expect(s, "a", "2")


@scenario(topic(subscription("large", sql("size > 10")), subscription("all")))
async def sql_filter_compares(s):
    await s.publish(with_properties("small", size=3), with_properties("large", size=30), "none")
    await expect(s, "large", "large")
    await expect(s, "all", "small", "large", "none")


@scenario(topic(subscription("a", sql("color IN ('red', 'blue') AND NOT shape LIKE 'sq%'"))))
async def sql_filter_of_texts(s):
    await s.publish(
        with_properties("1", color="red", shape="circle"),
        with_properties("2", color="red", shape="square"),
        with_properties("3", color="green", shape="circle"),
    )
    await expect(s, "a", "1")


@scenario(topic(subscription("a", sql("sys.Label = 'important' OR sys.CorrelationId = 'c'"))))
async def sql_filter_of_system_properties(s):
    await s.publish(
        ServiceBusMessage("1", subject="important"),
        ServiceBusMessage("2", correlation_id="c"),
        ServiceBusMessage("3", subject="other"),
    )
    await expect(s, "a", "1", "2")


@scenario(topic(subscription("a", sql("EXISTS(n) AND n IS NOT NULL"))))
async def sql_filter_of_existence(s):
    await s.publish(with_properties("1", n=1), with_properties("2", m=1))
    await expect(s, "a", "1")


@scenario(topic(subscription("a", sql("n = 1", "SET seen = TRUE; SET sys.Label = 'changed'; REMOVE old"))))
async def sql_action_changes_the_copy(s):
    await s.publish(with_properties("1", n=1, old="old"))
    async with s.subscription("a") as receiver:
        message = await one(receiver)
        same("the properties", message.application_properties, {b"RuleName": b"sql", b"n": 1, b"seen": True})
        same("the subject", message.subject, "changed")
        await receiver.complete_message(message)


@scenario(topic(subscription("none", sql("1 = 0")), subscription("all", sql("1 = 1"))))
async def true_and_false_filters(s):
    await s.publish("1")
    await expect(s, "all", "1")
    async with s.subscription("none") as receiver:
        await nothing(receiver)


@scenario(topic(subscription("a", correlation(Properties={"color": "red", "shape": "circle"}))))
async def correlation_filter_of_properties(s):
    await s.publish(
        with_properties("1", color="red", shape="circle"),
        with_properties("2", color="red", shape="square"),
        with_properties("3", color="red"),
    )
    await expect(s, "a", "1")


@scenario(topic(subscription("a", correlation(CorrelationId="c", Label="l", ContentType="text/plain"))))
async def correlation_filter_of_fields(s):
    fields = {"correlation_id": "c", "subject": "l", "content_type": "text/plain"}
    await s.publish(ServiceBusMessage("1", **fields), ServiceBusMessage("2", **{**fields, "subject": "other"}))
    await expect(s, "a", "1")


@scenario(topic(subscription("a", correlation(To="t", ReplyTo="r", MessageId="m", SessionId="s", ReplyToSessionId="rs"))))
async def correlation_filter_of_addresses(s):
    fields = {"to": "t", "reply_to": "r", "message_id": "m", "session_id": "s", "reply_to_session_id": "rs"}
    await s.publish(ServiceBusMessage("1", **fields), ServiceBusMessage("2", **{**fields, "to": "other"}))
    await expect(s, "a", "1")


@scenario(topic(subscription("a")))
async def settle_on_a_subscription(s):
    await s.publish("complete", "abandon", "defer", "dead")
    async with s.subscription("a") as receiver:
        complete, abandon, defer, dead = await several(receiver, 4)
        await receiver.complete_message(complete)
        await receiver.defer_message(defer)
        await receiver.dead_letter_message(dead, reason="reason")
        await receiver.abandon_message(abandon)
        again = await one(receiver)
        same("the abandoned", [body(again), again.delivery_count], ["abandon", 1])
        await receiver.complete_message(again)
        (deferred,) = await receiver.receive_deferred_messages(defer.sequence_number)
        await receiver.complete_message(deferred)
    async with s.subscription("a", sub_queue=DEAD_LETTER) as receiver:
        message = await one(receiver)
        same("the reason", message.dead_letter_reason, "reason")
        await receiver.complete_message(message)


@scenario(topic(subscription("a")))
async def peek_and_renew_on_a_subscription(s):
    await s.publish("1")
    async with s.subscription("a") as receiver:
        same("the peeked", bodies(await receiver.peek_messages()), ["1"])
        message = await one(receiver)
        await receiver.renew_message_lock(message)
        await receiver.complete_message(message)


@scenario(topic(subscription("a", RequiresSession=True)))
async def sessions_of_a_subscription(s):
    await s.publish(ServiceBusMessage("1", session_id="x"), ServiceBusMessage("2", session_id="y"))
    async with s.subscription("a", session_id="y") as receiver:
        message = await one(receiver)
        same("the body", body(message), "2")
        await receiver.session.set_state(b"state")
        same("the state", await receiver.session.get_state(), b"state")
        await receiver.complete_message(message)
    async with s.subscription("a", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as receiver:
        same("the session", receiver.session.session_id in ["x", "y"], True)


@scenario(topic(subscription("a", ForwardTo="@1")), queue())
async def subscription_forwards(s):
    await s.publish("1")
    same("the bodies", bodies(await s.drain(s.names[1])), ["1"])


@scenario(topic(subscription("a"), RequiresDuplicateDetection=True, DuplicateDetectionHistoryTimeWindow="PT1M"))
async def topic_drops_duplicates(s):
    await s.publish(ServiceBusMessage("1", message_id="same"), ServiceBusMessage("2", message_id="same"))
    await expect(s, "a", "1")


@scenario(topic(subscription("a")))
async def subscription_is_unknown(s):
    async def receive():
        async with s.subscription("unknown") as receiver:
            await receiver.receive_messages(max_wait_time=2)

    await refused((errors.MessagingEntityNotFoundError, errors.ServiceBusAuthenticationError), receive)
