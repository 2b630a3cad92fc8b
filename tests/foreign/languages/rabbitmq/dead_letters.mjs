import amqp from "amqplib";

const [url, queue, count] = process.argv.slice(2);
const connection = await amqp.connect(url);
const channel = await connection.createChannel();
await channel.prefetch(1);
let left = Number(count);
await new Promise((resolve) => channel.consume(`${queue}/$deadletterqueue`, (letter) => {
  const { headers, type } = letter.properties;
  console.log(headers.DeadLetterReason, type, letter.content.toString());
  console.error(headers.DeadLetterErrorDescription);
  channel.ack(letter);
  left -= 1;
  if (left === 0) resolve();
}));
await channel.close();
await connection.close();
