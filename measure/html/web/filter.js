// Which samples every chapter shows. The filter lives in the page's address, so that it can be kept and mailed:
//   #at=flame&m=l2-miss.cycles&s=<statement>&o=<class>|<name>&p=<part>&c=<cause>&t=<from>-<to>

const NOTHING = { statement: null, object: null, part: null, cause: null, from: 0, to: Infinity };
/** @type {{measure: any, statement: number|null, object: number|null, part: string|null, cause: number|null,
 *   from: number, to: number}} */
let filter = { measure: data.measures[0], ...NOTHING };
/** @type {(() => void)[]} */
const drawings = [];

/** The rows that pass, and the measure's value of each. */
let passing = { rows: new Int32Array(0), values: new Float64Array(0), total: 0, samples: 0 };

function select() {
  const { measure, statement, object, part, cause, from, to } = filter;
  const events = new Set(measure.events);
  const column = rows.sums[measure.sum];
  const chosen = [];
  let [total, samples] = [0, 0];
  for (let row = 0; row < rows.length; row++) {
    if (!events.has(rows.event[row])) continue;
    if (statement !== null && rows.statement[row] !== statement) continue;
    if (object !== null && (rows.object[row] < 0 || wholes[rows.object[row]] !== object)) continue;
    if (part !== null && data.parts[rows.object[row]] !== part) continue;
    if (cause !== null && rows.cause[row] !== cause) continue;
    if (rows.time[row] < from || rows.time[row] > to) continue;
    chosen.push(row);
    total += column[row];
    samples += rows.sums.samples[row];
  }
  passing = { rows: Int32Array.from(chosen), values: Float64Array.from(chosen, (row) => column[row]), total, samples };
}

/** The value with its unit. @param {number} value */
function quantity(value) {
  const unit = filter.measure.unit;
  if (unit === "nanoseconds") return duration(value);
  return unit === "cycles" ? `${rounded(value)} cycles` : rounded(value);
}

/** Changes the filter, the address and the drawings. @param {Record<string, any>} change @param {string} [chapter] */
function apply(change, chapter) {
  filter = { ...filter, ...change };
  if ("object" in change && !("part" in change)) filter.part = null;
  const text = fragment(chapter);
  if (location.hash !== text) history.pushState(null, "", text || location.pathname + location.search);
  refresh();
}

function refresh() {
  select();
  for (const draw of drawings) draw();
}

/** The filter as a fragment. @param {string} [chapter] */
function fragment(chapter) {
  const fields = [];
  const add = (key, value) => value !== null && fields.push(`${key}=${encodeURIComponent(value)}`);
  add("at", chapter || null);
  if (filter.measure !== data.measures[0]) add("m", filter.measure.id);
  add("s", filter.statement === null ? null : filter.statement < 0 ? "none" : data.statement_ids[filter.statement]);
  add("o", filter.object === null ? null : `${data.classes[filter.object]}|${data.names[filter.object]}`);
  add("p", filter.part);
  add("c", filter.cause === null ? null : filter.cause < 0 ? "none" : data.causes[filter.cause]);
  if (filter.from > 0 || filter.to < Infinity) add("t", `${filter.from}-${filter.to === Infinity ? "" : filter.to}`);
  return fields.length ? "#" + fields.join("&") : "";
}

/** Reads the address; what it names and the capture does not have is ignored. */
function readAddress() {
  const text = location.hash.slice(1);
  const fields = new Map();
  if (text.includes("=")) {
    for (const field of text.split("&")) {
      const cut = field.indexOf("=");
      try {
        fields.set(field.slice(0, cut), decodeURIComponent(field.slice(cut + 1)));
      } catch (error) {
        if (!(error instanceof URIError)) throw error;
      }
    }
  }
  const found = (list, value) => (value === "none" ? -1 : list.indexOf(value));
  const known = (list, key) => {
    if (!fields.has(key)) return null;
    const number = found(list, fields.get(key));
    return number >= 0 || fields.get(key) === "none" ? number : null;
  };
  const object = data.names.findIndex((name, index) => `${data.classes[index]}|${name}` === fields.get("o"));
  const time = /^(\d+)-(\d*)$/.exec(fields.get("t") || "");
  filter = {
    measure: data.measures.find((measure) => measure.id === fields.get("m")) || data.measures[0],
    statement: known(data.statement_ids, "s"),
    object: object < 0 ? null : wholes[object],
    part: fields.get("p") || null,
    cause: known(data.causes, "c"),
    from: time ? Number(time[1]) : 0,
    to: time && time[2] !== "" ? Number(time[2]) : Infinity,
  };
  return fields.get("at") || (text.includes("=") ? "" : text);
}

