import pg from "pg";

const [url, queue, order] = process.argv.slice(2);
const database = new pg.Client({ connectionString: url });
await database.connect();
const properties = { subject: "order", content_type: "application/json", application: { tenant: "north" } };
// In a transaction the message is sent when that commits, together with your own rows.
await database.query("SELECT client_send($1, $2, $3)", [queue, Buffer.from(order), properties]);
await database.end();
