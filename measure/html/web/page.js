// Elements and numbers. Text enters the page as text nodes and attributes only.

/**
 * An element with attributes, listeners (`on…`) and children; strings become text.
 * @param {string} name
 * @param {Record<string, any>} [attributes]
 * @param {...(Node|string|null)} children
 * @returns {any}
 */
function el(name, attributes, ...children) {
  const svg = ["svg", "rect", "line", "text", "path", "g", "title"].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(element.style, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** The element of an id, or null. @param {string} id @returns {any} */
function byId(id) {
  return document.getElementById(id);
}

/** `89,709` @param {number} number */
function grouped(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `1.23 M` @param {number} number */
function rounded(number) {
  for (const [least, unit, scale] of [[1e12, " T", 1e12], [1e9, " G", 1e9], [1e6, " M", 1e6], [1e4, " k", 1e3]]) {
    if (number >= Number(least)) {
      const scaled = number / Number(scale);
      return scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0) + unit;
    }
  }
  return grouped(number);
}

/** `671 ms` @param {number} nanoseconds */
function duration(nanoseconds) {
  if (nanoseconds < 1e6) return `${(nanoseconds / 1e3).toFixed(nanoseconds < 1e4 ? 1 : 0)} µs`;
  if (nanoseconds < 1e9) return `${(nanoseconds / 1e6).toFixed(nanoseconds < 1e7 ? 1 : 0)} ms`;
  return `${(nanoseconds / 1e9).toFixed(2)} s`;
}

/** `12.3 %` @param {number} part @param {number} whole */
function percent(part, whole) {
  const share = whole > 0 ? (100 * part) / whole : 0;
  return `${share.toFixed(share < 10 ? 2 : 1)} %`;
}

/** `12.3 %, n = 45` @param {number} part @param {number} whole @param {number} samples */
function share(part, whole, samples) {
  return `${percent(part, whole)}, n = ${grouped(samples)}`;
}

/** At most this many characters, cut at the end. @param {string} text @param {number} length */
function shortened(text, length) {
  return text.length > length ? text.slice(0, length - 1) + "…" : text;
}
