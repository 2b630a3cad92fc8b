// azure-sb, the client over HTTP that came before @azure/service-bus.

import { promisify } from "node:util";

import { queue, require, same, scenario, subscription, topic } from "./support.mjs";

const azure = require("azure-sb");

// Its functions, as promises of their first result.
function service(s) {
  const old = azure.createServiceBusService(s.setting("administration").replace("sb://", "https://"));
  return new Proxy(old, { get: (_, name) => promisify(old[name]).bind(old) });
}

const names = (list, key) => list.map((entity) => entity[key]).sort();

scenario("azure_sb_administers_entities", [queue(), topic([subscription("a")])], async (s) => {
  const [client, of] = [service(s), s.names[1]];
  await client.createQueue(`${s.name}-new`, { LockDuration: "PT30S", MaxSizeInMegabytes: "2048" });
  same("whether it was created", await client.createQueueIfNotExists(`${s.name}-new`), false);
  same("the lock", (await client.getQueue(`${s.name}-new`)).LockDuration, "PT30S");
  const queues = [];
  for (let more = true; more; ) {
    const page = names(await client.listQueues({ top: 100, skip: queues.length }), "QueueName");
    queues.push(...page);
    more = page.length === 100;
  }
  same("the queues", [s.name, `${s.name}-new`].every((name) => queues.includes(name)), true);
  await client.createSubscription(of, "b", { MaxDeliveryCount: 3 });
  same("the subscriptions", names(await client.listSubscriptions(of), "SubscriptionName"), ["a", "b"]);
  same("the name", (await client.getSubscription(of, "b")).SubscriptionName, "b");
  await client.createRule(of, "b", "size", { sqlExpressionFilter: "size > 3" });
  same("the rules", names(await client.listRules(of, "b"), "RuleName"), ["$Default", "size"]);
  await client.deleteRule(of, "b", "$Default");
  await client.deleteSubscription(of, "a");
  await client.deleteQueue(`${s.name}-new`);
});

scenario("azure_sb_sends_and_receives", [queue(), topic([subscription("a")])], async (s) => {
  const client = service(s);
  const message = { body: "it", customProperties: { text: "a", number: 7 }, brokerProperties: { MessageId: "m-1" } };
  await client.sendQueueMessage(s.name, message);
  const locked = await client.receiveQueueMessage(s.name, { isPeekLock: true, timeoutIntervalInS: 10 });
  same("the body", locked.body, "it");
  same("the properties", locked.customProperties, { text: "a", number: 7 });
  same("the MessageId", locked.brokerProperties.MessageId, "m-1");
  await client.unlockMessage(locked);
  const again = await client.receiveQueueMessage(s.name, { isPeekLock: true, timeoutIntervalInS: 10 });
  same("the delivery count", again.brokerProperties.DeliveryCount, 2);
  await client.deleteMessage(again);
  await client.sendTopicMessage(s.names[1], "to a topic");
  same("the copy", (await client.receiveSubscriptionMessage(s.names[1], "a", { timeoutIntervalInS: 10 })).body, "to a topic");
});
