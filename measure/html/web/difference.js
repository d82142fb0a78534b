// The call paths of two sides as one icicle: a box is as wide as the larger side, its colour says which one has more.

const compared = JSON.parse(byId("data").textContent);

function difference() {
  const area = byId("difference-view");
  if (!area) return;
  const ROW = 20;
  const LEAST = 0.12; // per cent of the width
  const chosen = byId("difference-event");
  /** @type {string[]} the names of the boxes zoomed into, outermost first */
  let zoom = [];

  /**
   * The nodes of an event with their children, and a width with room for both sides of all of them.
   */
  const treeOf = (event) => {
    const columns = event.tree;
    const nodes = columns.name.map((name, at) => ({
      name: compared.names[name], a: columns.a[at], b: columns.b[at], width: 0, children: [],
    }));
    for (let at = nodes.length - 1; at >= 0; at--) {
      const node = nodes[at];
      const below = node.children.reduce((sum, child) => sum + child.width, 0);
      node.width = Math.max(node.a, node.b, below);
      if (columns.caller[at] >= 0) nodes[columns.caller[at]].children.push(node);
    }
    return nodes[0];
  };

  const amount = (event, rate) => (event.time ? duration(rate) : rate >= 1000 ? grouped(rate) : rate.toPrecision(3));
  const change = (node) => {
    if (node.a === 0) return node.b === 0 ? "none" : "new";
    const percents = (100 * (node.b - node.a)) / node.a;
    return Math.abs(percents) < 0.05 ? "the same" : `${percents > 0 ? "+" : ""}${percents.toFixed(1)} %`;
  };
  /** From blue over grey to red, light enough for dark text. */
  const colour = (node) => {
    const part = node.width > 0 ? (node.b - node.a) / Math.max(node.a, node.b) : 0;
    const strength = Math.min(1, Math.abs(part) * 2);
    const mix = (from, to) => Math.round(from + (to - from) * strength);
    return part > 0 ? `rgb(${mix(222, 245)}, ${mix(222, 140)}, ${mix(222, 125)})`
      : `rgb(${mix(222, 130)}, ${mix(222, 180)}, ${mix(222, 240)})`;
  };

  const draw = () => {
    const event = compared.events[Number(chosen.value) || 0];
    const root = event && treeOf(event);
    if (!root) return;
    const above = [root];
    for (const name of zoom) {
      const next = above[above.length - 1].children.find((child) => child.name === name);
      if (!next) break;
      above.push(next);
    }
    zoom = above.slice(1).map((node) => node.name);
    const boxes = [];
    let [depths, narrow] = [0, 0];
    const add = (node, left, width, depth, path) => {
      depths = Math.max(depths, depth + 1);
      boxes.push({ left, top: depth * ROW, width, height: ROW, text: `${node.name} ${change(node)}`, colour: colour(node),
        kind: depth + 1 < above.length ? "frame ancestor" : "frame",
        title: `${node.name} ${change(node)}: ${amount(event, node.a)} before, ${amount(event, node.b)} after (${event.label})`,
        act: () => { zoom = path; draw(); } });
    };
    above.forEach((node, depth) => add(node, 0, 100, depth, zoom.slice(0, depth)));
    const below = (node, left, width, depth, path) => {
      let at = left;
      for (const child of [...node.children].sort((a, b) => b.width - a.width)) {
        const part = node.width > 0 ? (width * child.width) / node.width : 0;
        if (part < LEAST) {
          narrow += 1;
          continue;
        }
        const way = [...path, child.name];
        add(child, at, part, depth, way);
        below(child, at, part, depth + 1, way);
        at += part;
      }
    };
    below(above[above.length - 1], 0, 100, above.length, zoom);
    area.style.height = depths * ROW + "px";
    drawBoxes(area, boxes, { percent: true, out: () => { zoom = zoom.slice(0, -1); draw(); } });
    const rest = narrow + event.tree.left_out;
    byId("difference-rest").textContent = rest > 0 ? `${grouped(rest)} paths are too rare to be drawn; they are in their callers.` : "";
  };
  byId("difference-out").addEventListener("click", () => { zoom = []; draw(); });
  chosen.addEventListener("change", () => { zoom = []; draw(); });
  document.body.classList.add("drawn");
  draw();
  redrawOnResize(area, draw);
}
difference();
