// Validates an AsyncAPI document by the JSON Schema that the AsyncAPI Initiative publishes.
//
//     validate.mjs MODULES FILE     prints the number of errors, and each error on a line
//
// MODULES is the folder of node_modules, FILE has the document.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, file] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(modules, 'here.js')));
const Ajv = require('ajv').default;
const addFormats = require('ajv-formats').default;
const schema = require('@asyncapi/specs').schemas['3.0.0'];

const ajv = new Ajv({ allErrors: true, strict: false });
addFormats(ajv);
// The schema has a copy of draft 7, which Ajv has already.
delete schema.definitions['http://json-schema.org/draft-07/schema'];
const validate = ajv.compile(schema);
validate(JSON.parse(readFileSync(file, 'utf8')));
const errors = validate.errors ?? [];
console.log(errors.length);
for (const { instancePath, message } of errors) {
  console.log(`${instancePath}: ${message}`);
}
