import { randomUUID } from "node:crypto";
import { on, once } from "node:events";
import rhea from "rhea";

const [url, address, number, replies] = process.argv.slice(2);
const { hostname: host, port, username, password } = new URL(url);
const login = { username: decodeURIComponent(username), password: decodeURIComponent(password) };
const connection = rhea.connect({ host, port, ...login, reconnect: false });
setTimeout(() => { throw new Error("no reply"); }, 30_000).unref();
// A queue of this caller, or else an address of the broker that ends with the connection.
const receiver = connection.open_receiver({ source: replies ?? { dynamic: true } });
const received = on(receiver, "message");
await once(receiver, "receiver_open");
const sender = connection.open_sender(address);
await once(sender, "sendable");
let accepted = false;
sender.on("accepted", () => { accepted = true; });
const call = randomUUID();
sender.send({
  // One data section. By default the body is a value.
  body: rhea.message.data_section(Buffer.from(number)),
  subject: "half",
  content_type: "application/json",
  message_id: call,
  correlation_id: call,
  // The path of the queue: its address without the prefix of RabbitMQ 3.
  reply_to: receiver.source.address.replace(/^\/amq\/queue\//, ""),
  application_properties: { "x-timeout-ms": 30_000 },
});
await once(sender, "settled");
if (!accepted) throw new Error("the request is not accepted");
for await (const [{ message: reply }] of received) {
  // A queue may have the reply of a call that has ended.
  if (reply.correlation_id !== call) continue;
  const fault = reply.application_properties?.["x-fault"];
  console.log(fault ? `fault ${fault}` : `reply ${JSON.parse(reply.body.content)}`);
  break;
}
connection.close();
