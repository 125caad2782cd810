// Reads snowflake IDs in JavaScript. The rule: an ID is a string on the wire and in the
// program, and a BigInt where one calculates with it; never a Number, which has 53 bits.
//
//   const id = JSON.parse('{"id":"26091926323200001"}').id   // exact: it is a string
//   JSON.parse('{"id":26091926323200001}').id                // 26091926323200000: wrong
//
// No packages, no build: import it as it is, in node or in a browser.

const MAX = (1n << 63n) - 1n;

const alphabets = {
  base32: { width: 13, digits: "0123456789ABCDEFGHJKMNPQRSTVWXYZ" },
  base58: { width: 11, digits: "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz" },
  base62: { width: 11, digits: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" },
  hex: { width: 16, digits: "0123456789abcdef" },
};

export class InvalidID extends Error {
  constructor(text, reason) {
    super(`invalid ID ${JSON.stringify(String(text).slice(0, 32))}: ${reason}`);
    this.reason = reason;
  }
}

/** The BigInt of a decimal ID, in its one spelling. */
export function parse(text) {
  if (typeof text !== "string") throw new InvalidID(text, "not a string: it may have lost digits");
  if (text === "") throw new InvalidID(text, "empty");
  if (text.length > 19) throw new InvalidID(text, "width");
  if (!/^[0-9]+$/.test(text)) throw new InvalidID(text, "digit");
  if (text.length > 1 && text[0] === "0") throw new InvalidID(text, "leading zero");
  return bounded(text, BigInt(text));
}

/** The BigInt of a text of fixed width: as is "base32", "base58", "base62" or "hex". */
export function decode(as, text) {
  if (as === "decimal") return parse(text);
  const { width, digits } = alphabets[as];
  if (text.length !== width) throw new InvalidID(text, "width");
  const base = BigInt(digits.length);
  let id = 0n;
  for (const c of text) {
    const digit = digits.indexOf(c);
    if (digit < 0) throw new InvalidID(text, "digit");
    id = id * base + BigInt(digit);
  }
  return bounded(text, id);
}

/** The text of a BigInt. */
export function encode(as, id) {
  if (as === "decimal") return id.toString();
  const { width, digits } = alphabets[as];
  const base = BigInt(digits.length);
  let text = "";
  for (; id > 0n; id /= base) text = digits[Number(id % base)] + text;
  return text.padStart(width, digits[0]);
}

function bounded(text, id) {
  if (id > MAX) throw new InvalidID(text, "above 2^63-1");
  return id;
}

/** A layout from its row in vectors.json, in BigInt. */
export function layout(row) {
  return {
    epoch: BigInt(row.epoch_unix_nanoseconds),
    tick: BigInt(row.tick_nanoseconds),
    region: BigInt(row.region_bits),
    worker: BigInt(row.worker_bits),
    sequence: BigInt(row.sequence_bits),
  };
}

/** The fields of an ID. tick and nanoseconds (since 1970) are BigInt, the others fit a Number. */
export function unpack(l, id) {
  const field = (shift, bits) => Number((id >> shift) & ((1n << bits) - 1n));
  const tick = id >> (l.region + l.worker + l.sequence);
  return {
    tick,
    nanoseconds: l.epoch + tick * l.tick,
    region: field(l.worker + l.sequence, l.region),
    worker: field(l.sequence, l.worker),
    sequence: field(0n, l.sequence),
  };
}

/** The ID of the fields. */
export function pack(l, { tick, region, worker, sequence }) {
  return (((tick << l.region | BigInt(region)) << l.worker | BigInt(worker)) << l.sequence) | BigInt(sequence);
}

/** The least and the greatest ID of the tick that contains an instant, for range queries. */
export function range(l, nanoseconds) {
  const low = l.region + l.worker + l.sequence;
  const least = (nanoseconds - l.epoch) / l.tick << low;
  return { least, greatest: least | ((1n << low) - 1n) };
}
