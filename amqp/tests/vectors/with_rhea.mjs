// AMQP values as the encoder and the decoder of rhea have them.
//
//     NODE_MODULES=folder node with_rhea.mjs write       writes rhea.txt: each value of values.json, as rhea encodes it
//     NODE_MODULES=folder node with_rhea.mjs check FILE  decodes each line of FILE, which must be the value of that id
//     NODE_MODULES=folder node with_rhea.mjs exchange    for each line of the standard input, `{"value", "bytes"}`, one of
//                                                        what rhea makes of them: `{"bytes", "value"}`, or `{"error"}`
//
// A line of these files is an id and an encoding in hexadecimal. A value that rhea cannot write has the reason behind `-`.
// Ids that begin with `message-` and `frame-` are whole messages and frames, whose fields are in codec/vectors.rs.

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const folder = import.meta.dirname ?? new URL('.', import.meta.url).pathname;
const require = createRequire(resolve(process.env.NODE_MODULES ?? folder, 'package.json'));
const types = require('rhea/lib/types.js');
const rhea = require('rhea');
const frames = require('rhea/lib/frames.js');
const terminus = require('rhea/lib/terminus.js');

const lines = (file) => readFileSync(file, 'utf8').split('\n').filter(Boolean);
const values = new Map(lines(join(folder, 'values.json')).map(JSON.parse).map(({ id, value }) => [id, value]));

const hex = (buffer) => Buffer.from(buffer).toString('hex');
const unhex = (text) => Buffer.from(text, 'hex');

// Beyond 53 bits rhea has the bytes of a number.
function integer(text) {
    if (Number.isSafeInteger(Number(text))) return Number(text);
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(text)));
    return bytes;
}

const written = {
    null: () => types.Null(),
    boolean: (value) => types.wrap_boolean(value),
    ubyte: (text) => types.wrap_ubyte(integer(text)),
    ushort: (text) => types.wrap_ushort(integer(text)),
    uint: (text) => types.wrap_uint(integer(text)),
    ulong: (text) => types.wrap_ulong(integer(text)),
    byte: (text) => types.wrap_byte(integer(text)),
    short: (text) => types.wrap_short(integer(text)),
    int: (text) => types.wrap_int(integer(text)),
    long: (text) => types.wrap_long(integer(text)),
    timestamp: (text) => types.wrap_timestamp(integer(text)),
    float: (text) => types.wrap_float(unhex(text).readFloatBE()),
    double: (text) => types.wrap_double(unhex(text).readDoubleBE()),
    decimal32: (text) => types.Decimal32(unhex(text)),
    decimal64: (text) => types.Decimal64(unhex(text)),
    decimal128: (text) => types.Decimal128(unhex(text)),
    char: (text) => types.wrap_char(Number(text)),
    uuid: (text) => types.wrap_uuid(unhex(text)),
    binary: (text) => types.wrap_binary(unhex(text)),
    string: (text) => types.wrap_string(text),
    symbol: (text) => types.wrap_symbol(text),
    list: (items) => (items.length === 0 ? types.List0() : types.List32(items.map(wrap))),
    map: (items) => types.Map32(items.map(wrap)),
    described: (descriptor, value) => {
        if (value[0] === 'described') throw new Error('two descriptors');
        return types.described(wrap(descriptor), wrap(value));
    },
    array: (element, descriptors, items) =>
        types.wrap_array(items.map(content), constructors[element], descriptors.map(wrap)[0]),
};

// The constructor of an array is given by whoever writes it: here the one for all values of the type.
const constructors = {
    boolean: 0x56, ubyte: 0x50, ushort: 0x60, uint: 0x70, ulong: 0x80, byte: 0x51, short: 0x61, int: 0x71, long: 0x81,
    timestamp: 0x83, float: 0x72, double: 0x82, char: 0x73, uuid: 0x98, binary: 0xb0, string: 0xb1, symbol: 0xb3,
    list: 0xd0, map: 0xd1, null: 0x40, decimal32: 0x74, decimal64: 0x84, decimal128: 0x94,
};

// An element of an array, without a type of its own.
function content([kind, value]) {
    if (kind === 'boolean') return Number(value);
    if (kind === 'list' || kind === 'map') return value.map(wrap);
    if (kind === 'array') throw new Error('arrays of arrays');
    return written[kind](value).value;
}

