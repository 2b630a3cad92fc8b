import { randomUUID } from "node:crypto";
import amqp from "amqplib";

const [url, queue, number] = process.argv.slice(2);
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
const call = randomUUID();
const replied = new Promise((resolve, reject) => {
  setTimeout(reject, 30_000, new Error("no reply")).unref();
  channel.on("return", () => reject(new Error(`there is no queue ${queue}`)));
  // RabbitMQ passes replies straight to this channel. There is no queue to delete.
  channel.consume("amq.rabbitmq.reply-to", (reply) => {
    if (reply?.properties.correlationId === call) resolve(reply);
  }, { noAck: true });
});
channel.sendToQueue(queue, Buffer.from(number), {
  type: "half",
  contentType: "application/json",
  correlationId: call,
  replyTo: "amq.rabbitmq.reply-to",
  expiration: 30_000,
  mandatory: true,
});
const reply = await replied;
const fault = reply.properties.headers?.["x-fault"];
console.log(fault ? `fault ${fault}` : `reply ${JSON.parse(reply.content)}`);
await connection.close();
