// Messages that are sent, and what arrives.

import { DELETE, LONG, SHORT, bodies, drain, later, nothing, numbers, one, pause, queue, refused, same, scenario, several } from "./support.mjs";

scenario("send_one", [queue()], async (s) => {
  await s.send("1");
  same("the bodies", bodies(await drain(s.receiver())), ["1"]);
});

scenario("send_list", [queue()], async (s) => {
  await s.sender().sendMessages(numbers(20).map((body) => ({ body })));
  same("the bodies", bodies(await drain(s.receiver(), 20)), numbers(20));
});

scenario("send_batch", [queue()], async (s) => {
  const sender = s.sender();
  const batch = await sender.createMessageBatch();
  for (const body of numbers(30)) {
    same("it fits", batch.tryAddMessage({ body, messageId: `id ${body}` }), true);
  }
  await sender.sendMessages(batch);
  const received = await drain(s.receiver(), 30);
  same("the bodies", bodies(received), numbers(30));
  same("the ids", received.map(({ messageId }) => messageId), numbers(30).map((body) => `id ${body}`));
});

scenario("batch_has_a_limit", [queue()], async (s) => {
  const sender = s.sender();
  const batch = await sender.createMessageBatch({ maxSizeInBytes: 2_000 });
  same("the first fits", batch.tryAddMessage({ body: Buffer.alloc(1_000, "x") }), true);
  same("the second does not", batch.tryAddMessage({ body: Buffer.alloc(1_000, "x") }), false);
  await sender.sendMessages(batch);
  same("the number", (await drain(s.receiver())).length, 1);
});

scenario("batch_has_the_size_of_the_server", [queue()], async (s) => {
  const batch = await s.sender().createMessageBatch();
  same("the size", batch.maxSizeInBytes, 262_144);
});

scenario("send_200_kilobytes", [queue()], async (s) => {
  const body = Buffer.from(Array.from({ length: 200_000 }, (_, i) => (i * 31) % 251));
  await s.send({ body });
  const [message] = await drain(s.receiver());
  same("the body is the same", message.body.equals(body), true);
});

scenario("send_300_kilobytes", [queue({ MaxMessageSizeInKilobytes: 1024 })], async (s) => {
  const body = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31) % 251));
  await s.send({ body });
  const [message] = await drain(s.receiver());
  same("the body is the same", message.body.equals(body), true);
});

scenario("send_too_large", [queue()], async (s) => {
  const sender = s.sender();
  for (const size of [300_000, 3_000_000]) {
    await refused("MessageSizeExceeded", () => sender.sendMessages({ body: Buffer.alloc(size) }));
  }
  await sender.sendMessages({ body: "small" });
  same("the bodies", bodies(await drain(s.receiver())), ["small"]);
});

const BODIES = {
  text: "text \u00fc",
  number: 7.5,
  boolean: true,
  null: null,
  list: [1, "two", { three: 3 }],
  object: { a: { b: [1, 2] } },
};

for (const [kind, body] of Object.entries(BODIES)) {
  scenario(`body_of_${kind}`, [queue()], async (s) => {
    await s.send({ body });
    const [message] = await drain(s.receiver());
    same("the body", message.body, body);
  });
}

scenario("body_of_bytes", [queue()], async (s) => {
  await s.send({ body: Buffer.from([0, 1, 255]) });
  const receiver = s.receiver({ skipParsingBodyAsJson: true });
  const message = await one(receiver);
  same("the body", [...message.body], [0, 1, 255]);
});

for (const [bodyType, body] of [["data", Buffer.from("data")], ["value", { number: 7 }], ["sequence", [[1, "two"], [true]]]]) {
  scenario(`amqp_message_of_a_${bodyType}`, [queue()], async (s) => {
    await s.sender().sendMessages({ bodyType, body, applicationProperties: { a: 1 }, properties: { messageId: "id", subject: "s" } });
    const message = await one(s.receiver({ skipParsingBodyAsJson: true }));
    same("the kind", message._rawAmqpMessage.bodyType, bodyType);
    same("the body", message.body, body);
    same("the fields", [message.messageId, message.subject, message.applicationProperties], ["id", "s", { a: 1 }]);
  });
}

scenario("system_properties", [queue()], async (s) => {
  const sent = {
    messageId: "id",
    correlationId: "correlation",
    subject: "subject",
    contentType: "application/json",
    to: "to",
    replyTo: "reply",
    replyToSessionId: "reply session",
    partitionKey: "key",
  };
  await s.send({ body: "1", timeToLive: 600_000, ...sent });
  const [message] = await drain(s.receiver());
  same("the properties", Object.fromEntries(Object.keys(sent).map((name) => [name, message[name]])), sent);
});

scenario("ids_of_each_type", [queue()], async (s) => {
  await s.send({ body: "1", messageId: 7, correlationId: 8 }, { body: "2", messageId: Buffer.from("0123456789abcdef") });
  const [first, second] = await drain(s.receiver(), 2);
  same("the numbers", [Number(first.messageId), Number(first.correlationId)], [7, 8]);
  same("the bytes", Buffer.from(second.messageId).toString(), "0123456789abcdef");
});

scenario("application_properties_of_each_type", [queue()], async (s) => {
  const sent = { text: "\u00fc", empty: "", whole: 7, negative: -7, large: 2 ** 40, real: 1.5, yes: true, no: false, nothing: null, at: new Date(1_767_323_045_000) };
  // The client sends milliseconds.
  await s.send({ body: "1", applicationProperties: sent });
  const [message] = await drain(s.receiver());
  same("the properties", message.applicationProperties, { ...sent, at: sent.at.getTime() });
});

