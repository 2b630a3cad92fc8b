// Connections: transports, keys, and entities that do not exist.

import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

import { bodies, drain, one, queue, refused, require, same, scenario } from "./support.mjs";

const sendBy = async (s, client, body = "1") => client.createSender(s.name).sendMessages({ body });

// The connection string of a token instead of a key.
function withToken(connection, { seconds = 600, key } = {}) {
  const parts = Object.fromEntries(connection.split(";").filter(Boolean).map((part) => part.split(/=(.*)/s)));
  const resource = encodeURIComponent(parts.Endpoint);
  const expiry = Math.floor(Date.now() / 1_000) + seconds;
  const signed = createHmac("sha256", key ?? parts.SharedAccessKey).update(`${resource}\n${expiry}`).digest("base64");
  const token = `SharedAccessSignature sr=${resource}&sig=${encodeURIComponent(signed)}&se=${expiry}&skn=${parts.SharedAccessKeyName}`;
  const emulator = parts.UseDevelopmentEmulator ? `;UseDevelopmentEmulator=${parts.UseDevelopmentEmulator}` : "";
  return `Endpoint=${parts.Endpoint};SharedAccessSignature=${token}${emulator}`;
}

async function roundTrip(s, client) {
  await sendBy(s, client);
  const receiver = client.createReceiver(s.name);
  const message = await one(receiver);
  same("the body", message.body, "1");
  await receiver.completeMessage(message);
  same("the peeked", await receiver.peekMessages(1), []);
}

scenario("wrong_key", [queue()], (s) => refused("UnauthorizedAccess", () => sendBy(s, s.client("wrong_key"))));

scenario("key_that_may_only_listen", [queue()], async (s) => {
  await refused("UnauthorizedAccess", () => sendBy(s, s.client("listen_only")));
  await s.send("1");
  same("the bodies", bodies(await drain(s.client("listen_only").createReceiver(s.name))), ["1"]);
});

scenario("key_that_may_only_send", [queue()], async (s) => {
  const client = s.client("send_only");
  await sendBy(s, client);
  await refused("UnauthorizedAccess", () => client.createReceiver(s.name).receiveMessages(1, { maxWaitTimeInMs: 2_000 }));
  same("the bodies", bodies(await drain(s.receiver())), ["1"]);
});

scenario("rules_need_a_key_that_may_manage", [queue()], async (s) => {
  s.setting("send_only");
  const manager = s.client("send_only").createRuleManager(s.name, "none");
  let error;
  await manager.deleteRule("rule").catch((raised) => (error = raised));
  same("it is refused", Boolean(error), true);
});

scenario("token_in_the_connection_string", [queue()], async (s) => {
  await sendBy(s, s.clientOf(withToken(s.setting("connection"))));
  same("the bodies", bodies(await drain(s.receiver())), ["1"]);
});

scenario("token_that_has_expired", [queue()], async (s) => {
  s.setting("wrong_key");
  const client = s.clientOf(withToken(s.setting("connection"), { seconds: -60 }));
  await refused("UnauthorizedAccess", () => sendBy(s, client));
});

scenario("token_of_another_key", [queue()], async (s) => {
  s.setting("wrong_key");
  const client = s.clientOf(withToken(s.setting("connection"), { key: "other" }));
  await refused("UnauthorizedAccess", () => sendBy(s, client));
});

scenario("queue_is_unknown", [], async (s) => {
  s.setting("wrong_key");
  const client = s.client();
  await refused("MessagingEntityNotFound", () => client.createSender("unknown-queue").sendMessages({ body: "1" }));
  await refused("MessagingEntityNotFound", () => client.createReceiver("unknown-queue").receiveMessages(1, { maxWaitTimeInMs: 2_000 }));
});

scenario("over_web_socket", [queue()], async (s) => {
  const webSocketOptions = { webSocket: require("ws"), webSocketConstructorOptions: { ca: readFileSync(s.setting("ca")) } };
  await roundTrip(s, s.client("web_socket", { webSocketOptions }));
});

scenario("over_tls", [queue()], async (s) => {
  // NODE_EXTRA_CA_CERTS names the certificate.
  await roundTrip(s, s.client("tls"));
});

scenario("many_connections", [queue()], async (s) => {
  await Promise.all(Array.from({ length: 12 }, (_, i) => sendBy(s, s.client(), String(i))));
  same("the bodies", bodies(await drain(s.receiver(), 12)).sort((a, b) => a - b), Array.from({ length: 12 }, (_, i) => String(i)));
});

scenario("client_is_closed_and_opened_again", [queue()], async (s) => {
  for (const body of ["0", "1"]) {
    const client = s.client();
    await sendBy(s, client, body);
    await client.close();
  }
  same("the bodies", bodies(await drain(s.receiver(), 2)), ["0", "1"]);
});
