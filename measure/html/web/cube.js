// The samples of the capture as columns, read from the page's data. See src/data.rs for the form.

/** @param {number[]} runs @param {number} length */
function unrolled(runs, length) {
  const column = new Int32Array(length);
  let at = 0;
  for (let run = 0; run < runs.length; run += 2) {
    column.fill(runs[run], at, at + runs[run + 1]);
    at += runs[run + 1];
  }
  return column;
}

const data = JSON.parse(byId("data").textContent);

const rows = (() => {
  const { rows: packed, events } = data;
  const length = packed.length;
  const event = unrolled(packed.event, length);
  const samples = unrolled(packed.samples, length);
  const periods = events.map((one) => one.period);
  const counted = new Float64Array(length);
  const cycles = new Float64Array(length);
  for (let row = 0; row < length; row++) {
    const period = periods[event[row]];
    counted[row] = packed.events ? packed.events[row] : samples[row] * period;
    if (packed.latency) cycles[row] = packed.latency[row] * (packed.events ? 1 : period);
  }
  return {
    length,
    event,
    statement: unrolled(packed.statement, length),
    object: unrolled(packed.object, length),
    cause: unrolled(packed.cause, length),
    path: Int32Array.from(packed.path),
    time: Int32Array.from(packed.time),
    sums: { samples: Float64Array.from(samples), events: counted, cycles },
  };
})();

/** Names of kinds of objects that are one group in the treemap. */
const GROUPS = [
  ["relation", "tables and indexes", ["table", "index", "toast", "sequence", "buffer descriptor", "materialized view"]],
  ["shared", "shared memory and locks", ["shared memory area", "lightweight lock", "process slot", "WAL", "spinlock",
    "shared memory", "process array", "buffer page"]],
  ["private", "private memory", ["memory context", "heap", "stack", "anonymous memory", "static variable", "constants"]],
];

/** The group of a class: its key. @param {string} class_ */
function groupOf(class_) {
  const found = GROUPS.find((group) => group[2].includes(class_));
  return found ? String(found[0]) : "other";
}

/** The tables, longest name first: an index named after its table (orders_pkey) is shown beside it. */
const tables = [...new Set(data.names.filter((_, object) => data.classes[object] === "table"))]
  .sort((a, b) => b.length - a.length);

/** What an object is shown under: its table, or its class. @param {number} object */
function familyOf(object) {
  const [class_, name] = [data.classes[object], data.names[object]];
  if (groupOf(class_) !== "relation") return class_;
  return tables.find((table) => name === table || name.startsWith(table + "_")) || name;
}

/** Class and name. @param {number} object */
function objectName(object) {
  return `${data.classes[object]} ${data.names[object]}`.trim();
}

/** A number for class and name alone: parts of one object have the same. */
const wholes = (() => {
  const known = new Map();
  return data.names.map((_, object) => {
    const name = objectName(object);
    if (!known.has(name)) known.set(name, object);
    return known.get(name);
  });
})();
