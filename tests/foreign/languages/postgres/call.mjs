import { once } from "node:events";
import pg from "pg";

const [url, queue, number] = process.argv.slice(2);
const database = new pg.Client({ connectionString: url });
await database.connect();
const row = async (sql, values) => (await database.query(sql, values)).rows[0];

// The queue is deleted after this connection has ended.
const { replies } = await row("SELECT client_reply_queue() AS replies");
const properties = {
  subject: "half",
  content_type: "application/json",
  reply_to: replies,
  time_to_live_ms: 30_000,
};
const { call } = await row("SELECT client_send($1, $2, $3) AS call", [queue, Buffer.from(number), properties]);
const deadline = Date.now() + 30_000;
let reply;
for (;;) {
  if (Date.now() > deadline) throw new Error("no reply in time");
  const notified = once(database, "notification", { signal: AbortSignal.timeout(1000) }).catch(() => {});
  reply = await row("SELECT id, lock, properties, body FROM client_receive($1)", [replies]);
  if (reply) break;
  // A notification has arrived, or a second has passed.
  await notified;
}
if (reply.properties.correlation_id !== call) throw new Error("not the reply");
const fault = reply.properties.application?.["x-fault"];
console.log(fault ? `fault ${fault}` : `reply ${JSON.parse(reply.body)}`);
await row("SELECT client_complete($1, $2)", [reply.id, reply.lock]);
await database.end();
