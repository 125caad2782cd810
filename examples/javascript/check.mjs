// Checks every vector: node check.mjs [vectors.json]. No packages.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { InvalidID, decode, encode, layout, pack, parse, range, unpack } from "./snowflake.mjs";

const file = process.argv[2] ?? new URL("../../testdata/vectors.json", import.meta.url);
const vectors = JSON.parse(readFileSync(file, "utf8"));
const counts = { layouts: 0, ids: 0, ranges: 0, texts: 0, json: 0, lost: 0, refused: 0 };

/** Nanoseconds since 1970 of an instant such as 2030-01-01T00:00:00.000000001Z. Date has milliseconds. */
function nanoseconds(text) {
  const [, seconds, fraction = ""] = /^([^.Z]+)(?:\.(\d+))?Z$/.exec(text);
  return BigInt(Date.parse(seconds + "Z")) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}

for (const row of vectors.layouts) {
  const l = layout(row);
  assert.equal(nanoseconds(row.epoch), l.epoch, row.name);
  counts.layouts++;
  for (const want of row.ids) {
    const got = unpack(l, parse(want.id));
    assert.deepEqual(
      [got.tick.toString(), got.region, got.worker, got.sequence],
      [want.tick, want.region, want.worker, want.sequence],
      `${row.name}: ${want.id}`,
    );
    assert.equal(got.nanoseconds, nanoseconds(want.time), want.id);
    assert.equal(pack(l, got).toString(), want.id);
    counts.ids++;
  }
  for (const want of row.ranges) {
    const { least, greatest } = range(l, nanoseconds(want.at));
    assert.deepEqual([least.toString(), greatest.toString()], [want.min_id, want.max_id], want.at);
    counts.ranges++;
  }
}

for (const row of vectors.texts) {
  const id = parse(row.id);
  for (const as of ["decimal", "base32", "base58", "base62", "hex"]) {
    assert.equal(encode(as, id), row[as], as);
    assert.equal(decode(as, row[as]), id, as);
    counts.texts++;
  }
}

// The string-and-BigInt rule. JSON.parse reads a bare number into 53 bits, and says nothing.
for (const row of vectors.json) {
  const { id } = JSON.parse(row.document);
  counts.json++;
  if (typeof id === "string") {
    assert.equal(parse(id).toString(), row.id);
    assert.equal(JSON.stringify({ id: parse(id).toString() }), row.document, "written as it was read");
    continue;
  }
  assert.equal(BigInt(id).toString(), row.as_float64);
  if (Number.isSafeInteger(id)) {
    assert.equal(BigInt(id).toString(), row.id);
  } else {
    assert.notEqual(BigInt(id).toString(), row.id, "digits are lost");
    counts.lost++;
  }
  assert.throws(() => parse(id), InvalidID, "a number is refused: nobody can tell whether it is right");
}

for (const row of vectors.refused) {
  counts.refused++;
  if (row.as !== "json") {
    assert.throws(() => decode(row.as, row.text), (e) => e instanceof InvalidID && e.reason === row.reason, `${row.as} ${row.text}`);
  } else if (row.text.startsWith('"')) {
    assert.throws(() => parse(JSON.parse(row.text)), (e) => e instanceof InvalidID && e.reason === row.reason, row.text);
  } else {
    assert.throws(() => parse(JSON.parse(row.text)), InvalidID, row.text); // no string, so no ID
  }
}

console.log(
  `${counts.layouts} layouts, ${counts.ids} IDs, ${counts.ranges} ranges, ${counts.texts} texts, ${counts.json} JSON documents ` +
    `(${counts.lost} bare numbers that lost digits, all refused), ${counts.refused} refusals: all as in vectors.json`,
);
