// Outcomes of received messages, and their locks.

import { DEAD, DELETE, bodies, drain, nothing, numbers, one, pause, queue, refused, same, scenario, several } from "./support.mjs";

scenario("complete", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  await receiver.completeMessage(await one(receiver));
  await nothing(receiver);
  same("the peeked", await receiver.peekMessages(1), []);
});

scenario("complete_in_any_order", [queue()], async (s) => {
  await s.send(...numbers(5));
  const receiver = s.receiver();
  const messages = await several(receiver, 5);
  for (const i of [3, 0, 4, 1, 2]) {
    await receiver.completeMessage(messages[i]);
  }
  same("the peeked", await receiver.peekMessages(1), []);
});

scenario("complete_twice", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  const message = await one(receiver);
  await receiver.completeMessage(message);
  await refused(["Error", "MessageLockLost", "InvalidOperationError"], () => receiver.completeMessage(message));
});

scenario("abandon", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  for (const count of [0, 1]) {
    const message = await one(receiver);
    same("the delivery count", message.deliveryCount, count);
    await receiver.abandonMessage(message, { tried: count });
  }
  const message = await one(receiver);
  same("the message", [message.deliveryCount, message.applicationProperties], [2, { tried: 1 }]);
});

scenario("delivery_count_is_exceeded", [queue({ MaxDeliveryCount: 3 })], async (s) => {
  await s.send("poison");
  const receiver = s.receiver();
  for (let i = 0; i < 3; i += 1) {
    await receiver.abandonMessage(await one(receiver));
  }
  await nothing(receiver);
  same("the reason", (await one(s.receiver(DEAD))).deadLetterReason, "MaxDeliveryCountExceeded");
});

scenario("defer_and_receive", [queue()], async (s) => {
  await s.send("1", "2", "3");
  const receiver = s.receiver();
  const messages = await several(receiver, 3);
  for (const message of messages) {
    await receiver.deferMessage(message, { deferred: true });
  }
  await nothing(receiver);
  const sequence = messages.map(({ sequenceNumber }) => sequenceNumber);
  const deferred = await receiver.receiveDeferredMessages(sequence.slice(0, 2));
  same("the deferred", [bodies(deferred), deferred[0].state, deferred[0].applicationProperties], [["1", "2"], "deferred", { deferred: true }]);
  for (const message of deferred) {
    await receiver.completeMessage(message);
  }
  const [last] = await receiver.receiveDeferredMessages(sequence[2]);
  await receiver.completeMessage(last);
  same("the peeked", await receiver.peekMessages(1), []);
});

scenario("deferred_is_received_and_deleted", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  const message = await one(receiver);
  await receiver.deferMessage(message);
  const deleting = s.receiver(DELETE);
  same("the body", bodies(await deleting.receiveDeferredMessages(message.sequenceNumber)), ["1"]);
  await refused("MessageNotFound", () => deleting.receiveDeferredMessages(message.sequenceNumber));
});

scenario("deferred_is_abandoned", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  const message = await one(receiver);
  await receiver.deferMessage(message);
  for (let i = 0; i < 2; i += 1) {
    const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    await receiver.abandonMessage(deferred);
  }
  const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
  await receiver.completeMessage(deferred);
});

scenario("deferred_is_dead_lettered", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  const message = await one(receiver);
  await receiver.deferMessage(message);
  const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
  await receiver.deadLetterMessage(deferred, { deadLetterReason: "late" });
  same("the reason", (await one(s.receiver(DEAD))).deadLetterReason, "late");
});

scenario("deferred_number_is_unknown", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  const { sequenceNumber } = await one(receiver);
  await refused("MessageNotFound", () => receiver.receiveDeferredMessages(sequenceNumber));
});

scenario("dead_letter", [queue()], async (s) => {
  await s.send({ body: "1", applicationProperties: { own: "kept" } });
  const receiver = s.receiver();
  const reason = { deadLetterReason: "reason", deadLetterErrorDescription: "description", more: 7 };
  await receiver.deadLetterMessage(await one(receiver), reason);
  await nothing(receiver);
  const dead = s.receiver(DEAD);
  const message = await one(dead);
  same("the reason", [message.deadLetterReason, message.deadLetterErrorDescription], ["reason", "description"]);
  same("the properties", [message.applicationProperties.own, message.applicationProperties.more], ["kept", 7]);
  await dead.completeMessage(message);
  await nothing(dead);
});

scenario("dead_letter_without_a_reason", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  await receiver.deadLetterMessage(await one(receiver));
  same("the bodies", bodies(await drain(s.receiver(DEAD))), ["1"]);
});

scenario("dead_letter_is_resubmitted", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  await receiver.deadLetterMessage(await one(receiver));
  const dead = s.receiver(DEAD);
  await dead.abandonMessage(await one(dead));
  const message = await one(dead);
  await s.sender().sendMessages({ body: message.body });
  await dead.completeMessage(message);
  same("the bodies", bodies(await drain(receiver)), ["1"]);
});

scenario("dead_letters_are_forwarded", [queue({ ForwardDeadLetteredMessagesTo: "@1" }), queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "reason" });
  const message = await one(s.receiver(DELETE, s.names[1]));
  same("the message", [message.deadLetterReason, message.deadLetterSource], ["reason", s.name]);
});

scenario("renew_lock", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  const message = await one(receiver);
  const before = message.lockedUntilUtc;
  await pause(200);
  same("the lock ends later", (await receiver.renewMessageLock(message)) > before, true);
  await receiver.completeMessage(message);
});

scenario("lock_is_lost", [queue({ LockDuration: "PT5S" })], async (s) => {
  await s.send("1");
  const receiver = s.receiver({ maxAutoLockRenewalDurationInMs: 0 });
  const message = await one(receiver);
  await pause(5_500);
  await refused("MessageLockLost", () => receiver.completeMessage(message));
  const again = await one(receiver);
  same("the delivery count", again.deliveryCount, 1);
  await receiver.completeMessage(again);
});

scenario("renewal_of_a_lost_lock", [queue({ LockDuration: "PT5S" })], async (s) => {
  await s.send("1");
  const receiver = s.receiver({ maxAutoLockRenewalDurationInMs: 0 });
  const message = await one(receiver);
  await pause(5_500);
  await refused("MessageLockLost", () => receiver.renewMessageLock(message));
});

scenario("automatic_renewal", [queue({ LockDuration: "PT15S" })], async (s) => {
  await s.send("1");
  let completed = false;
  const receiver = s.receiver({ maxAutoLockRenewalDurationInMs: 60_000 });
  const errors = [];
  const subscription = receiver.subscribe(
    {
      processMessage: async (message) => {
        await pause(20_000);
        await receiver.completeMessage(message);
        completed = true;
      },
      processError: async ({ error }) => void errors.push(error.message),
    },
    { autoCompleteMessages: false },
  );
  while (!completed && errors.length === 0) {
    await pause(100);
  }
  await subscription.close();
  same("the errors", errors, []);
});

scenario("settle_after_the_receiver_is_closed", [queue()], async (s) => {
  await s.send("1");
  const receiver = s.receiver();
  await one(receiver);
  await receiver.close();
  const [message] = await drain(s.receiver());
  same("the delivery count", message.deliveryCount, 0);
});
