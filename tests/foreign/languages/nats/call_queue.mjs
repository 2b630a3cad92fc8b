import { randomUUID } from "node:crypto";
import { connect, createInbox, headers } from "nats";

const [url, queue, number] = process.argv.slice(2);
const client = await connect({ servers: url });
const call = randomUUID();
const inbox = createInbox();
const replies = client.subscribe(inbox, { max: 1, timeout: 30_000 });
const properties = headers();
properties.set("Sb-Subject", "half");
properties.set("Sb-Reply-To", inbox);
properties.set("Sb-Correlation-Id", call);
// The stream has stored the request when this returns.
await client.jetstream().publish(`consign.${queue}.m`, number, { headers: properties });
for await (const reply of replies) {
  if (reply.headers.get("Sb-Correlation-Id") !== call) throw new Error("not the reply");
  const fault = reply.headers.get("Nats-Service-Error");
  console.log(fault ? `fault ${fault}` : `reply ${reply.json()}`);
}
await client.close();
