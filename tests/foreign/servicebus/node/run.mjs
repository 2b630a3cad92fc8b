// Runs the scenarios of @azure/service-bus, and of the azure-sb before it, against a server, each on entities of its own.
//
// `run.mjs entities` prints the entities of all scenarios, in the format of the configuration of Microsoft's emulator.
// `run.mjs SETTINGS.json [NAME...]` runs the scenarios and prints a line for each: `pass NAME` or `FAIL NAME: reason`.
// The settings are those of the program in Python. NODE_MODULES is the folder that `scripts/foreign` prints.

import { readFileSync } from "node:fs";

import { Context, Missing, scenarios } from "./support.mjs";

for (const module of ["sending", "receiving", "settling", "sessions", "topics", "rules", "connections", "administration", "azure_sb"]) {
  await import(`./${module}.mjs`);
}

const AT_ONCE = 24;
// Longer than the scenario that waits the longest takes on a busy machine.
const MILLISECONDS = 90_000;

const namesOf = ({ name, entities }) => entities.map((_, i) => (i === 0 ? `node-${name}` : `node-${name}-${i}`));

function emulatorConfig() {
  const queues = [];
  const topics = [];
  for (const scenario of scenarios) {
    const names = namesOf(scenario);
    scenario.entities.forEach((entity, i) => {
      // A target of another entity of the scenario is `@1`.
      const own = JSON.parse(JSON.stringify(entity).replaceAll(/"@(\d+)"/g, (_, at) => `"${names[at]}"`));
      (own.Subscriptions ? topics : queues).push({ Name: names[i], ...own });
    });
  }
  const namespace = { Name: "sbemulatorns", Queues: queues, Topics: topics };
  return { UserConfig: { Namespaces: [namespace], Logging: { Type: "Console" } } };
}

let failed = 0;

async function run(scenario, settings) {
  const context = new Context(settings, namesOf(scenario));
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it did not end")), MILLISECONDS);
  });
  try {
    await Promise.race([scenario.run(context), late]);
    console.log(`pass ${scenario.name}`);
  } catch (error) {
    if (error instanceof Missing) {
      console.log(`skip ${scenario.name}: ${error.message}`);
    } else {
      failed += 1;
      const place = /(\w+\.mjs:\d+)/.exec((error.stack ?? "").replaceAll(/support\.mjs:\d+/g, ""))?.[1] ?? "";
      console.log(`FAIL ${scenario.name}: ${error.code ?? error.name}: ${String(error.message).split("\n")[0]} (${place})`);
    }
  } finally {
    clearTimeout(timer);
    await Promise.race([context.close(), new Promise((resolve) => setTimeout(resolve, 2_000))]);
  }
}

if (process.argv[2] === "entities") {
  console.log(JSON.stringify(emulatorConfig()));
} else {
  const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
  const names = process.argv.slice(3);
  const chosen = scenarios.filter(({ name }) => names.length === 0 || names.includes(name));
  for (const next of chosen.filter(({ alone }) => alone)) {
    await run(next, settings);
  }
  const left = chosen.filter(({ alone }) => !alone);
  const worker = async () => {
    for (let next = left.shift(); next; next = left.shift()) {
      await run(next, settings);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  console.log(`${chosen.length} scenario(s), ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
