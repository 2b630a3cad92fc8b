// Topics, subscriptions, and filters of the configuration.

import { DEAD, bodies, drain, later, nothing, one, same, scenario, several, subscription, topic } from "./support.mjs";

const sql = (SqlExpression, action) => ({
  Name: "sql",
  Properties: { FilterType: "Sql", SqlFilter: { SqlExpression }, ...(action ? { Action: { SqlExpression: action } } : {}) },
});
const correlation = (CorrelationFilter) => ({ Name: "correlation", Properties: { FilterType: "Correlation", CorrelationFilter } });
const from = (s, name, options = {}) => s.shared.createReceiver(s.name, name, options);

scenario("each_subscription_gets_a_copy", [topic([subscription("a"), subscription("b")])], async (s) => {
  await s.send("1", "2");
  for (const name of ["a", "b"]) {
    same(`the bodies of ${name}`, bodies(await drain(from(s, name), 2)), ["1", "2"]);
  }
});

scenario("batch_to_a_topic", [topic([subscription("a")])], async (s) => {
  await s.sender().sendMessages([{ body: "1" }, { body: "2" }]);
  same("the bodies", bodies(await drain(from(s, "a"), 2)), ["1", "2"]);
});

scenario("schedule_to_a_topic", [topic([subscription("a")])], async (s) => {
  const sender = s.sender();
  const scheduled = await sender.scheduleMessages([{ body: "1" }, { body: "2" }], later(8_000));
  await sender.cancelScheduledMessages(scheduled[0]);
  same("the bodies", bodies(await drain(from(s, "a"))), ["2"]);
});

scenario("sql_filter", [topic([subscription("large", [sql("size > 10 AND color IN ('red', 'blue')")]), subscription("all")])], async (s) => {
  const of = (body, size, color) => ({ body, applicationProperties: { size, color } });
  await s.send(of("1", 3, "red"), of("2", 30, "red"), of("3", 30, "green"));
  same("the large", bodies(await drain(from(s, "large"))), ["2"]);
  same("all", bodies(await drain(from(s, "all"), 3)), ["1", "2", "3"]);
});

scenario("sql_action", [topic([subscription("a", [sql("n = 1", "SET sys.Label = 'changed'; SET seen = 'yes'")])])], async (s) => {
  await s.send({ body: "1", applicationProperties: { n: 1 } });
  const message = await one(from(s, "a"));
  same("the message", [message.subject, message.applicationProperties], ["changed", { RuleName: "sql", n: 1, seen: "yes" }]);
});

scenario("correlation_filter", [topic([subscription("a", [correlation({ CorrelationId: "c", Label: "l", Properties: { p: "v" } })])])], async (s) => {
  const fields = { correlationId: "c", subject: "l", applicationProperties: { p: "v" } };
  await s.send({ body: "1", ...fields }, { body: "2", ...fields, subject: "other" }, { body: "3", ...fields, applicationProperties: {} });
  same("the bodies", bodies(await drain(from(s, "a"))), ["1"]);
});

scenario("settle_on_a_subscription", [topic([subscription("a")])], async (s) => {
  await s.send("complete", "defer", "dead");
  const receiver = from(s, "a");
  const [complete, defer, dead] = await several(receiver, 3);
  await receiver.completeMessage(complete);
  await receiver.deferMessage(defer);
  await receiver.deadLetterMessage(dead, { deadLetterReason: "reason" });
  const [deferred] = await receiver.receiveDeferredMessages(defer.sequenceNumber);
  await receiver.completeMessage(deferred);
  await nothing(receiver);
  same("the reason", (await one(from(s, "a", DEAD))).deadLetterReason, "reason");
});

scenario("peek_and_renew_on_a_subscription", [topic([subscription("a")])], async (s) => {
  await s.send("1");
  const receiver = from(s, "a");
  same("the peeked", bodies(await receiver.peekMessages(1)), ["1"]);
  const message = await one(receiver);
  await receiver.renewMessageLock(message);
  await receiver.completeMessage(message);
});

scenario("sessions_of_a_subscription", [topic([subscription("a", [], { RequiresSession: true })])], async (s) => {
  await s.send({ body: "1", sessionId: "x" }, { body: "2", sessionId: "y" });
  const receiver = await s.shared.acceptSession(s.name, "a", "y");
  same("the body", (await one(receiver)).body, "2");
  await receiver.setSessionState("state");
  same("the state", await receiver.getSessionState(), "state");
});

scenario("subscription_forwards", [topic([subscription("a", [], { ForwardTo: "@1" })]), { Properties: {} }], async (s) => {
  await s.send("1");
  same("the bodies", bodies(await drain(s.receiver({}, s.names[1]))), ["1"]);
});
