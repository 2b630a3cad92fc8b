"""The administration client, each of its operations."""

from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.aio.management import ServiceBusAdministrationClient
from azure.servicebus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)


def administration(s, connection="administration", **options):
    """A client that tries once."""
    client = ServiceBusAdministrationClient.from_connection_string(
        s.setting(connection), connection_verify=s.setting("ca"), retry_total=0, **options
    )
    return client


async def all_of(pages):
    """All of a list."""
    return [item async for item in pages]


async def names(pages):
    """The names of a list."""
    return [item.name async for item in pages]


@scenario()
async def namespace_properties(s):
    async with administration(s) as client:
        properties = await client.get_namespace_properties()
    same("the kind", (properties.messaging_sku, properties.namespace_type), ("Standard", "Messaging"))


@scenario(queue())
async def create_a_queue(s):
    name = f"{s.name}-new"
    async with administration(s) as client:
        await client.create_queue(
            name,
            lock_duration=seconds(30),
            max_delivery_count=3,
            requires_session=True,
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window=seconds(60),
            default_message_time_to_live=seconds(3600),
            dead_lettering_on_message_expiration=True,
            auto_delete_on_idle="PT10M",
            max_size_in_megabytes=2048,
            max_message_size_in_kilobytes=1024,
            forward_dead_lettered_messages_to=s.name,
        )
        created = await client.get_queue(name)
    got = (
        created.name,
        created.lock_duration,
        created.max_delivery_count,
        created.requires_session,
        created.duplicate_detection_history_time_window,
        created.default_message_time_to_live,
        created.dead_lettering_on_message_expiration,
        created.auto_delete_on_idle,
        created.max_size_in_megabytes,
        created.max_message_size_in_kilobytes,
        created.status,
    )
    expected = (name, seconds(30), 3, True, seconds(60), seconds(3600), True, seconds(600), 2048, 1024, EntityStatus.ACTIVE)
    same("the queue", got, expected)
    same("the target", created.forward_dead_lettered_messages_to.endswith(f"/{s.name}"), True)


@scenario(queue())
async def create_an_entity_that_exists(s):
    async with administration(s) as client:
        error = await refused(ResourceExistsError, lambda: client.create_queue(s.name))
        same("the status", error.status_code, 409)
        error = await refused(ResourceExistsError, lambda: client.create_topic(s.name))
        same("the status", error.status_code, 409)


@scenario(queue())
async def an_entity_that_does_not_exist(s):
    missing = f"{s.name}-missing"
    async with administration(s) as client:
        await refused(ResourceNotFoundError, lambda: client.get_queue(missing))
        await refused(ResourceNotFoundError, lambda: client.get_topic(missing))
        await refused(ResourceNotFoundError, lambda: client.get_subscription(missing, "a"))
        await refused(ResourceNotFoundError, lambda: client.get_rule(missing, "a", "b"))
        await refused(ResourceNotFoundError, lambda: client.delete_queue(missing))
        await refused(ResourceNotFoundError, lambda: client.delete_rule(missing, "a", "b"))
        known = await client.get_queue(s.name)
        known.name = missing
        await refused(ResourceNotFoundError, lambda: client.update_queue(known))


@scenario(queue())
async def a_setting_that_is_refused(s):
    async with administration(s) as client:
        error = await refused(HttpResponseError, lambda: client.create_queue(f"{s.name}-1", lock_duration=seconds(1)))
        same("the status", error.status_code, 400)
        long = "x" * 1_025
        error = await refused(HttpResponseError, lambda: client.create_queue(f"{s.name}-2", user_metadata=long))
        same("the field", "user_metadata" in str(error), True)
        await client.create_queue(f"{s.name}-2", user_metadata=long[1:])
        same("the metadata", (await client.get_queue(f"{s.name}-2")).user_metadata, long[1:])
        error = await refused(HttpResponseError, lambda: client.create_queue(f"{s.name}-3", forward_to="nothing-there"))
        same("the status", error.status_code, 400)
        error = await refused(HttpResponseError, lambda: client.create_queue("not?valid"))


@scenario(queue())
async def the_right_to_manage(s):
    async with administration(s, "administration_listen") as client:
        error = await refused(HttpResponseError, lambda: client.get_queue(s.name))
        same("the status", error.status_code, 401)
    async with administration(s, "administration_wrong_key") as client:
        await refused(HttpResponseError, lambda: client.create_queue(f"{s.name}-new"))
    async with administration(s) as client:
        await refused(ResourceNotFoundError, lambda: client.get_queue(f"{s.name}-new"))


