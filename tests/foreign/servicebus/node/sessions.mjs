// Sessions, their order, their locks and their state.

import { DEAD, DELETE, bodies, drain, later, nothing, numbers, one, pause, queue, refused, same, scenario, several } from "./support.mjs";

const sessions = (more = {}) => [queue({ RequiresSession: true, ...more })];
const inSession = (sessionId, ...texts) => texts.map((body) => ({ body, sessionId }));

scenario("named_session", sessions(), async (s) => {
  await s.send(...inSession("a", "1", "2"), ...inSession("b", "3"));
  const receiver = await s.shared.acceptSession(s.name, "a");
  same("the session", receiver.sessionId, "a");
  const messages = await drain(receiver, 2);
  same("the messages", messages.map(({ body, sessionId }) => [body, sessionId]), [["1", "a"], ["2", "a"]]);
  await receiver.close();
});

scenario("next_session", sessions(), async (s) => {
  await s.send(...inSession("a", "1"), ...inSession("b", "2"));
  const seen = {};
  for (let i = 0; i < 2; i += 1) {
    const receiver = await s.shared.acceptNextSession(s.name);
    const message = await one(receiver);
    seen[receiver.sessionId] = message.body;
    await receiver.completeMessage(message);
    await receiver.close();
  }
  same("the sessions", seen, { a: "1", b: "2" });
});

scenario("next_session_times_out", sessions(), async (s) => {
  const client = s.client("connection", { retryOptions: { maxRetries: 0, timeoutInMs: 2_000 } });
  await refused(["ServiceTimeout", "OperationTimeoutError"], () => client.acceptNextSession(s.name));
});

scenario("next_session_waits_for_a_message", sessions(), async (s) => {
  const accepted = s.shared.acceptNextSession(s.name);
  await pause(1_500);
  await s.send(...inSession("late", "1"));
  const receiver = await accepted;
  same("the session", [receiver.sessionId, (await one(receiver)).body], ["late", "1"]);
});

scenario("session_is_locked_by_another", sessions(), async (s) => {
  const receiver = await s.shared.acceptSession(s.name, "a");
  await refused("SessionCannotBeLocked", () => s.client().acceptSession(s.name, "a"));
  await receiver.close();
  const again = await s.client().acceptSession(s.name, "a");
  await again.close();
});

scenario("session_state", sessions(), async (s) => {
  const receiver = await s.shared.acceptSession(s.name, "a");
  same("the state", await receiver.getSessionState(), null);
  await receiver.setSessionState({ step: 1 });
  same("the state", await receiver.getSessionState(), { step: 1 });
  await receiver.close();
  const again = await s.shared.acceptSession(s.name, "a");
  same("the state", await again.getSessionState(), { step: 1 });
  await again.setSessionState(null);
  same("the state", await again.getSessionState(), null);
});

scenario("renew_session_lock", sessions(), async (s) => {
  const receiver = await s.shared.acceptSession(s.name, "a");
  const before = receiver.sessionLockedUntilUtc;
  await pause(200);
  same("the lock ends later", (await receiver.renewSessionLock()) > before, true);
});

scenario("session_lock_is_lost", sessions({ LockDuration: "PT5S" }), async (s) => {
  await s.send(...inSession("a", "1"));
  const receiver = await s.shared.acceptSession(s.name, "a", { maxAutoLockRenewalDurationInMs: 0 });
  const message = await one(receiver);
  await pause(6_000);
  await refused(["SessionLockLost", "SessionLockLostError"], () => receiver.completeMessage(message));
  same("the bodies", bodies(await drain(await s.client().acceptSession(s.name, "a"))), ["1"]);
});

scenario("automatic_renewal_of_a_session", sessions({ LockDuration: "PT15S" }), async (s) => {
  await s.send(...inSession("a", "1"));
  const receiver = await s.shared.acceptSession(s.name, "a", { maxAutoLockRenewalDurationInMs: 60_000 });
  const message = await one(receiver);
  await pause(20_000);
  await receiver.completeMessage(message);
});

scenario("subscribe_to_a_session", sessions(), async (s) => {
  await s.send(...inSession("a", ...numbers(5)));
  const receiver = await s.shared.acceptSession(s.name, "a");
  const seen = [];
  receiver.subscribe({ processMessage: async ({ body }) => void seen.push(body), processError: async () => {} });
  while (seen.length < 5) {
    await pause(50);
  }
  await receiver.close();
  same("the bodies", seen, numbers(5));
});

scenario("send_without_a_session", sessions(), async (s) => {
  let error;
  await s.send("1").catch((raised) => (error = raised));
  same("it is refused", Boolean(error), true);
});

scenario("receiver_without_a_session", sessions(), async (s) => {
  let error;
  await s.receiver().receiveMessages(1, { maxWaitTimeInMs: 2_000 }).catch((raised) => (error = raised));
  same("it is refused", Boolean(error), true);
});

scenario("session_of_a_plain_queue", [queue()], async (s) => {
  let error;
  await s.shared.acceptSession(s.name, "a").catch((raised) => (error = raised));
  same("it is refused", Boolean(error), true);
});

scenario("defer_in_a_session", sessions(), async (s) => {
  await s.send(...inSession("a", "1"));
  const receiver = await s.shared.acceptSession(s.name, "a");
  const message = await one(receiver);
  await receiver.deferMessage(message);
  const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
  same("the body", deferred.body, "1");
  await receiver.completeMessage(deferred);
});

scenario("dead_letter_in_a_session", sessions(), async (s) => {
  await s.send(...inSession("a", "1"));
  const receiver = await s.shared.acceptSession(s.name, "a");
  await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "reason" });
  const message = await one(s.receiver(DEAD));
  same("the message", [message.sessionId, message.deadLetterReason], ["a", "reason"]);
});

scenario("abandon_in_a_session", sessions(), async (s) => {
  await s.send(...inSession("a", "1", "2"));
  const receiver = await s.shared.acceptSession(s.name, "a");
  await receiver.abandonMessage(await one(receiver));
  const messages = await several(receiver, 2);
  same("the messages", messages.map(({ body, deliveryCount }) => [body, deliveryCount]), [["1", 1], ["2", 0]]);
});

scenario("peek_in_a_session", sessions(), async (s) => {
  await s.send(...inSession("a", "1"), ...inSession("b", "2"), ...inSession("a", "3"));
  const receiver = await s.shared.acceptSession(s.name, "a");
  same("the peeked", bodies(await receiver.peekMessages(10)), ["1", "3"]);
});

scenario("schedule_in_a_session", sessions(), async (s) => {
  await s.sender().scheduleMessages(inSession("a", "1", "2"), later(2_000));
  same("the bodies", bodies(await drain(await s.shared.acceptSession(s.name, "a"), 2)), ["1", "2"]);
});

scenario("receive_and_delete_in_a_session", sessions(), async (s) => {
  await s.send(...inSession("a", "1", "2"));
  const receiver = await s.shared.acceptSession(s.name, "a", DELETE);
  same("the bodies", bodies(await several(receiver, 2)), ["1", "2"]);
  await nothing(receiver);
});
