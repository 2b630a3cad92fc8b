import { randomUUID } from "node:crypto";
import { connect, headers } from "nats";

const [url, queue, order] = process.argv.slice(2);
const client = await connect({ servers: url });
const properties = headers();
properties.set("Sb-Subject", "order");
properties.set("Content-Type", "application/json");
properties.set("tenant", "north");
// The stream has stored the message when this returns.
await client.jetstream().publish(`consign.${queue}.m`, order, { msgID: randomUUID(), headers: properties });
await client.close();
