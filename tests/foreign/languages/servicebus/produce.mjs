import { randomUUID } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";

const [url, queue, order] = process.argv.slice(2);
const client = new ServiceBusClient(url);
await client.createSender(queue).sendMessages({
  body: Buffer.from(order),
  subject: "order",
  contentType: "application/json",
  messageId: randomUUID(),
  applicationProperties: { tenant: "north" },
});
await client.close();
