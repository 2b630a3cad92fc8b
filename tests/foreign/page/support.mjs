// Servers, browsers and comparisons of the journeys.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";

const load = createRequire(join(process.env.NODE_MODULES, "package.json"));
const { chromium } = load("playwright-core");
const { ServiceBusClient } = load("@azure/service-bus");

export const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
export const KEY = "the key of the journeys";

const journeys = [];

// A journey has a page of its own in a browser of its own, and fails if the page reports an error.
export function journey(name, run, options = {}) {
  journeys.push({ name, run, options });
}

export function require(condition, what) {
  if (!condition) throw new Error(what);
}

export function same(what, got, expected) {
  const [one, other] = [JSON.stringify(got), JSON.stringify(expected)];
  require(one === other, `${what}: ${one} instead of ${other}`);
}

// Waits until a condition holds; the limit is that of a journey that hangs, and no measure.
export async function until(what, condition) {
  for (let left = 600; left > 0; left--) {
    const value = await condition();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`it never holds: ${what}`);
}

// `consign serve` on free ports.
export class Server {
  static async start(...options) {
    const server = new Server();
    const ports = ["--amqp-port", "0", "--http-port", "0"];
    server.process = spawn(settings.program, ["serve", ...ports, ...options], { stdio: ["ignore", "pipe", "ignore"] });
    server.ended = new Promise((resolve) => server.process.once("exit", resolve));
    for await (const line of createInterface({ input: server.process.stdout })) {
      const [, page] = line.match(/^Page: (.*)\/$/) ?? [];
      const [, connection] = line.match(/^AMQP: (.*)$/) ?? [];
      server.page ??= page;
      server.connection ??= connection;
      if (line.startsWith("Ready")) return server;
    }
    throw new Error("the server has not started");
  }

  // As a crash: it has no time to do anything.
  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  async stop() {
    this.process.kill("SIGTERM");
    await this.ended;
  }

  async send(queue, ...messages) {
    await this.#with((client) => client.createSender(queue).sendMessages(messages));
  }

  // Receives and completes a number of messages, and the others that are there.
  async drain(queue, count) {
    return this.#with(async (client) => {
      const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
      const all = [];
      for (;;) {
        // Such a receiver waits for as many as it asks for.
        const left = count - all.length;
        const maxWaitTimeInMs = left > 0 ? 20_000 : 3_000;
        const some = await receiver.receiveMessages(left > 0 ? Math.min(left, 500) : 500, { maxWaitTimeInMs });
        if (some.length === 0) return all;
        all.push(...some);
      }
    });
  }

  async #with(use) {
    const client = new ServiceBusClient(this.connection);
    try {
      return await use(client);
    } finally {
      await client.close();
    }
  }
}

// A server for one journey.
export async function withServer(options, use) {
  const server = await Server.start(...options);
  try {
    await use(server);
  } finally {
    await server.stop();
  }
}

export const data = (name) => ["--data", join(settings.folder, name)];
const encoded = encodeURIComponent;

// What a person does with the page.
export class Visitor {
  constructor(server, page) {
    Object.assign(this, { server, page });
  }

  go(address) {
    return this.page.goto(`${this.server.page}/${address}`);
  }

  messages(path, more = "") {
    return this.go(`messages?path=${encoded(path)}${more}`);
  }

  deadLetters(path) {
    return this.go(`dead-letters?path=${encoded(path)}`);
  }

  text(selector = "main") {
    return this.page.locator(selector).first().innerText();
  }

  count(selector) {
    return this.page.locator(selector).count();
  }

  // A click ends when the next document has begun, and what is counted and read has to be there.
  async click(locator) {
    await locator.first().click();
    await this.page.waitForLoadState();
  }

  link(name) {
    return this.click(this.page.getByRole("link", { name, exact: true }));
  }

  button(name) {
    return this.click(this.page.getByRole("button", { name, exact: true }));
  }

  // The message in the first row of a table.
  firstMessage() {
    return this.click(this.page.locator("tbody th a"));
  }

  async has(text) {
    const shown = await this.text("body");
    require(shown.includes(text), `${JSON.stringify(text)} is not in ${JSON.stringify(shown.slice(0, 600))}`);
  }

  // The number beside a name in the head of an entity.
  figure(name) {
    return this.text(`.head [data-count="${name}"]`);
  }

  shot(name, fullPage = false) {
    return this.page.screenshot({ path: join(settings.screenshots, `${name}.png`), fullPage });
  }

  jobState() {
    return this.text("[data-job-state]");
  }

  async jobDone() {
    return Number(await this.text("[data-job-done]"));
  }
}

async function run(browser, main, { name, run, options }) {
  const { server = main, quiet = true, ...context } = options;
  const opened = await browser.newContext({ viewport: { width: 1_280, height: 900 }, ...context });
  const page = await opened.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => errors.push(`a dialog: ${dialog.message()}`) && dialog.dismiss());
  page.on("console", (line) => line.type() === "error" && errors.push(line.text()));
  page.on("request", (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (protocol !== "about:" && hostname !== "127.0.0.1" && hostname !== "localhost") errors.push(`it asks ${hostname}`);
  });
  page.setDefaultTimeout(20_000);
  try {
    await run(new Visitor(server, page));
    if (quiet) same("the errors of the page", errors, []);
    console.log(`pass ${name}`);
  } catch (error) {
    await page.screenshot({ path: join(settings.screenshots, `FAILED-${name}.png`) }).catch(() => {});
    console.log(`FAIL ${name}: ${String(error.message ?? error).replaceAll("\n", " ").slice(0, 900)}`);
  } finally {
    await opened.close();
  }
}

// The path of the browser, which has to be absolute.
function executablePath() {
  const folders = process.env.PATH.split(delimiter);
  const found = folders.map((folder) => join(folder, settings.browser)).find(existsSync);
  return settings.browser.includes("/") ? settings.browser : found;
}

export async function runAll() {
  // A sandbox needs rights that the root of a container does not have.
  const browser = await chromium.launch({ executablePath: executablePath(), args: ["--no-sandbox"] });
  const server = await Server.start(...data("main"), "--create-entities", "--undo-window", "2s");
  try {
    for (const one of journeys.filter(({ name }) => name.includes(settings.only))) await run(browser, server, one);
    console.log("end");
  } finally {
    await browser.close();
    await server.stop();
  }
}
