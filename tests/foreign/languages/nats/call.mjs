import { connect } from "nats";

const [url, subject, number] = process.argv.slice(2);
const client = await connect({ servers: url });
const reply = await client.request(subject, number, { timeout: 30_000 });
const fault = reply.headers?.get("Nats-Service-Error");
console.log(fault ? `fault ${fault}` : `reply ${reply.json()}`);
await client.close();
