import { randomUUID } from "node:crypto";
import amqp from "amqplib";

const [url, queue, order] = process.argv.slice(2);
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
let returned = false;
channel.on("return", () => { returned = true; });
channel.sendToQueue(queue, Buffer.from(order), {
  type: "order",
  contentType: "application/json",
  messageId: randomUUID(),
  persistent: true,
  mandatory: true,
  headers: { tenant: "north" },
});
// RabbitMQ has stored the message, or has returned it because there is no such queue.
await channel.waitForConfirms();
if (returned) throw new Error(`no queue ${queue}`);
await connection.close();
