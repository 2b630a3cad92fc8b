import { once } from "node:events";
import rhea from "rhea";

const [url, address, count] = process.argv.slice(2);
const { hostname: host, port, username, password } = new URL(url);
const login = { username: decodeURIComponent(username), password: decodeURIComponent(password) };
const connection = rhea.connect({ host, port, ...login, reconnect: false });
// By default rhea requests 1,000 messages, and accepts each one as it arrives.
const receiver = connection.open_receiver({ source: address, credit_window: 0, autoaccept: false });
for (let left = Number(count); left > 0; left -= 1) {
  const received = once(receiver, "message", { signal: AbortSignal.timeout(30_000) });
  receiver.add_credit(1);
  const [{ message: letter, delivery }] = await received;
  const { DeadLetterReason, DeadLetterErrorDescription } = letter.application_properties ?? {};
  console.log(DeadLetterReason, letter.subject, letter.body.content.toString());
  console.error(DeadLetterErrorDescription);
  // Until here the message is locked. It is released if this program ends.
  delivery.accept();
}
connection.close();