@scenario(queue())
async def update_a_queue(s):
    async with administration(s) as client:
        before = await client.get_queue(s.name)
        before.max_delivery_count = 7
        before.lock_duration = "PT45S"
        before.status = EntityStatus.SEND_DISABLED
        await client.update_queue(before)
        after = await client.get_queue(s.name)
        same("the queue", (after.max_delivery_count, after.lock_duration, after.status), (7, seconds(45), "SendDisabled"))
        same("the rest", after.default_message_time_to_live, before.default_message_time_to_live)
        after.requires_session = True
        error = await refused(HttpResponseError, lambda: client.update_queue(after))
        same("the field", "RequiresSession" in str(error), True)


@scenario(queue())
async def delete_a_queue(s):
    async with administration(s) as client:
        await client.delete_queue(s.name)
        await refused(ResourceNotFoundError, lambda: client.get_queue(s.name))


@scenario(queue())
async def counts_of_a_queue(s):
    await s.send("1", "2", "3", "4")
    async with s.receiver() as receiver:
        await receiver.dead_letter_message(await one(receiver))
    async with s.sender() as sender:
        await sender.schedule_messages(ServiceBusMessage("5"), utc_now() + seconds(3600))
    async with administration(s) as client:
        counts = await client.get_queue_runtime_properties(s.name)
        got = (counts.active_message_count, counts.dead_letter_message_count, counts.scheduled_message_count)
        same("the counts", (got, counts.total_message_count), ((3, 1, 1), 5))
        same("the size", counts.size_in_bytes > 0, True)
        same("the times", counts.created_at_utc is not None and counts.accessed_at_utc is not None, True)
        listed = [found async for found in client.list_queues_runtime_properties() if found.name == s.name]
        same("the listed count", [found.active_message_count for found in listed], [3])


@scenario(queue(), queue(), queue())
async def list_queues(s):
    async with administration(s) as client:
        listed = await all_of(client.list_queues())
        same("the names", set(s.names) <= {found.name for found in listed}, True)
        pages = await names(client.list_queues(max_page_size=2))
        same("the names in pages of two", set(s.names) <= set(pages), True)


@scenario(topic())
async def create_and_update_a_topic(s):
    name = f"{s.name}-new"
    async with administration(s) as client:
        created = await client.create_topic(
            name, default_message_time_to_live="PT1H", requires_duplicate_detection=True, max_message_size_in_kilobytes=2048
        )
        got = (created.name, created.requires_duplicate_detection, created.max_message_size_in_kilobytes)
        same("the topic", got, (name, True, 2048))
        created.default_message_time_to_live = seconds(60)
        created.status = EntityStatus.SEND_DISABLED
        await client.update_topic(created)
        after = await client.get_topic(name)
        same("the topic", (after.default_message_time_to_live, after.status), (seconds(60), "SendDisabled"))


@scenario(topic(subscription("a"), subscription("b")))
async def counts_of_a_topic(s):
    async with administration(s) as client:
        counts = await client.get_topic_runtime_properties(s.name)
        same("the subscriptions", counts.subscription_count, 2)
        listed = [found async for found in client.list_topics_runtime_properties() if found.name == s.name]
        same("the listed subscriptions", [found.subscription_count for found in listed], [2])


@scenario(topic(), topic())
async def list_and_delete_topics(s):
    async with administration(s) as client:
        same("the names", set(s.names) <= set(await names(client.list_topics())), True)
        await client.delete_topic(s.name)
        await refused(ResourceNotFoundError, lambda: client.get_topic(s.name))


@scenario(topic(), queue())
async def create_and_update_a_subscription(s):
    async with administration(s) as client:
        created = await client.create_subscription(
            s.name,
            "new",
            lock_duration=seconds(30),
            requires_session=True,
            max_delivery_count=5,
            dead_lettering_on_filter_evaluation_exceptions=False,
            forward_dead_lettered_messages_to=s.names[1],
        )
        got = (created.name, created.lock_duration, created.requires_session, created.max_delivery_count)
        same("the subscription", got, ("new", seconds(30), True, 5))
        same("errors of filters", created.dead_lettering_on_filter_evaluation_exceptions, False)
        created.max_delivery_count = 9
        created.forward_dead_lettered_messages_to = None
        await client.update_subscription(s.name, created)
        after = await client.get_subscription(s.name, "new")
        same("the subscription", (after.max_delivery_count, after.forward_dead_lettered_messages_to), (9, None))


