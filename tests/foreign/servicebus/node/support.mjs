// What the scenarios share.

import { isDeepStrictEqual, inspect } from "node:util";
import { createRequire } from "node:module";
import { join } from "node:path";

export const require = createRequire(join(process.env.NODE_MODULES ?? process.cwd(), "package.json"));
export const { ServiceBusClient, delay } = require("@azure/service-bus");

// How long a receiver waits for what is there, and for what is not.
export const WAIT = { maxWaitTimeInMs: 10_000 };
export const SHORT = { maxWaitTimeInMs: 1_000 };
// For what is there only after 20 s.
export const LONG = { maxWaitTimeInMs: 30_000 };
export const DELETE = { receiveMode: "receiveAndDelete" };
export const DEAD = { subQueueType: "deadLetter" };

export const scenarios = [];

export function scenario(name, entities, run, { alone = false } = {}) {
  scenarios.push({ name, entities, run, alone });
}

export const queue = (Properties = {}) => ({ Properties });
export const topic = (Subscriptions, Properties = {}) => ({ Properties, Subscriptions });
export const subscription = (Name, Rules = [], Properties = {}) => ({ Name, Properties, Rules });

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
export const later = (milliseconds) => new Date(Date.now() + milliseconds);
export const numbers = (count) => Array.from({ length: count }, (_, i) => String(i));
export const bodies = (messages) => messages.map(({ body }) => (Buffer.isBuffer(body) ? body.toString() : body));

export class Missing extends Error {}

export function same(what, got, expected) {
  if (!isDeepStrictEqual(got, expected)) {
    throw new Error(`${what}: ${inspect(got, { breakLength: Infinity })} instead of ${inspect(expected, { breakLength: Infinity })}`);
  }
}

// Fails unless a call is refused with one of the codes.
export async function refused(codes, call) {
  try {
    await call();
  } catch (error) {
    if (![codes].flat().includes(error.code ?? error.name)) {
      throw new Error(`${error.code ?? error.name} instead of ${codes}: ${error.message}`);
    }
    return error;
  }
  throw new Error(`no ${codes}`);
}

// A client of the server, and the names of a scenario's entities.
export class Context {
  constructor(settings, names) {
    this.settings = settings;
    this.names = names;
    this.name = names[0];
    this.clients = [];
  }

  setting(name) {
    if (!this.settings[name]) {
      throw new Missing(`the server under test has no ${name}`);
    }
    return this.settings[name];
  }

  // A client that tries once.
  client(connection = "connection", options = {}) {
    return this.clientOf(this.setting(connection), options);
  }

  clientOf(connection, options = {}) {
    const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0, timeoutInMs: 60_000 }, ...options });
    this.clients.push(client);
    return client;
  }

  get shared() {
    this.first ??= this.client();
    return this.first;
  }

  sender(name = this.name) {
    return this.shared.createSender(name);
  }

  receiver(options = {}, name = this.name) {
    return this.shared.createReceiver(name, options);
  }

  async send(...messages) {
    const sender = this.sender();
    for (const message of messages) {
      await sender.sendMessages(typeof message === "string" ? { body: message } : message);
    }
    await sender.close();
  }

  async close() {
    await Promise.allSettled(this.clients.map((client) => client.close()));
  }
}

export async function one(receiver, options = WAIT) {
  const messages = await receiver.receiveMessages(1, options);
  same("the number of messages", messages.length, 1);
  return messages[0];
}

export async function several(receiver, count) {
  const messages = [];
  while (messages.length < count) {
    const more = await receiver.receiveMessages(count - messages.length, WAIT);
    if (more.length === 0) {
      throw new Error(`${messages.length} of ${count} messages came`);
    }
    messages.push(...more);
  }
  return messages;
}

export async function nothing(receiver) {
  same("the messages", bodies(await receiver.receiveMessages(1, SHORT)), []);
}

// Completes a number of messages, and the others that are there. Returns them.
//
// A client that has credit left drains its link. If that takes more than 200 ms it closes the link, which releases the messages.
// So it asks for as many as are expected.
export async function drain(receiver, count = 1) {
  const taken = [];
  for (;;) {
    const left = count - taken.length;
    const messages = await (left > 0 ? receiver.receiveMessages(left, WAIT) : receiver.receiveMessages(50, SHORT));
    if (messages.length === 0) {
      return taken;
    }
    for (const message of messages) {
      await receiver.completeMessage(message);
    }
    taken.push(...messages);
  }
}