scenario("what_the_server_adds", [queue()], async (s) => {
  await s.send("1", "2");
  const receiver = s.receiver();
  const messages = await several(receiver, 2);
  same("the numbers", messages.map(({ sequenceNumber }) => sequenceNumber.toNumber()), [1, 2]);
  for (const message of messages) {
    same("the delivery count", message.deliveryCount, 0);
    same("the state", message.state, "active");
    same("it has a lock", typeof message.lockToken, "string");
    same("the lock ends later", message.lockedUntilUtc > message.enqueuedTimeUtc, true);
    same("it was enqueued now", Math.abs(message.enqueuedTimeUtc - Date.now()) < 20_000, true);
    await receiver.completeMessage(message);
  }
});

scenario("message_without_an_id_gets_one", [queue()], async (s) => {
  await s.send("1", "2");
  const ids = (await drain(s.receiver(), 2)).map(({ messageId }) => messageId);
  same("the ids", [new Set(ids).size, ids.every(Boolean)], [2, true]);
});

scenario("received_message_is_sent_again", [queue()], async (s) => {
  await s.send({ body: "again", applicationProperties: { n: 1 } });
  const receiver = s.receiver();
  const message = await one(receiver);
  await s.sender().sendMessages(message);
  await receiver.completeMessage(message);
  const copy = await one(receiver);
  same("the copy", [copy.body, copy.applicationProperties, copy.sequenceNumber.toNumber()], ["again", { n: 1 }, 2]);
});

scenario("duplicates_are_dropped", [queue({ RequiresDuplicateDetection: true, DuplicateDetectionHistoryTimeWindow: "PT1M" })], async (s) => {
  await s.send({ body: "1", messageId: "same" }, { body: "2", messageId: "same" }, { body: "3", messageId: "other" });
  same("the bodies", bodies(await drain(s.receiver(), 2)), ["1", "3"]);
});

scenario("schedule_and_receive", [queue()], async (s) => {
  const receiver = s.receiver();
  // Far enough for a busy machine to see it scheduled.
  const at = later(20_000);
  const [number] = await s.sender().scheduleMessages({ body: "later" }, at);
  await nothing(receiver);
  const [peeked] = await receiver.peekMessages(1);
  same("the peeked", [peeked.state, peeked.sequenceNumber.toString()], ["scheduled", number.toString()]);
  const message = await one(receiver, LONG);
  same("the body", message.body, "later");
  same("it was not early", Date.now() >= at, true);
});

scenario("schedule_several", [queue()], async (s) => {
  const scheduled = await s.sender().scheduleMessages(numbers(5).map((body) => ({ body })), later(2_000));
  same("the numbers", new Set(scheduled.map(String)).size, 5);
  same("the bodies", bodies(await drain(s.receiver(), 5)).sort(), numbers(5));
});

scenario("schedule_by_property", [queue()], async (s) => {
  const at = later(20_000);
  await s.send({ body: "later", scheduledEnqueueTimeUtc: at });
  const receiver = s.receiver();
  same("the early", bodies(await receiver.receiveMessages(1, SHORT)), []);
  const message = await one(receiver, LONG);
  same("the time", message.scheduledEnqueueTimeUtc, at);
});

scenario("cancel_scheduled", [queue()], async (s) => {
  const sender = s.sender();
  const scheduled = await sender.scheduleMessages(numbers(3).map((body) => ({ body })), later(8_000));
  await sender.cancelScheduledMessages(scheduled[1]);
  const receiver = s.receiver();
  same("the rest", bodies(await several(receiver, 2)), ["0", "2"]);
  await nothing(receiver);
});

scenario("cancel_several_scheduled", [queue()], async (s) => {
  const sender = s.sender();
  const scheduled = await sender.scheduleMessages(numbers(3).map((body) => ({ body })), later(60_000));
  await sender.cancelScheduledMessages(scheduled);
  same("the peeked", await s.receiver().peekMessages(10), []);
});

scenario("cancel_unknown_number", [queue()], async (s) => {
  const sender = s.sender();
  const [number] = await sender.scheduleMessages({ body: "1" }, later(60_000));
  await sender.cancelScheduledMessages(number);
  await refused("MessageNotFound", () => sender.cancelScheduledMessages(number));
});

scenario("time_to_live_ends", [queue()], async (s) => {
  await s.send({ body: "short", timeToLive: 1_000 }, { body: "long", timeToLive: 600_000 });
  await pause(2_000);
  const [message, ...others] = await drain(s.receiver());
  same("the messages", [message.body, others.length], ["long", 0]);
  same("it expires", message.expiresAtUtc.getTime(), message.enqueuedTimeUtc.getTime() + 600_000);
});

scenario("expired_is_dead_lettered", [queue({ DefaultMessageTimeToLive: "PT1S", DeadLetteringOnMessageExpiration: true })], async (s) => {
  await s.send("expired");
  await pause(2_000);
  await nothing(s.receiver());
  const message = await one(s.receiver({ subQueueType: "deadLetter", ...DELETE }));
  same("the reason", message.deadLetterReason, "TTLExpiredException");
});

scenario("forward_to", [queue({ ForwardTo: "@1" }), queue()], async (s) => {
  await s.send("1");
  same("the bodies", bodies(await drain(s.receiver({}, s.names[1]))), ["1"]);
});