/** Sums by a key of each passing row, largest first. @param {(row: number) => any} keyOf */
function ranked(keyOf) {
  const sums = new Map();
  passing.rows.forEach((row, index) => {
    const key = keyOf(row);
    const sum = sums.get(key) || { key, value: 0, samples: 0, row };
    sum.value += passing.values[index];
    sum.samples += rows.sums.samples[row];
    sums.set(key, sum);
  });
  return [...sums.values()].sort((a, b) => b.value - a.value);
}

/** The bar above the chapters: what is measured, and the filter. */
function filterBar() {
  const choice = (id, label, options, chosen, change) => {
    const select_ = el("select", { id, onchange: () => change(select_.value) });
    for (const [value, text] of options) {
      select_.append(el("option", { value, selected: String(value) === String(chosen) }, shortened(text, 90)));
    }
    return el("label", { for: id }, label + " ", select_);
  };
  /** The values that occur under the other filters: a list can be filtered by them. */
  const values = (field, name) => {
    const saved = filter;
    filter = { ...filter, [field]: null, ...(field === "object" ? { part: null } : {}) };
    select();
    const keyOf = field === "object"
      ? (row) => (rows.object[row] < 0 ? -1 : wholes[rows.object[row]]) : (row) => rows[field][row];
    const list = ranked(keyOf).filter((sum) => sum.key >= 0 || field !== "object").slice(0, 200);
    const options = list.map((sum) => [sum.key, `${name(sum.key)} (${share(sum.value, passing.total, sum.samples)})`]);
    filter = saved;
    select();
    return [["", "all"], ...options];
  };
  const number = (text) => (text === "" ? null : Number(text));
  const bar = byId("filter");
  drawings.push(() => {
    const measures = data.measures.map((measure) => [measure.id, measure.label]);
    const fields = [choice("by", "Measure", measures, filter.measure.id,
      (id) => apply({ measure: data.measures.find((measure) => measure.id === id) }))];
    if (data.statements.length) {
      fields.push(choice("statement", "Statement", values("statement", statementName), filter.statement ?? "",
        (value) => apply({ statement: number(value) })));
    }
    if (data.names.length) {
      fields.push(choice("object", "Object", values("object", objectName), filter.object ?? "",
        (value) => apply({ object: number(value) })));
    }
    if (rows.cause.some((cause) => cause >= 0)) {
      fields.push(choice("cause", "Cause", values("cause", causeName), filter.cause ?? "",
        (value) => apply({ cause: number(value) })));
    }
    const all = data.measures.includes(filter.measure) ? filter.measure.total : 0;
    const narrowed = passing.total < all;
    const text = `${quantity(passing.total)}${narrowed ? `, ${percent(passing.total, all)} of the ${filter.measure.label}` : ""}`
      + ` in ${grouped(passing.samples)} samples`;
    const only = [filter.part && `part: ${filter.part}`,
      (filter.from > 0 || filter.to < Infinity) && `time: steps ${filter.from} to ${Math.min(filter.to, data.time.steps - 1)}`]
      .filter(Boolean).join("; ");
    const active = document.activeElement && document.activeElement.id;
    bar.replaceChildren(
      el("div", { class: "fields" }, ...fields,
        el("button", { type: "button", id: "reset", onclick: () => apply(NOTHING) }, "Show all")),
      el("p", { class: "shown", role: "status" }, text + (only ? ` (${only})` : "")));
    if (active && bar.contains(byId(active))) byId(active).focus();
    // The height of the bar, which stays at the top of wide windows: titles are scrolled to just
    // below it.
    const fixed = getComputedStyle(byId("filter-chapter")).position === "sticky";
    document.documentElement.style.setProperty("--bar", fixed ? `${byId("filter-chapter").offsetHeight}px` : "0px");
  });
}

/** @param {number} statement */
function statementName(statement) {
  return statement < 0 ? "(no statement)" : data.statements[statement];
}

/** @param {number} cause */
function causeName(cause) {
  return cause < 0 ? "(no cause)" : data.causes[cause];
}