function wrap([kind, ...content]) {
    return written[kind](...content);
}

const names = [
    [['null'], [0x40]], [['boolean'], [0x41, 0x42, 0x56]], [['ubyte'], [0x50]], [['ushort'], [0x60]],
    [['uint'], [0x43, 0x52, 0x70]], [['ulong'], [0x44, 0x53, 0x80]], [['byte'], [0x51]], [['short'], [0x61]],
    [['int'], [0x54, 0x71]], [['long'], [0x55, 0x81]], [['float'], [0x72]], [['double'], [0x82]], [['char'], [0x73]],
    [['decimal32'], [0x74]], [['decimal64'], [0x84]], [['decimal128'], [0x94]], [['timestamp'], [0x83]], [['uuid'], [0x98]],
    [['binary'], [0xa0, 0xb0]], [['string'], [0xa1, 0xb1]], [['symbol'], [0xa3, 0xb3]],
    [['list'], [0x45, 0xc0, 0xd0]], [['map'], [0xc1, 0xd1]], [['array'], [0xe0, 0xf0]],
];
const kinds = new Map(names.flatMap(([[name], codes]) => codes.map((code) => [code, name])));

function number(value, signed) {
    if (!Buffer.isBuffer(value)) return String(value);
    return String(signed ? value.readBigInt64BE() : value.readBigUInt64BE());
}

// What was read, in the notation of values.json.
function read(typed) {
    if (typed.descriptor) {
        const { descriptor, ...value } = typed;
        return ['described', read(descriptor), read(value)];
    }
    const { type, value } = typed;
    const kind = kinds.get(type.typecode);
    switch (kind) {
        case 'null': return ['null'];
        case 'boolean': return [kind, type.typecode === 0x56 ? value !== 0 : type.typecode === 0x41];
        case 'timestamp': return [kind, String(value.getTime())];
        case 'float': { const bytes = Buffer.alloc(4); bytes.writeFloatBE(value); return [kind, hex(bytes)]; }
        case 'double': { const bytes = Buffer.alloc(8); bytes.writeDoubleBE(value); return [kind, hex(bytes)]; }
        case 'decimal32': case 'decimal64': case 'decimal128': case 'uuid': case 'binary': return [kind, hex(value)];
        case 'string': case 'symbol': return [kind, value];
        case 'list': case 'map': return [kind, value.map(read)];
        case 'array': {
            const { typecode, descriptor } = typed.array_constructor;
            return [kind, kinds.get(typecode), descriptor ? [read(descriptor)] : [], value.map(read)];
        }
        default: return [kind, number(value, kind === 'long')];
    }
}

function* messages() {
    const message = (body, ids) => hex(rhea.message.encode({
        durable: true, priority: 7, ttl: 60000, first_acquirer: true, delivery_count: 3,
        user_id: Buffer.from('user'), to: 'queue', subject: 'order', reply_to: 'replies', content_type: 'application/json',
        content_encoding: 'gzip', absolute_expiry_time: new Date(1763925600000), creation_time: new Date(1763922000000),
        group_id: 'session', group_sequence: 9, reply_to_group_id: 'reply-session',
        delivery_annotations: { 'x-opt-delivery': types.wrap_ulong(1) },
        message_annotations: { 'x-opt-partition-key': 'key', 'x-opt-sequence-number': types.wrap_long(42) },
        application_properties: { text: 'value', uint: types.wrap_uint(300), int: -5, true: true, double: 0.5 },
        footer: { 'x-crc': types.wrap_uint(99) },
        body,
        ...ids,
    }));
    const uuid = (last) => Buffer.concat([Buffer.alloc(15), Buffer.from([last])]);
    const { data_section, data_sections, sequence_section } = rhea.message;
    yield ['message-data', message(data_section(Buffer.from('{}')), { message_id: uuid(1), correlation_id: 17 })];
    yield ['message-two-data', message(data_sections([Buffer.from('{'), Buffer.from('}')]), { message_id: 'id' })];
    yield ['message-sequence', message(sequence_section([1, 'two']), { message_id: 7, correlation_id: uuid(2) })];
    yield ['message-value', message({ list: [1, 'two'] }, { message_id: 'id', correlation_id: 'other' })];
}

