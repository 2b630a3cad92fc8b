// The administration client, each of its operations.

import { one, queue, refused, require, same, scenario, subscription, topic } from "./support.mjs";

const { ServiceBusAdministrationClient } = require("@azure/service-bus");

const administration = (s, connection = "administration", options = {}) =>
  new ServiceBusAdministrationClient(s.setting(connection), { retryOptions: { maxRetries: 0 }, ...options });

async function names(list, key = "name") {
  const found = [];
  for await (const item of list) {
    found.push(item[key]);
  }
  return found;
}

const includes = (all, some) => some.every((name) => all.includes(name));

scenario("namespace_properties", [], async (s) => {
  const properties = await administration(s).getNamespaceProperties();
  same("the kind", properties.messagingSku, "Standard");
});

scenario("create_a_queue", [queue()], async (s) => {
  const client = administration(s);
  const name = `${s.name}-new`;
  await client.createQueue(name, {
    lockDuration: "PT30S",
    maxDeliveryCount: 3,
    requiresSession: true,
    requiresDuplicateDetection: true,
    duplicateDetectionHistoryTimeWindow: "PT1M",
    defaultMessageTimeToLive: "PT1H",
    deadLetteringOnMessageExpiration: true,
    autoDeleteOnIdle: "PT10M",
    maxSizeInMegabytes: 2048,
    maxMessageSizeInKilobytes: 1024,
    forwardDeadLetteredMessagesTo: s.name,
  });
  const created = await client.getQueue(name);
  const { lockDuration, maxDeliveryCount, requiresSession, duplicateDetectionHistoryTimeWindow: window } = created;
  same("the queue", [created.name, lockDuration, maxDeliveryCount, requiresSession, window], [name, "PT30S", 3, true, "PT1M"]);
  const { defaultMessageTimeToLive, autoDeleteOnIdle, maxSizeInMegabytes, maxMessageSizeInKilobytes, status } = created;
  same(
    "the queue",
    [defaultMessageTimeToLive, autoDeleteOnIdle, maxSizeInMegabytes, maxMessageSizeInKilobytes, status],
    ["PT1H", "PT10M", 2048, 1024, "Active"],
  );
  same("the target", created.forwardDeadLetteredMessagesTo.endsWith(`/${s.name}`), true);
});

scenario("create_an_entity_that_exists", [queue()], async (s) => {
  await refused("MessageEntityAlreadyExistsError", () => administration(s).createQueue(s.name));
  await refused("MessageEntityAlreadyExistsError", () => administration(s).createTopic(s.name));
});

scenario("an_entity_that_does_not_exist", [queue()], async (s) => {
  const client = administration(s);
  await refused("MessageEntityNotFoundError", () => client.getQueue("missing"));
  await refused("MessageEntityNotFoundError", () => client.getTopic("missing"));
  await refused("MessageEntityNotFoundError", () => client.deleteSubscription("missing", "a"));
  await refused("MessageEntityNotFoundError", () => client.getRule("missing", "a", "b"));
  same("existence", [await client.queueExists("missing"), await client.queueExists(s.name)], [false, true]);
});

scenario("a_setting_that_is_refused", [queue()], async (s) => {
  const client = administration(s);
  await refused("ServiceError", () => client.createQueue(`${s.name}-1`, { lockDuration: "PT1S" }));
  const userMetadata = "x".repeat(1_025);
  const error = await refused("ServiceError", () => client.createQueue(`${s.name}-2`, { userMetadata }));
  same("the field", error.message.includes("user_metadata"), true);
  await client.createQueue(`${s.name}-2`, { userMetadata: "text" });
  same("the metadata", (await client.getQueue(`${s.name}-2`)).userMetadata, "text");
});

scenario("the_right_to_manage", [queue()], async (s) => {
  await refused("UnauthorizedRequestError", () => administration(s, "administration_listen").getQueue(s.name));
  await refused("UnauthorizedRequestError", () => administration(s, "administration_wrong_key").deleteQueue(s.name));
  same("existence", await administration(s).queueExists(s.name), true);
});

scenario("update_a_queue", [queue()], async (s) => {
  const client = administration(s);
  const before = await client.getQueue(s.name);
  const after = await client.updateQueue({ ...before, maxDeliveryCount: 7, lockDuration: "PT45S", status: "SendDisabled" });
  same("the queue", [after.maxDeliveryCount, after.lockDuration, after.status], [7, "PT45S", "SendDisabled"]);
  await refused("ServiceError", () => client.updateQueue({ ...before, requiresSession: true }));
});

scenario("forwarding_of_a_queue", [queue(), queue()], async (s) => {
  const client = administration(s);
  const before = await client.getQueue(s.name);
  const changed = await client.updateQueue({ ...before, forwardTo: s.names[1] });
  same("the target", changed.forwardTo.endsWith(`/${s.names[1]}`), true);
  const removed = await client.updateQueue({ ...changed, forwardTo: undefined });
  same("the target", removed.forwardTo, undefined);
});

scenario("delete_a_queue", [queue()], async (s) => {
  await administration(s).deleteQueue(s.name);
  same("existence", await administration(s).queueExists(s.name), false);
});

scenario("counts_of_a_queue", [queue()], async (s) => {
  await s.send("1", "2", "3", "4");
  const receiver = s.receiver();
  await receiver.deadLetterMessage(await one(receiver));
  await receiver.close();
  const counts = await administration(s).getQueueRuntimeProperties(s.name);
  same("the counts", [counts.activeMessageCount, counts.deadLetterMessageCount, counts.totalMessageCount], [3, 1, 4]);
  same("the times", [counts.createdAt, counts.accessedAt].every((at) => !Number.isNaN(at.valueOf())), true);
  const listed = await names(administration(s).listQueuesRuntimeProperties());
  same("the listed names", listed.includes(s.name), true);
});

