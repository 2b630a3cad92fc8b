// Encoders and decoders of Node: writes the values of values.json, and reads the bodies that this library has written.
//
//     peers.mjs MODULES write values.json             one line of JSON for each encoder and value
//     peers.mjs MODULES read values.json ours.jsonl   one line of JSON for each decoder and body
//
// MODULES is the folder of node_modules.

import { readFileSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, command, valuesPath, bodiesPath] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(modules, 'here.js')));
const manifest = (name) => JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'));

/** A package by its name, whichever kind of module it is. */
async function load(name) {
  const { type, exports, main } = manifest(name);
  if (type !== 'module') return require(name);
  return import(pathToFileURL(join(modules, name, exports?.['.']?.import ?? main)));
}

const msgpack = await load('@msgpack/msgpack');
const msgpackr = await load('msgpackr');
const msgpackLite = await load('msgpack-lite');
const cborX = await load('cbor-x');
const cborg = await load('cborg');
const cbor = await load('cbor');

const text = new TextEncoder();
const msgpackOfBigInts = { useBigInt64: true };
const extended = new cborX.Encoder({ useRecords: false, mapsAsObjects: false });
const packrOf32 = new msgpackr.Packr({ useRecords: false, useFloat32: msgpackr.FLOAT32_OPTIONS.DECIMAL_FIT });
const cborOf32 = new cborX.Encoder({ useRecords: false, useFloat32: cborX.FLOAT32_OPTIONS.ALWAYS });
const large = { highWaterMark: 1 << 20 };
// Tags that stand before a value of the same kind: of a set, and of a map whose keys are not text.
const tags = { 258: (decode) => decode(), 259: (decode) => decode() };

// name: [package, format, encode, decode]
const peers = {
  JSON: [null, 'json', (value) => text.encode(JSON.stringify(value)), (body) => JSON.parse(Buffer.from(body).toString())],
  '@msgpack/msgpack': ['@msgpack/msgpack', 'msgpack', (value) => msgpack.encode(value), (body) => msgpack.decode(body, msgpackOfBigInts)],
  '@msgpack/msgpack, big integers': [
    '@msgpack/msgpack', 'msgpack', (value) => msgpack.encode(value, msgpackOfBigInts), (body) => msgpack.decode(body, msgpackOfBigInts),
  ],
  '@msgpack/msgpack, integers as floats': [
    '@msgpack/msgpack', 'msgpack', (value) => msgpack.encode(value, { forceIntegerToFloat: true }),
    (body) => msgpack.decode(body, msgpackOfBigInts),
  ],
  msgpackr: ['msgpackr', 'msgpack', (value) => msgpackr.pack(value), (body) => msgpackr.unpack(body)],
  'msgpackr, short floats': ['msgpackr', 'msgpack', (value) => packrOf32.pack(value), (body) => packrOf32.unpack(body)],
  'msgpack-lite': ['msgpack-lite', 'msgpack', (value) => msgpackLite.encode(value), (body) => msgpackLite.decode(body)],
  'cbor-x': ['cbor-x', 'cbor', (value) => cborX.encode(value), (body) => cborX.decode(body)],
  'cbor-x, maps': ['cbor-x', 'cbor', (value) => extended.encode(value), (body) => extended.decode(body)],
  'cbor-x, short floats': ['cbor-x', 'cbor', (value) => cborOf32.encode(value), (body) => cborOf32.decode(body)],
  cborg: ['cborg', 'cbor', (value) => cborg.encode(value), (body) => cborg.decode(body, { useMaps: true, tags })],
  cbor: ['cbor', 'cbor', (value) => cbor.encodeOne(value, large), (body) => cbor.decode(body)],
  'cbor, canonical': ['cbor', 'cbor', (value) => cbor.encodeOne(value, { ...large, canonical: true }), (body) => cbor.decode(body)],
};

/** The kind of a description of values.json, if it is not the value itself. */
const kindOf = (value) => Object.keys(value).find((key) => key.startsWith('$'));

/** An integer as a program of JavaScript has it: a number where that is exact. */
const integer = (digits) => (Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits));

/** The value of JavaScript that the description of values.json names. */
function native(value) {
  if (Array.isArray(value)) return value.map(native);
  if (value === null || typeof value !== 'object') return value;
  const kind = kindOf(value);
  const times = value.times ?? 1;
  switch (kind) {
    case undefined: return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, native(item)]));
    case '$int': return integer(value[kind]);
    case '$bigint': return BigInt(value[kind]);
    case '$float': return Number(value[kind]);
    case '$text': return value[kind].repeat(times);
    case '$bytes': return Buffer.from(value[kind].repeat(times), 'hex');
    case '$array': return Array.from({ length: times }, () => native(value[kind]));
    case '$map': return new Map(value[kind].map(([key, item]) => [native(key), native(item)]));
    case '$set': return new Set(value[kind].map(native));
    case '$undefined': return undefined;
    case '$now': return value[kind];
    case '$date': return new Date(value[kind]);
    case '$typed': return globalThis[value[kind]].from(value.of);
    default: throw new Error(`values.json: unknown kind ${kind}`);
  }
}

const isOfAnotherLanguage = (value) => value !== null && typeof value === 'object' && '$uuid' in value;

/** What a reader takes for a date: a date, ISO text, milliseconds. */
function asMilliseconds(value) {
  if (value instanceof Date) return value.getTime();
  if (typeof value === 'string') return Date.parse(value);
  return typeof value === 'bigint' ? Number(value) : value;
}