function* allFrames() {
    const frame = (performative, payload) => hex(frames.write_frame(frames.amqp_frame(5, performative, payload)));
    const fields = {
        open: { container_id: 'container', hostname: 'host', max_frame_size: 65536, channel_max: 255, idle_time_out: 30000,
            offered_capabilities: ['ANONYMOUS-RELAY'], properties: { product: 'rhea' } },
        begin: { remote_channel: 3, next_outgoing_id: 0, incoming_window: 2048, outgoing_window: 4294967295, handle_max: 7 },
        attach: { name: 'link', handle: 1, role: true, snd_settle_mode: 1, rcv_settle_mode: 1,
            source: terminus.source({ address: 'queue', durable: 2, expiry_policy: 'never', timeout: 5,
                filter: { jms: types.wrap_described('a > 1', 0x468C00000004) },
                capabilities: ['queue'] }).described(),
            target: terminus.target({ address: 'reply' }).described(),
            initial_delivery_count: 0, max_message_size: 262144 },
        flow: { next_incoming_id: 1, incoming_window: 2048, next_outgoing_id: 2, outgoing_window: 2047, handle: 1,
            delivery_count: 4, link_credit: 100, drain: true },
        transfer: { handle: 1, delivery_id: 9, delivery_tag: Buffer.from('tag'), message_format: 0, settled: false, more: true },
        disposition: { role: true, first: 3, last: 5, settled: true,
            state: rhea.message.rejected({ error: { condition: 'amqp:not-found', description: 'gone' } }).described() },
        detach: { handle: 1, closed: true, error: { condition: 'amqp:link:detach-forced', description: 'idle' } },
        end: {},
        close: { error: { condition: 'amqp:connection:forced', description: 'bye' } },
    };
    for (const [name, value] of Object.entries(fields)) {
        const payload = name === 'transfer' ? Buffer.from('payload') : undefined;
        yield [`frame-${name}`, frame(frames[name](value), payload)];
    }
    const sasl = (performative) => hex(frames.write_frame(frames.sasl_frame(performative)));
    yield ['frame-sasl-mechanisms', sasl(frames.sasl_mechanisms({ sasl_server_mechanisms: ['PLAIN', 'ANONYMOUS'] }))];
    const initial_response = Buffer.from('\0user\0password');
    yield ['frame-sasl-init', sasl(frames.sasl_init({ mechanism: 'PLAIN', initial_response, hostname: 'host' }))];
    yield ['frame-sasl-outcome', sasl(frames.sasl_outcome({ code: 1 }))];
}

function write() {
    const out = [];
    for (const [id, value] of values) {
        try {
            out.push(`${id} ${encode(value)}`);
        } catch (error) {
            out.push(`${id} - ${error.message.replaceAll(/\s+/g, ' ')}`);
        }
    }
    for (const [id, encoding] of [...messages(), ...allFrames()]) out.push(`${id} ${encoding}`);
    writeFileSync(join(folder, 'rhea.txt'), out.join('\n') + '\n');
}

function decode(encoding) {
    const reader = new types.Reader(unhex(encoding));
    const value = read(reader.read());
    if (reader.remaining() !== 0) throw new Error('bytes are left');
    return value;
}

function encode(value) {
    const writer = new types.Writer();
    writer.write(wrap(value));
    return hex(writer.toBuffer());
}

function exchange() {
    const answers = lines('/dev/stdin').map((line) => {
        const { value, bytes } = JSON.parse(line);
        try {
            return { bytes: encode(value), value: decode(bytes) };
        } catch (error) {
            return { error: String(error) };
        }
    });
    process.stdout.write(answers.map((answer) => JSON.stringify(answer) + '\n').join(''));
}

function check(file) {
    let failed = 0;
    const all = lines(file);
    for (const line of all) {
        const [id, encoding] = line.split(' ');
        // Of two descriptors rhea keeps the first.
        if (id === 'described-described') continue;
        let value;
        try {
            value = JSON.stringify(decode(encoding));
        } catch (error) {
            value = String(error);
        }
        const expected = JSON.stringify(values.get(id));
        if (value !== expected) {
            failed += 1;
            console.log(`${id}: ${encoding.slice(0, 80)} is ${value.slice(0, 200)}, and not ${expected?.slice(0, 200)}`);
        }
    }
    console.log(`${all.length} values, ${failed} not the same`);
    process.exit(failed > 0 || all.length === 0 ? 1 : 0);
}

const [word, file] = process.argv.slice(2);
({ write, check, exchange })[word](file);
