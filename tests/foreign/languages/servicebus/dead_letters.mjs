import { ServiceBusClient } from "@azure/service-bus";

const [url, queue, count] = process.argv.slice(2);
const client = new ServiceBusClient(url);
// Without this option the client reads a body that is JSON.
const receiver = client.createReceiver(queue, { subQueueType: "deadLetter", skipParsingBodyAsJson: true });
for (let left = Number(count); left > 0;) {
  for (const letter of await receiver.receiveMessages(left, { maxWaitTimeInMs: 5000 })) {
    console.log(letter.deadLetterReason, letter.subject, letter.body.toString());
    console.error(letter.deadLetterErrorDescription);
    await receiver.completeMessage(letter);
    left -= 1;
  }
}
await client.close();
