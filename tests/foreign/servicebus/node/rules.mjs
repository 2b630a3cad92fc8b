// The rule manager of a subscription.

import { bodies, drain, refused, same, scenario, subscription, topic } from "./support.mjs";

const one = [topic([subscription("a")])];
const manager = (s) => s.shared.createRuleManager(s.name, "a");
const received = async (s) => bodies(await drain(s.shared.createReceiver(s.name, "a")));

async function rules(s) {
  const found = [];
  for await (const rule of manager(s).listRules()) {
    found.push(rule);
  }
  return found;
}

scenario("default_rule", one, async (s) => {
  const [rule, ...others] = await rules(s);
  same("the rule", [rule.name, rule.filter.sqlExpression, others.length], ["$Default", "1=1", 0]);
});

scenario("create_an_sql_rule", one, async (s) => {
  await manager(s).deleteRule("$Default");
  await manager(s).createRule("sql", { sqlExpression: "n > 5" });
  await s.send({ body: "1", applicationProperties: { n: 1 } }, { body: "2", applicationProperties: { n: 9 } });
  same("the bodies", await received(s), ["2"]);
  const [rule] = await rules(s);
  same("the rule", [rule.name, rule.filter.sqlExpression], ["sql", "n > 5"]);
});

scenario("create_an_sql_rule_with_an_action", one, async (s) => {
  await manager(s).deleteRule("$Default");
  await manager(s).createRule("sql", { sqlExpression: "n = 1" }, { sqlExpression: "SET sys.Label = 'changed'" });
  await s.send({ body: "1", applicationProperties: { n: 1 } });
  const [message] = await drain(s.shared.createReceiver(s.name, "a"));
  same("the subject", message.subject, "changed");
  const [rule] = await rules(s);
  same("the action", rule.action.sqlExpression, "SET sys.Label = 'changed'");
});

scenario("create_a_correlation_rule", one, async (s) => {
  await manager(s).deleteRule("$Default");
  const filter = { correlationId: "c", subject: "l", applicationProperties: { p: "v" } };
  await manager(s).createRule("correlation", filter);
  const fields = { correlationId: "c", subject: "l", applicationProperties: { p: "v" } };
  await s.send({ body: "1", ...fields }, { body: "2", ...fields, correlationId: "other" });
  same("the bodies", await received(s), ["1"]);
  const [rule] = await rules(s);
  same("the filter", [rule.filter.correlationId, rule.filter.subject, rule.filter.applicationProperties], ["c", "l", { p: "v" }]);
});

scenario("create_true_and_false_rules", one, async (s) => {
  await manager(s).deleteRule("$Default");
  await manager(s).createRule("false", { sqlExpression: "1=0" });
  await s.send("1");
  await manager(s).createRule("true", { sqlExpression: "1=1" });
  await s.send("2");
  same("the bodies", await received(s), ["2"]);
  same("the rules", (await rules(s)).map(({ name }) => name).sort(), ["false", "true"]);
});

scenario("create_a_rule_twice", one, async (s) => {
  await manager(s).createRule("rule", { sqlExpression: "1=1" });
  await refused("MessagingEntityAlreadyExists", () => manager(s).createRule("rule", { sqlExpression: "1=1" }));
});

scenario("delete_an_unknown_rule", one, async (s) => {
  await refused("MessagingEntityNotFound", () => manager(s).deleteRule("unknown"));
});

scenario("create_a_rule_that_is_not_sql", one, async (s) => {
  let error;
  await manager(s).createRule("rule", { sqlExpression: "n >" }).catch((raised) => (error = raised));
  same("it is refused", Boolean(error), true);
});

scenario("list_many_rules", one, async (s) => {
  const names = Array.from({ length: 30 }, (_, i) => `rule ${i}`);
  for (const name of names) {
    await manager(s).createRule(name, { sqlExpression: "1=0" });
  }
  same("the rules", new Set((await rules(s)).map(({ name }) => name)), new Set(["$Default", ...names]));
});