@scenario(topic(subscription("a"), subscription("b")))
async def list_and_delete_subscriptions(s):
    await s.publish("1", "2")
    async with administration(s) as client:
        same("the names", await names(client.list_subscriptions(s.name)), ["a", "b"])
        same("the pages", await names(client.list_subscriptions(s.name, max_page_size=1)), ["a", "b"])
        counts = await client.get_subscription_runtime_properties(s.name, "a")
        same("the counts", (counts.active_message_count, counts.total_message_count), (2, 2))
        listed = await all_of(client.list_subscriptions_runtime_properties(s.name))
        same("the listed counts", [found.active_message_count for found in listed], [2, 2])
        await client.delete_subscription(s.name, "a")
        await refused(ResourceNotFoundError, lambda: client.get_subscription(s.name, "a"))


@scenario(topic(subscription("a")))
async def rules_of_each_kind(s):
    correlation = CorrelationRuleFilter(
        correlation_id="c",
        message_id="m",
        to="t",
        reply_to="r",
        label="l",
        session_id="s",
        reply_to_session_id="rs",
        content_type="ct",
        properties={"text": "a", "int": 5, "long": 2**40, "float": 0.5, "bool": True, "time": utc_now(), "span": seconds(90)},
    )
    filters = {"sql": SqlRuleFilter("n > 5"), "true": TrueRuleFilter(), "false": FalseRuleFilter(), "correlation": correlation}
    async with administration(s) as client:
        for name, filter in filters.items():
            await client.create_rule(s.name, "a", name, filter=filter, action=SqlRuleAction("SET x = 1"))
            got = await client.get_rule(s.name, "a", name)
            same(f"the name of {name}", got.name, name)
            same(f"the type of {name}", type(got.filter), type(filter))
            same(f"the action of {name}", got.action.sql_expression, "SET x = 1")
        same("the names", sorted(await names(client.list_rules(s.name, "a"))), ["$Default", *sorted(filters)])
        same("the expression", (await client.get_rule(s.name, "a", "sql")).filter.sql_expression, "n > 5")
        got = (await client.get_rule(s.name, "a", "correlation")).filter
        texts = (got.correlation_id, got.message_id, got.to, got.reply_to, got.label, got.session_id, got.content_type)
        same("the texts", texts, ("c", "m", "t", "r", "l", "s", "ct"))
        values = {key: value for key, value in got.properties.items() if key != "time"}
        same("the properties", values, {key: value for key, value in correlation.properties.items() if key != "time"})


@scenario(topic(subscription("a")))
async def update_and_delete_rules(s):
    async with administration(s) as client:
        rule = await client.create_rule(s.name, "a", "r", filter=SqlRuleFilter("n = 1"))
        rule.filter = SqlRuleFilter("n = 2")
        await client.update_rule(s.name, "a", rule)
        same("the filter", (await client.get_rule(s.name, "a", "r")).filter.sql_expression, "n = 2")
        await client.delete_rule(s.name, "a", "$Default")
        same("the names", await names(client.list_rules(s.name, "a")), ["r"])
        error = await refused(HttpResponseError, lambda: client.create_rule(s.name, "a", "bad", filter=SqlRuleFilter("n =")))
        same("the status", error.status_code, 400)
        await client.create_rule(s.name, "a", "p", filter=SqlRuleFilter("n = @p", {"@p": 5}))
        same("the parameters", (await client.get_rule(s.name, "a", "p")).filter.parameters, {"@p": 5})
        without = SqlRuleFilter("n = @p")
        error = await refused(HttpResponseError, lambda: client.create_rule(s.name, "a", "bad", filter=without))
        same("the parameter", "@p" in str(error), True)


@scenario(queue())
async def versions_of_the_administration(s):
    for version in ["2017-04", "2021-05", "2024-05"]:
        async with administration(s, api_version=version) as client:
            same(version, (await client.get_queue(s.name)).name, s.name)
    async with administration(s, api_version="2010-01") as client:
        await refused(HttpResponseError, lambda: client.get_queue(s.name))


@scenario(queue())
async def administered_entities_are_used(s):
    name = f"{s.name}-new"
    async with administration(s) as client:
        await client.create_queue(name)
        await s.send("1", to=name)
        same("the bodies", bodies(await s.drain(name)), ["1"])
        await client.create_topic(f"{name}-topic")
        await client.create_subscription(f"{name}-topic", "a")
        await s.publish("2", to=f"{name}-topic")
        counts = await client.get_subscription_runtime_properties(f"{name}-topic", "a")
        same("the count", counts.active_message_count, 1)
