import { once } from "node:events";
import pg from "pg";

const [url, queue, count] = process.argv.slice(2);
const database = new pg.Client({ connectionString: url });
await database.connect();
await database.query("SELECT client_listen()");
const receive = `
  SELECT id, lock, dead_letter_reason, dead_letter_description, properties ->> 'subject' AS subject, body
  FROM client_receive($1)`;
for (let left = Number(count); left > 0;) {
  const notified = once(database, "notification", { signal: AbortSignal.timeout(1000) }).catch(() => {});
  const { rows: [letter] } = await database.query(receive, [`${queue}/$deadletterqueue`]);
  if (!letter) {
    // A notification has arrived, or a second has passed.
    await notified;
    continue;
  }
  console.log(letter.dead_letter_reason, letter.subject, letter.body.toString());
  console.error(letter.dead_letter_description);
  await database.query("SELECT client_complete($1, $2)", [letter.id, letter.lock]);
  left -= 1;
}
await database.end();
