// The receiving side of docs/signed-and-encrypted-messages.md, written from that page, with nothing but Node's own crypto.
// `check_vectors.mjs docs/vectors` reads every message of the test vectors. Ends with 1 if one fails.

import { createCipheriv, createDecipheriv, createHmac, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

class Refused extends Error {}

const OWN = {
  signing: ['x-signature', 'x-signature-key', 'x-signature-bound'],
  encryption: ['x-encryption', 'x-encryption-key', 'x-encryption-bound'],
}
const PURPOSE = {
  signing: 'consign signature 2 hmac-sha256',
  encryption: 'consign body encryption 2 xchacha20poly1305',
}
const FIXED = [
  'x-message-version', 'x-accept', 'x-fault', 'x-fault-reason', 'x-fault-detail', 'x-fault-trail', 'MT-MessageType',
  'MessageId', 'RequestId', 'CorrelationId', 'NServiceBus.EnclosedMessageTypes', 'NServiceBus.MessageId',
  'NServiceBus.CorrelationId', 'NServiceBus.ContentType', 'NServiceBus.Transport.Encoding',
]
const PREFIXES = ['cloudevents:', 'cloudevents_', 'ce-', 'ce_']

const byte = (value) => Buffer.from([value])
const signed = (value) => { const out = Buffer.alloc(8); out.writeBigInt64LE(BigInt(value)); return out }
const counted = (bytes) => Buffer.concat([signed(bytes.length), bytes])
const text = (value) => counted(Buffer.from(value, 'utf8'))
const optional = (value) => (value === undefined ? byte(0) : Buffer.concat([byte(1), text(value)]))

function float(value) {
  if (value === 'nan') return Buffer.from('000000000000f87f', 'hex')
  const out = Buffer.alloc(8)
  out.writeDoubleLE(Number(value.replace('inf', 'Infinity')))
  return out
}

const VALUES = {
  null: () => byte(0),
  bool: (value) => Buffer.from([1, value === 'true' ? 1 : 0]),
  int: (value) => Buffer.concat([byte(2), text(BigInt(value).toString())]),
  float: (value) => Buffer.concat([byte(3), float(value)]),
  text: (value) => Buffer.concat([byte(4), text(value)]),
  bytes: (value) => Buffer.concat([byte(5), counted(Buffer.from(value, 'hex'))]),
  uuid: (value) => Buffer.concat([byte(6), Buffer.from(value, 'hex')]),
  timestamp: (value) => Buffer.concat([byte(7), signed(value)]),
  offset: (value) => Buffer.concat([byte(8), signed(value)]),
  span: (value) => Buffer.concat([byte(9), signed(value)]),
  decimal: (value) => Buffer.concat([byte(10), Buffer.from(value, 'hex')]),
}

const textOf = (message, name) => {
  const value = message.application[name]
  return value?.[0] === 'text' ? value[1] : undefined
}

const listed = (list) => (list ? list.split(',').map((name) => name.replaceAll('%2C', ',').replaceAll('%25', '%')) : [])

function isBound(layer, further, name) {
  if (OWN[layer].includes(name)) return false
  const folded = name.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
  return FIXED.includes(name) || PREFIXES.some((prefix) => folded.startsWith(prefix))
    || (layer === 'signing' && OWN.encryption.includes(name)) || further.includes(name)
}

function boundBytes(layer, message, keyId, list) {
  const original = textOf(message, 'x-original-message-id')
  const direct = /^amq\.rabbitmq\.reply-to[./]/.test(message.reply_to ?? '')
  const further = listed(list)
  const names = Object.keys(message.application)
    .filter((name) => isBound(layer, further, name))
    .sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)))
  return Buffer.concat([
    text(PURPOSE[layer]),
    text(keyId),
    optional(original || message.message_id || undefined),
    ...['content_type', 'content_encoding', 'subject', 'session_id', 'correlation_id'].map((name) => optional(message[name])),
    optional(direct ? 'amq.rabbitmq.reply-to' : message.reply_to),
    optional(message.reply_to_session_id),
    optional(list),
    ...names.flatMap((name) => {
      const [kind, value] = message.application[name]
      return [byte(1), text(name), VALUES[kind](value)]
    }),
    byte(0),
  ])
}

