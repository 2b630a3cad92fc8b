import { connect } from "nats";

const [url, queue, count] = process.argv.slice(2);
const client = await connect({ servers: url });
const consumer = await client.jetstream().consumers.get(`consign_${queue}_x`, "dead");
for (let left = Number(count); left > 0; left -= 1) {
  const letter = await consumer.next({ expires: 30_000 });
  if (!letter) throw new Error("no dead letter");
  console.log(letter.headers.get("DeadLetterReason"), letter.headers.get("Sb-Subject"), letter.string());
  console.error(letter.headers.get("DeadLetterErrorDescription"));
  await letter.ackAck();
}
await client.close();
