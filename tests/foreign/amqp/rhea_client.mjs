// `rhea_client.mjs PORT IDLE_PORT PREFIX TRANSPORT`: the client of rhea beside the node of the tests. Prints what it has seen.
// TRANSPORT is `tcp` or `websocket`.

import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.NODE_MODULES, 'node_modules', 'anchor.js'));
const rhea = require('rhea');

const [port, idlePort, prefix, transport] = process.argv.slice(2);
// Longer than the idle timeout of the node.
const IDLE = 12_000;
const LARGE = Buffer.from(Uint8Array.from({ length: 1 << 20 }, (_, i) => (i * 31) % 251));
const seen = { mechanisms: [] };

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

// The next event, or a failure.
function event(emitter, name, ...failures) {
    return new Promise((resolve, reject) => {
        for (const failure of failures) {
            emitter.once(failure, (context) => reject(new Error(`${failure}: ${context.error ?? context.receiver?.error}`)));
        }
        emitter.once(name, resolve);
    });
}

async function connect(to, mechanism = 'ANONYMOUS') {
    const credentials = { ANONYMOUS: { username: 'guest' }, PLAIN: { username: 'guest', password: 'guest' } }[mechanism];
    const container = rhea.create_container();
    const address = transport === 'websocket' ? { connection_details: webSocket(container, to) } : { host: '127.0.0.1', port: to };
    const connection = container.connect({ ...address, reconnect: false, ...credentials });
    await event(connection, 'connection_open', 'disconnected', 'connection_error');
    return connection;
}

function webSocket(container, to) {
    const url = `ws://127.0.0.1:${to}/$servicebus/websocket`;
    return container.websocket_connect(require('ws'))(url, ['AMQPWSB10'], {});
}

async function close(emitter, name) {
    const closed = event(emitter, name);
    emitter.close();
    await closed;
}

async function send(connection, queue, body) {
    const sender = connection.open_sender(`${prefix}/${queue}`);
    await event(sender, 'sendable', 'sender_error');
    const outcome = Promise.race(['accepted', 'rejected', 'released'].map((name) => event(sender, name).then(() => name)));
    sender.send({ body });
    const name = await outcome;
    await close(sender, 'sender_close');
    return name;
}

// Each message is requested and settled by the caller.
async function receiver(connection, queue) {
    const options = { source: `${prefix}/${queue}`, credit_window: 0, autoaccept: false, autosettle: false };
    const receiver = connection.open_receiver(options);
    await event(receiver, 'receiver_open', 'receiver_error');
    return receiver;
}

async function receive(receiver) {
    const message = event(receiver, 'message', 'receiver_close');
    receiver.add_credit(1);
    return message;
}

async function settleEachWay(connection) {
    seen.sent = [await send(connection, 'orders', '1'), await send(connection, 'orders', '2')];
    const link = await receiver(connection, 'orders');
    const steps = {
        released: (delivery) => delivery.release(),
        modified: (delivery) => delivery.modified({ delivery_failed: true }),
        accepted: (delivery) => delivery.accept(),
        rejected: (delivery) => delivery.reject({ condition: 'amqp:decode-error', description: 'bad' }),
    };
    for (const [step, settle] of Object.entries(steps)) {
        const { message, delivery } = await receive(link);
        seen[step] = [message.body, message.delivery_count ?? 0];
        settle(delivery);
        // The next credit is written after the settlement, and not before it.
        await sleep(0);
    }
    await close(link, 'receiver_close');
}

async function exchangeLarge(connection) {
    await send(connection, 'large', LARGE);
    const link = await receiver(connection, 'large');
    const { message, delivery } = await receive(link);
    delivery.accept();
    await close(link, 'receiver_close');
    seen.large = LARGE.equals(message.body) ? message.body.length : 'not the same';
}

async function drain(connection) {
    await send(connection, 'drained', '3');
    const link = await receiver(connection, 'drained');
    let received = 0;
    link.on('message', ({ delivery }) => {
        delivery.accept();
        received += 1;
    });
    const drained = event(link, 'receiver_drained');
    link.drain = true;
    link.add_credit(10);
    await drained;
    seen.drained = [received, link.credit];
    await close(link, 'receiver_close');
}

async function detach(connection) {
    await send(connection, 'detached', '4');
    seen.detached = [];
    for (const settle of [() => {}, (delivery) => delivery.accept()]) {
        const link = await receiver(connection, 'detached');
        const { message, delivery } = await receive(link);
        seen.detached.push(message.body);
        settle(delivery);
        await close(link, 'receiver_close');
    }
}

async function refusal(connection) {
    const sender = event(connection.open_sender('missing'), 'sender_error');
    const receiver = event(connection.open_receiver('missing'), 'receiver_error');
    seen.refused = [(await sender).sender.error.condition, (await receiver).receiver.error.condition];
}

async function idle() {
    const connection = await connect(idlePort);
    await sleep(IDLE);
    seen.idle = await send(connection, 'idle', '5');
    await close(connection, 'connection_close');
}

async function openEachWay() {
    for (const mechanism of ['ANONYMOUS', 'PLAIN']) {
        const connection = await connect(port, mechanism);
        seen.mechanisms.push(connection.sasl_transport.mechanism_name);
        seen.container = connection.container_id;
        await close(connection, 'connection_close');
    }
}

async function run(step, ...parameters) {
    const timer = setTimeout(() => fail(step, 'no answer in time'), 20_000);
    await step(...parameters).catch((error) => fail(step, error));
    clearTimeout(timer);
}

function fail(step, error) {
    console.error(`Error in ${step.name}: ${error}`);
    process.exit(1);
}

await run(openEachWay);
const connection = await connect(port);
for (const step of [settleEachWay, exchangeLarge, drain, detach, refusal]) {
    await run(step, connection);
}
await close(connection, 'connection_close');
await run(idle);
console.log(JSON.stringify(seen));
