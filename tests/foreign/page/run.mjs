// Journeys through the page of `consign serve`: `node run.mjs SETTINGS`. Each prints `pass NAME` or `FAIL NAME: reason`.

import "./looking.mjs";
import "./dead_letters.mjs";
import "./security.mjs";
import "./access.mjs";
import { runAll } from "./support.mjs";

await runAll();
