import { randomUUID } from "node:crypto";
import { once } from "node:events";
import rhea from "rhea";

const [url, address, order] = process.argv.slice(2);
const { hostname: host, port, username, password } = new URL(url);
const login = { username: decodeURIComponent(username), password: decodeURIComponent(password) };
const connection = rhea.connect({ host, port, ...login, reconnect: false });
setTimeout(() => { throw new Error("no outcome"); }, 30_000).unref();
const sender = connection.open_sender(address);
await once(sender, "sendable");
let accepted = false;
sender.on("accepted", () => { accepted = true; });
sender.send({
  body: rhea.message.data_section(Buffer.from(order)),
  durable: true,
  subject: "order",
  content_type: "application/json",
  message_id: randomUUID(),
  application_properties: { tenant: "north" },
});
// The broker has settled the message, with the outcome accepted, rejected, released or modified.
await once(sender, "settled");
if (!accepted) throw new Error("the message is not accepted");
connection.close();