// What both layers ask first: the rest of the declaration, the key, and what is bound.
function declared(layer, keys, message, algorithm) {
  const [declaration, keyName, listName] = OWN[layer]
  const { application } = message
  if (!(declaration in application || keyName in application)) {
    throw new Refused(layer === 'signing' ? 'NotSigned' : 'NotEncrypted')
  }
  const rest = textOf(message, declaration)
  if (!rest?.startsWith('2:')) throw new Refused('Version')
  if (!algorithm(rest.slice(2))) throw new Refused('Algorithm')
  const keyId = textOf(message, keyName)
  if (keyId === undefined || !(keyId in keys)) throw new Refused('UnknownKey')
  return { keyId, key: Buffer.from(keys[keyId], 'hex'), list: textOf(message, listName), listIsText: !(listName in application) || textOf(message, listName) !== undefined }
}

function opened(layer, message, list, require, body) {
  if (require.some((name) => !isBound(layer, listed(list), name))) throw new Refused('NotBound')
  const application = Object.fromEntries(Object.entries(message.application).filter(([name]) => !OWN[layer].includes(name)))
  return { ...message, application, body: body.toString('hex') }
}

function verify(keys, message, require) {
  const { keyId, key, list, listIsText } = declared('signing', keys, message, (rest) => rest.startsWith('hmac-sha256:'))
  const digits = textOf(message, 'x-signature').slice('2:hmac-sha256:'.length)
  if (!/^[0-9a-f]{64}$/.test(digits) || digits.length !== 64) throw new Refused('NoSignature')
  if (message.body === null) throw new Refused('NotBytes')
  const body = Buffer.from(message.body, 'hex')
  const mac = createHmac('sha256', key).update(boundBytes('signing', message, keyId, list)).update(body).digest()
  if (!listIsText || !timingSafeEqual(mac, Buffer.from(digits, 'hex'))) throw new Refused('NotAuthentic')
  return opened('signing', message, list, require, body)
}

// HChaCha20 by ChaCha20, as the page says.
function derived(key, nonce) {
  const stream = createCipheriv('chacha20', key, nonce).update(Buffer.alloc(64))
  const constant = Buffer.from('expand 32-byte k')
  const out = Buffer.alloc(32)
  for (let word = 0; word < 4; word++) {
    out.writeUInt32LE((stream.readUInt32LE(word * 4) - constant.readUInt32LE(word * 4)) >>> 0, word * 4)
    out.writeUInt32LE((stream.readUInt32LE(48 + word * 4) - nonce.readUInt32LE(word * 4)) >>> 0, 16 + word * 4)
  }
  return out
}

function decrypt(keys, message, require) {
  const { keyId, key, list, listIsText } = declared('encryption', keys, message, (rest) => rest === 'xchacha20poly1305')
  if (message.body === null) throw new Refused('NotBytes')
  const sealed = Buffer.from(message.body, 'hex')
  if (sealed.length < 40) throw new Refused('TooShort')
  const nonce = Buffer.concat([Buffer.alloc(4), sealed.subarray(16, 24)])
  const cipher = createDecipheriv('chacha20-poly1305', derived(key, sealed.subarray(0, 16)), nonce, { authTagLength: 16 })
  cipher.setAAD(boundBytes('encryption', message, keyId, list))
  cipher.setAuthTag(sealed.subarray(-16))
  let body
  try {
    body = Buffer.concat([cipher.update(sealed.subarray(24, -16)), cipher.final()])
  } catch {
    throw new Refused('NotAuthentic')
  }
  if (!listIsText) throw new Refused('NotAuthentic')
  return opened('encryption', message, list, require, body)
}

function read(keys, { layer, sent, require = [] }) {
  try {
    return (layer === 'signing' ? verify : decrypt)(keys, sent, require)
  } catch (error) {
    if (error instanceof Refused) return error.message
    throw error
  }
}

const { keys, vectors, opened: readable, refused } = JSON.parse(
  readFileSync(join(process.argv[2], 'signed-and-encrypted-messages.json'), 'utf8'),
)
const cases = [
  ...[...vectors, ...readable].map((vector) => [vector, vector.message]),
  ...refused.map((vector) => [vector, vector.error]),
]
const failed = cases.filter(([vector, expected]) => !isDeepStrictEqual(read(keys, vector), expected))
for (const [vector, expected] of failed) {
  console.log(`FAILED ${vector.layer}: ${vector.name}`, JSON.stringify(read(keys, vector)), JSON.stringify(expected))
}
console.log(`${cases.length} cases, ${failed.length} failures`)
process.exitCode = failed.length || !cases.length ? 1 : 0
