// Ways to receive and to peek.

import { DEAD, DELETE, bodies, drain, nothing, numbers, one, pause, queue, refused, same, scenario, several } from "./support.mjs";

scenario("receive_from_empty_queue", [queue()], (s) => nothing(s.receiver()));

scenario("receive_waits_for_a_message", [queue()], async (s) => {
  const received = one(s.receiver());
  await pause(1_500);
  await s.send("later");
  same("the body", (await received).body, "later");
});

scenario("receive_fewer_than_there_are", [queue()], async (s) => {
  await s.send(...numbers(5));
  const receiver = s.receiver();
  const messages = await several(receiver, 2);
  same("the bodies", bodies(messages), ["0", "1"]);
  for (const message of messages) {
    await receiver.completeMessage(message);
  }
  same("the rest", bodies(await drain(receiver, 3)), ["2", "3", "4"]);
});

scenario("subscribe", [queue()], async (s) => {
  await s.send(...numbers(10));
  const seen = [];
  const errors = [];
  const subscription = s.receiver().subscribe({
    processMessage: async ({ body }) => void seen.push(body),
    processError: async ({ error }) => void errors.push(error.message),
  });
  while (seen.length < 10) {
    await pause(50);
  }
  await subscription.close();
  same("the bodies", [seen, errors], [numbers(10), []]);
  await nothing(s.receiver());
});

scenario("subscribe_many_at_once", [queue()], async (s) => {
  await s.sender().sendMessages(numbers(100).map((body) => ({ body })));
  const seen = new Set();
  const subscription = s.receiver().subscribe(
    { processMessage: async ({ body }) => void seen.add(body), processError: async () => {} },
    { maxConcurrentCalls: 20 },
  );
  while (seen.size < 100) {
    await pause(50);
  }
  await subscription.close();
  await nothing(s.receiver());
});

scenario("subscribe_and_fail", [queue({ MaxDeliveryCount: 2 })], async (s) => {
  await s.send("poison");
  let calls = 0;
  const subscription = s.receiver().subscribe({
    processMessage: async () => {
      calls += 1;
      throw new Error("not handled");
    },
    processError: async () => {},
  });
  const dead = await one(s.receiver({ ...DEAD, ...DELETE }));
  await subscription.close();
  same("the calls", [calls, dead.deadLetterReason], [2, "MaxDeliveryCountExceeded"]);
});

scenario("message_iterator", [queue()], async (s) => {
  await s.send(...numbers(5));
  const receiver = s.receiver();
  const seen = [];
  for await (const message of receiver.getMessageIterator()) {
    seen.push(message.body);
    await receiver.completeMessage(message);
    if (seen.length === 5) {
      break;
    }
  }
  same("the bodies", seen, numbers(5));
});

scenario("receive_and_delete", [queue()], async (s) => {
  await s.send("1", "2", "3");
  const receiver = s.receiver(DELETE);
  const messages = await several(receiver, 3);
  same("the bodies", bodies(messages), ["1", "2", "3"]);
  await refused(["InvalidOperationError", "Error"], () => receiver.completeMessage(messages[0]));
  await nothing(s.receiver());
});

scenario("two_receivers_get_different_messages", [queue()], async (s) => {
  await s.send("1", "2");
  const [first, second] = [s.receiver(), s.receiver()];
  same("the bodies", bodies([await one(first), await one(second)]).sort(), ["1", "2"]);
});

scenario("many_messages", [queue()], async (s) => {
  const sender = s.sender();
  for (let part = 0; part < 10; part += 1) {
    await sender.sendMessages(numbers(50).map((n) => ({ body: String(part * 50 + Number(n)) })));
  }
  const receiver = s.receiver();
  const messages = await several(receiver, 500);
  await Promise.all(messages.map((message) => receiver.completeMessage(message)));
  same("the bodies", bodies(messages), numbers(500));
  same("the peeked", await receiver.peekMessages(1), []);
});

scenario("peek_does_not_lock", [queue()], async (s) => {
  await s.send("1", "2", "3");
  const receiver = s.receiver();
  same("the peeked", bodies(await receiver.peekMessages(10)), ["1", "2", "3"]);
  same("the received", bodies(await several(receiver, 3)), ["1", "2", "3"]);
});

scenario("peek_continues_after_the_last", [queue()], async (s) => {
  await s.send(...numbers(4));
  const receiver = s.receiver();
  same("the first", bodies(await receiver.peekMessages(2)), ["0", "1"]);
  same("the next", bodies(await receiver.peekMessages(10)), ["2", "3"]);
});

scenario("peek_from_a_number", [queue()], async (s) => {
  await s.send(...numbers(5));
  const receiver = s.receiver();
  const [first] = await receiver.peekMessages(1);
  const from = first.sequenceNumber.add(2);
  same("the peeked", bodies(await receiver.peekMessages(2, { fromSequenceNumber: from })), ["2", "3"]);
});

scenario("peek_empty_queue", [queue()], async (s) => {
  same("the peeked", await s.receiver().peekMessages(1), []);
});

scenario("peek_dead_letters", [queue()], async (s) => {
  await s.send("dead");
  const receiver = s.receiver();
  await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "reason" });
  const [peeked] = await s.receiver(DEAD).peekMessages(1);
  same("the reason", peeked.deadLetterReason, "reason");
});
