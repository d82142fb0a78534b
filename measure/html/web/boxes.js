// Boxes that are buttons: one stop of the Tab key for all of them, the arrow keys inside, Escape to go back out.

/**
 * @param {HTMLElement} area where they are drawn
 * @param {{left: number, top: number, width: number, height: number, text: string, title: string, colour: string,
 *   act: (() => void)|null, kind?: string}[]} boxes in pixels; width may be a share of the area (with `percent`)
 * @param {{percent: boolean, out?: () => void}} options
 */
function drawBoxes(area, boxes, options) {
  const unit = options.percent ? "%" : "px";
  const scale = options.percent ? area.clientWidth / 100 : 1;
  /** A box too small for two letters has none. */
  const seen = (box) => (box.width * scale > 24 && box.height > 12 ? box.text : "");
  const buttons = boxes.map((box) =>
    el(box.act ? "button" : "div", {
      class: `box ${box.kind || ""}`,
      type: box.act ? "button" : null,
      tabindex: box.act ? "-1" : null,
      title: box.title,
      // The name contains the visible text, so that a user can speak it.
      "aria-label": box.act ? (box.title.includes(seen(box)) ? box.title : `${box.text}: ${box.title}`) : null,
      style: {
        left: box.left + unit, top: box.top + "px", width: `calc(${box.width}${unit} - 1px)`,
        height: box.height - 1 + "px", background: box.colour,
      },
      onclick: box.act,
    }, seen(box)));
  const stops = buttons.filter((button) => button.tagName === "BUTTON");
  const focused = area.contains(document.activeElement);
  if (stops.length) stops[0].tabIndex = 0;
  area.replaceChildren(...buttons);
  if (focused && stops.length) stops[0].focus();
  area.onkeydown = (event) => {
    const at = stops.indexOf(/** @type {any} */ (document.activeElement));
    if (at < 0) return;
    const place = (button) => button.getBoundingClientRect();
    const here = place(stops[at]);
    /** The nearest box in a direction. */
    const towards = (ahead, distance) => {
      let best = -1, least = Infinity;
      stops.forEach((button, index) => {
        const there = place(button);
        if (index !== at && ahead(there) && distance(there) < least) [best, least] = [index, distance(there)];
      });
      return best;
    };
    const across = (there) => Math.max(0, there.left - here.right, here.left - there.right);
    const along = (there) => Math.max(0, there.top - here.bottom, here.top - there.bottom);
    const slack = 2;
    const moves = {
      ArrowRight: () => towards((there) => there.left >= here.right - slack, (there) => there.left - here.right + 9 * along(there)),
      ArrowLeft: () => towards((there) => there.right <= here.left + slack, (there) => here.left - there.right + 9 * along(there)),
      ArrowDown: () => towards((there) => there.top >= here.bottom - slack, (there) => there.top - here.bottom + 9 * across(there)),
      ArrowUp: () => towards((there) => there.bottom <= here.top + slack, (there) => here.top - there.bottom + 9 * across(there)),
      Home: () => 0,
      End: () => stops.length - 1,
    };
    if (event.key === "Escape" && options.out) {
      options.out();
    } else if (moves[event.key]) {
      const next = moves[event.key]();
      if (next >= 0) {
        stops[at].tabIndex = -1;
        stops[next].tabIndex = 0;
        stops[next].focus();
      }
    } else {
      return;
    }
    event.preventDefault();
  };
}

/** Light colours on which dark text is readable, in both themes. */
const COLOURS = {
  relation: ["#a9d3f5", "#8fc3ee", "#c1e0fa", "#9fd8e0"],
  shared: ["#f7bf92", "#f3ab74", "#fad4b0", "#f5c6a0"],
  private: ["#cbbfe8", "#bcadde", "#dcd3f1", "#d3c6ea"],
  other: ["#cdd3da", "#bfc7d0", "#dde1e6", "#d3d9df"],
};

/** A number of a text, the same each time. @param {string} text */
function hash(text) {
  let value = 2166136261;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 16777619) >>> 0;
  return value;
}

/** @param {string} group @param {string} name */
function colourOf(group, name) {
  const colours = COLOURS[group] || COLOURS.other;
  return colours[hash(name) % colours.length];
}

/** Draws again when the width of an area changes. @param {HTMLElement} area @param {() => void} draw */
function redrawOnResize(area, draw) {
  let width = area.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(area.clientWidth - width) > 1) {
      width = area.clientWidth;
      draw();
    }
  }).observe(area);
}