// The next page begins behind a number of entities: if others are deleted meanwhile, some are passed over.
scenario("list_queues", [queue(), queue(), queue()], async (s) => {
  const client = administration(s);
  same("the names", includes(await names(client.listQueues()), s.names), true);
  const found = [];
  for await (const page of client.listQueues().byPage({ maxPageSize: 2 })) {
    same("the size of a page", page.length <= 2, true);
    found.push(...page.map(({ name }) => name));
  }
  same("the names in pages", includes(found, s.names), true);
}, { alone: true });

scenario("create_and_update_a_topic", [topic([])], async (s) => {
  const client = administration(s);
  const name = `${s.name}-new`;
  const created = await client.createTopic(name, { defaultMessageTimeToLive: "PT1H", requiresDuplicateDetection: true });
  same("the topic", [created.name, created.requiresDuplicateDetection], [name, true]);
  const after = await client.updateTopic({ ...created, defaultMessageTimeToLive: "PT1M", status: "SendDisabled" });
  same("the topic", [after.defaultMessageTimeToLive, after.status], ["PT1M", "SendDisabled"]);
});

scenario("counts_of_a_topic", [topic([subscription("a"), subscription("b")])], async (s) => {
  const client = administration(s);
  same("the subscriptions", (await client.getTopicRuntimeProperties(s.name)).subscriptionCount, 2);
  same("the listed names", (await names(client.listTopicsRuntimeProperties())).includes(s.name), true);
});

scenario("list_and_delete_topics", [topic([]), topic([])], async (s) => {
  const client = administration(s);
  same("the names", includes(await names(client.listTopics()), s.names), true);
  await client.deleteTopic(s.name);
  same("existence", [await client.topicExists(s.name), await client.topicExists(s.names[1])], [false, true]);
});

scenario("create_and_update_a_subscription", [topic([]), queue()], async (s) => {
  const client = administration(s);
  const created = await client.createSubscription(s.name, "new", {
    lockDuration: "PT30S",
    requiresSession: true,
    deadLetteringOnFilterEvaluationExceptions: false,
    forwardDeadLetteredMessagesTo: s.names[1],
    defaultRuleOptions: { name: "first", filter: { sqlExpression: "n = 1" } },
  });
  const { topicName, subscriptionName, lockDuration, requiresSession } = created;
  same("the subscription", [topicName, subscriptionName, lockDuration, requiresSession], [s.name, "new", "PT30S", true]);
  same("errors of filters", created.deadLetteringOnFilterEvaluationExceptions, false);
  same("the rules", await names(client.listRules(s.name, "new")), ["first"]);
  const after = await client.updateSubscription({ ...created, maxDeliveryCount: 9 });
  same("the subscription", after.maxDeliveryCount, 9);
});

scenario("list_and_delete_subscriptions", [topic([subscription("a"), subscription("b")])], async (s) => {
  const client = administration(s);
  await s.send("1", "2");
  same("the names", await names(client.listSubscriptions(s.name), "subscriptionName"), ["a", "b"]);
  const counts = await client.getSubscriptionRuntimeProperties(s.name, "a");
  same("the counts", [counts.activeMessageCount, counts.totalMessageCount], [2, 2]);
  const listed = await names(client.listSubscriptionsRuntimeProperties(s.name), "activeMessageCount");
  same("the listed counts", listed, [2, 2]);
  await client.deleteSubscription(s.name, "a");
  const existence = [await client.subscriptionExists(s.name, "a"), await client.subscriptionExists(s.name, "b")];
  same("existence", existence, [false, true]);
});

scenario("rules_of_each_kind", [topic([subscription("a")])], async (s) => {
  const client = administration(s);
  await client.createRule(s.name, "a", "sql", { sqlExpression: "n > 5" }, { sqlExpression: "SET x = 1" });
  const properties = { text: "a", number: 1.5, yes: true, at: new Date(1_700_000_000_000) };
  await client.createRule(s.name, "a", "correlation", { subject: "l", contentType: "ct", applicationProperties: properties });
  const sql = await client.getRule(s.name, "a", "sql");
  same("the rule", [sql.name, sql.filter.sqlExpression, sql.action.sqlExpression], ["sql", "n > 5", "SET x = 1"]);
  const { filter } = await client.getRule(s.name, "a", "correlation");
  same("the filter", [filter.subject, filter.contentType, filter.applicationProperties], ["l", "ct", properties]);
  same("the names", (await names(client.listRules(s.name, "a"))).sort(), ["$Default", "correlation", "sql"]);
});

scenario("update_and_delete_rules", [topic([subscription("a")])], async (s) => {
  const client = administration(s);
  const rule = await client.createRule(s.name, "a", "r", { sqlExpression: "n = 1" });
  const after = await client.updateRule(s.name, "a", { ...rule, filter: { sqlExpression: "n = 2" } });
  same("the filter", after.filter.sqlExpression, "n = 2");
  await client.deleteRule(s.name, "a", "$Default");
  const existence = [await client.ruleExists(s.name, "a", "r"), await client.ruleExists(s.name, "a", "$Default")];
  same("existence", existence, [true, false]);
  await refused("ServiceError", () => client.createRule(s.name, "a", "bad", { sqlExpression: "n =" }));
});

scenario("versions_of_the_administration", [queue()], async (s) => {
  for (const serviceVersion of ["2017-04", "2021-05"]) {
    same(serviceVersion, (await administration(s, "administration", { serviceVersion }).getQueue(s.name)).name, s.name);
  }
});