const isNumber = (value) => typeof value === 'number' || typeof value === 'bigint';
const isArray = (value) => Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof Uint8Array));

/** Whether a decoder has given a value back. */
function same(expected, got) {
  if (expected === null || expected === undefined) return got === null || got === undefined;
  if (typeof expected === 'bigint') {
    return isNumber(got) && (typeof got === 'bigint' || Number.isInteger(got)) && BigInt(got) === expected;
  }
  if (typeof expected === 'number') {
    if (typeof got === 'bigint') return Number.isInteger(expected) && BigInt(expected) === got;
    return Object.is(expected, got);
  }
  if (typeof expected !== 'object') return expected === got;
  if (expected instanceof Uint8Array) {
    if (Array.isArray(got)) return same([...expected], got);
    return got instanceof Uint8Array && Buffer.from(expected).equals(Buffer.from(got));
  }
  if (expected instanceof Date) return asMilliseconds(got) === expected.getTime();
  if (expected instanceof Set) {
    if (!Array.isArray(got) && !(got instanceof Set)) return false;
    const sorted = (items) => [...items].sort((a, b) => Number(a) - Number(b));
    return same(sorted(expected), sorted(got));
  }
  if (isArray(expected)) {
    return isArray(got) && got.length === expected.length && Array.from(expected).every((item, at) => same(item, got[at]));
  }
  if (got === null || typeof got !== 'object' || Array.isArray(got) || ArrayBuffer.isView(got)) return false;
  // An object has no other keys than text, and no member for what is undefined.
  const entries = (value) => (value instanceof Map ? [...value] : Object.entries(value)).filter(([, item]) => item !== undefined);
  const members = new Map(entries(got).map(([key, item]) => [String(key), item]));
  const wanted = entries(expected);
  const nulls = [...members].filter(([key, item]) => item === null && !wanted.some(([name]) => String(name) === key));
  return wanted.length === members.size - nulls.length
    && wanted.every(([key, item]) => members.has(String(key)) && same(item, members.get(String(key))));
}

function short(value) {
  const shown = typeof value === 'bigint' ? `${value}n` : value instanceof Map || value instanceof Set
    ? `${value.constructor.name} of ${value.size}` : JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? `${item}n` : item)) ?? String(value);
  return shown.length <= 60 ? shown : `${shown.slice(0, 57)}...`;
}

/** The result, or why there is none. */
function attempt(call, argument) {
  try {
    return [call(argument), null];
  } catch (error) {
    return [null, `${error.constructor.name}: ${String(error.message).split('\n')[0]}`];
  }
}

/** Why a body does not hold the value, if it does not: what its own decoder and the others of its format say. */
function loss(name, value, body) {
  const [owner, format, , decode] = peers[name];
  const [got, error] = attempt(decode, body);
  if (error) return `its own decoder refuses the body: ${error}`;
  if (!same(value, got)) return `its own decoder gives ${short(got)}`;
  const others = Object.values(peers).filter((peer) => peer[1] === format && peer[0] !== owner);
  const answers = others.map((peer) => attempt(peer[3], body));
  if (answers.length && !answers.some(([got, error]) => error === null && same(value, got))) {
    const [got, error] = answers[0];
    return `no other decoder of Node reads it: ${error ?? short(got)}`;
  }
  return null;
}

const version = (name) => (name ? manifest(name).version : process.version.slice(1));

function* write(values) {
  for (const [name, [owner, format, encode]] of Object.entries(peers)) {
    for (const entry of values) {
      if (isOfAnotherLanguage(entry.value)) continue;
      const value = native(entry.value);
      const [written, error] = attempt(encode, value);
      // Some use one buffer for all that they write.
      const body = written === null ? null : Buffer.from(written);
      const lost = error ? `it cannot write the value: ${error}` : loss(name, value, body);
      yield {
        encoder: name, version: version(owner), format, value: entry.id, body: body?.toString('base64') ?? null, lost,
      };
    }
  }
}

/** What this library is expected to write of a value in a format. */
function formOfOurs({ value, ours = value, written = {} }, format) {
  return format in written ? written[format] : ours;
}

function* read(values, bodies) {
  const entries = new Map(values.map((entry) => [entry.id, entry]));
  const seen = new Set();
  for (const [name, [owner, format, encode, decode]] of Object.entries(peers)) {
    // A decoder reads a body once, however many ways its package has to write.
    if (seen.has(owner)) continue;
    seen.add(owner);
    for (const line of bodies.filter((line) => line.format === format)) {
      const value = native(formOfOurs(entries.get(line.value), format));
      const [got, error] = attempt(decode, Buffer.from(line.body, 'base64'));
      let [outcome, reason] = ['same', null];
      if (error) [outcome, reason] = ['refused', error];
      else if (!same(value, got)) [outcome, reason] = ['differs', `it gives ${short(got)}`];
      if (outcome !== 'same') {
        const [written, unwritten] = attempt(encode, value);
        if (unwritten || loss(name, value, Buffer.from(written))) outcome = 'lost';
      }
      yield { decoder: name, version: version(owner), format, value: line.value, outcome, reason };
    }
  }
}

const values = JSON.parse(readFileSync(valuesPath, 'utf8'));
const lines = command === 'write'
  ? write(values)
  : read(values, readFileSync(bodiesPath, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)));
for (const line of lines) {
  const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      // The reader of a pipe is slower.
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}
