// Events of the npm package `cloudevents`: one step of a case, by its name.
//
//     peers.mjs MODULES write             events as messages: one object of JSON a line
//     peers.mjs MODULES read MESSAGES     the events of an array of messages, as JSON
//
// MODULES is the folder of node_modules. A message has `name`, `content_type`, `headers` and `body`, which is text.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, step, input] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(modules, 'here.js')));
const { CloudEvent, HTTP } = require('cloudevents');

const event = (data) => new CloudEvent({
  id: 'A-1',
  source: '/my%20shop',
  type: 'com.example.order.placed',
  time: '2026-02-03T04:05:06.789Z',
  subject: 'order 7',
  datacontenttype: 'application/json',
  dataschema: 'https://shop.example/order',
  comexampletext: 'value',
  comexamplenumber: 5,
  comexampletruth: true,
  data,
});

const order = { id: 7, customer: 'Müller & Söhne', total: 434.59000000000003 };

function message(name, { headers, body }) {
  const { 'content-type': contentType, ...others } = headers;
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const strings = Object.entries(others).filter(([, value]) => value !== undefined).map(([key, value]) => [key, String(value)]);
  return { name, content_type: contentType, headers: Object.fromEntries(strings), body: text };
}

function write() {
  const batch = {
    headers: { 'content-type': 'application/cloudevents-batch+json; charset=utf-8' },
    body: JSON.stringify([event(order), event(order), event(order)]),
  };
  return [
    message('binary', HTTP.binary(event(order))),
    message('structured', HTTP.structured(event(order))),
    message('batch', batch),
  ];
}

function read(messages) {
  return messages.map(({ content_type: contentType, headers, body }) => {
    const events = HTTP.toEvent({ headers: { ...headers, 'content-type': contentType }, body });
    return (Array.isArray(events) ? events : [events]).map((each) => each.toJSON());
  });
}

console.log(JSON.stringify(step === 'write' ? write() : read(JSON.parse(input))));
