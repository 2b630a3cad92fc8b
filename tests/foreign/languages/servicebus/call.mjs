import { randomUUID } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";

const [url, queue, number] = process.argv.slice(2);
const client = new ServiceBusClient(url);
const [replies, call] = [`${queue}-replies`, randomUUID()];
// Callers share the queue of replies: each call has a session.
const receiver = await client.acceptSession(replies, call);
await client.createSender(queue).sendMessages({
  // The client sends a Buffer unchanged. It writes other values as JSON.
  body: Buffer.from(number),
  subject: "half",
  contentType: "application/json",
  messageId: call,
  replyTo: replies,
  replyToSessionId: call,
  timeToLive: 30_000,
});
const [reply] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 30_000 });
if (!reply) throw new Error("no reply");
const fault = reply.applicationProperties?.["x-fault"];
// The client reads a body that is JSON.
console.log(fault ? `fault ${fault}` : `reply ${reply.body}`);
await receiver.completeMessage(reply);
await client.close();
