// `rhea_broker.mjs`: queues in memory with peek-lock, on the container of rhea, over WebSocket. Prints its port, and serves until it
// is stopped. An address is a queue, made on first use. A message that is not settled as accepted is available again.

import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { join } from 'node:path';

const require = createRequire(join(process.env.NODE_MODULES, 'node_modules', 'anchor.js'));
const rhea = require('rhea');
const { WebSocketServer } = require('ws');

const container = rhea.create_container({ id: 'rhea' });
container.sasl_server_mechanisms.enable_anonymous();
container.options.receiver_options = { autoaccept: true, credit_window: 100 };
container.options.sender_options = { autosettle: false };

const queues = new Map();
const senders = new Set();

function queue(address) {
    if (!queues.has(address)) queues.set(address, []);
    return queues.get(address);
}

function dispatch() {
    for (const sender of senders) {
        const messages = queue(sender.source.address);
        while (sender.sendable() && messages.length > 0) {
            const message = messages.shift();
            sender.send(message).message = message;
        }
    }
}

container.on('receiver_open', ({ receiver }) => receiver.set_target({ address: receiver.remote.attach.target.address }));
container.on('message', ({ message, receiver }) => {
    queue(receiver.target.address).push(message);
    dispatch();
});
container.on('sender_open', ({ sender }) => {
    sender.set_source({ address: sender.remote.attach.source.address });
    senders.add(sender);
});
container.on('sendable', dispatch);
for (const outcome of ['released', 'modified', 'rejected']) {
    container.on(outcome, ({ delivery, sender }) => {
        queue(sender.source.address).unshift(delivery.message);
        delivery.update(true);
        dispatch();
    });
}
container.on('accepted', ({ delivery }) => delivery.update(true));
container.on('sender_close', ({ sender }) => senders.delete(sender));
container.on('disconnected', ({ connection }) => {
    for (const sender of senders) {
        if (sender.connection === connection) senders.delete(sender);
    }
});

const server = createServer();
const sockets = new WebSocketServer({
    server,
    handleProtocols: (offered) => ['amqp', 'AMQPWSB10'].find((name) => offered.has(name)) ?? false,
});
sockets.on('connection', (socket) => container.websocket_accept(socket));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
