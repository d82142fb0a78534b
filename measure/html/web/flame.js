// Call paths as an icicle: callers on top, their callees below, as wide as their share. A click makes a box the whole
// width, Escape goes back; the levels above the code can be statements and objects.

function flame() {
  const area = byId("flame-view");
  if (!area) return;
  const ROW = 20;
  const LEAST = 0.12; // per cent of the width
  const grouping = byId("flame-by");
  const search = byId("flame-search");
  /** @type {string[]} the names of the boxes zoomed into, outermost first */
  let zoom = [];

  const frameName = (frame) => data.instructions[frame] || data.routines[frame];
  const imageName = (frame) => data.images[frame].split("/").pop() || "no image";
  /** @type {Map<number, any[]>} */
  const known = new Map();
  /** The frames of a path, outermost first. */
  const framesOf = (path) => {
    const made = known.get(path);
    if (made) return made;
    const frames = [];
    for (let at = path; at >= 0; at = data.callers[at]) {
      const frame = data.frames[at];
      frames.push({ name: frameName(frame), more: `in ${imageName(frame)}`,
        group: data.images[frame].startsWith("[") ? "shared" : /\/(postgres|mariadbd|mysqld)$/.test(data.images[frame]) ? "code" : "library" });
    }
    frames.reverse();
    known.set(path, frames);
    return frames;
  };
  const levels = (row) => {
    const by = grouping.value;
    const list = [];
    if (by.includes("statement")) list.push({ name: statementName(rows.statement[row]), more: "statement", group: "relation" });
    if (by.includes("object")) {
      const object = rows.object[row];
      list.push({ name: object < 0 ? "(no data address)" : objectName(object), more: "object", group: "private" });
    }
    return rows.path[row] < 0 ? list : list.concat(framesOf(rows.path[row]));
  };

  const tree = () => {
    const root = { name: "all", more: "", group: "other", value: 0, samples: 0, children: new Map() };
    passing.rows.forEach((row, index) => {
      const [value, samples] = [passing.values[index], rows.sums.samples[row]];
      let node = root;
      node.value += value;
      node.samples += samples;
      for (const level of levels(row)) {
        let next = node.children.get(level.name);
        if (!next) {
          next = { ...level, value: 0, samples: 0, children: new Map() };
          node.children.set(level.name, next);
        }
        next.value += value;
        next.samples += samples;
        node = next;
      }
    });
    return root;
  };

  const FLAMES = ["#f9c28b", "#f7b267", "#fad1a0", "#f6a96b", "#fbdcae"];
  const draw = () => {
    const root = tree();
    /** @type {any[]} */
    const above = [root];
    for (const name of zoom) {
      const next = above[above.length - 1].children.get(name);
      if (!next) break;
      above.push(next);
    }
    zoom = above.slice(1).map((node) => node.name);
    const wanted = search.value.trim().toLowerCase();
    const boxes = [];
    let [depths, left_out, found, hits] = [0, 0, 0, 0];
    const add = (node, left, width, depth, path, hit) => {
      depths = Math.max(depths, depth + 1);
      const matches = wanted !== "" && node.name.toLowerCase().includes(wanted);
      if (matches && !hit) [found, hits] = [found + node.value, hits + node.samples];
      const library = node.group === "library";
      const colour = matches ? "#e58bf0" : node.group === "code" ? FLAMES[hash(node.name) % FLAMES.length]
        : colourOf(library ? "other" : node.group, node.name);
      boxes.push({ left, top: depth * ROW, width, height: ROW, text: node.name, colour,
        kind: depth + 1 < above.length ? "frame ancestor" : "frame",
        title: `${node.name}${node.more ? ` (${node.more})` : ""}: ${quantity(node.value)}, ${share(node.value, root.value, node.samples)}`,
        act: () => { zoom = path; draw(); } });
      return matches || hit;
    };
    above.forEach((node, depth) => add(node, 0, 100, depth, zoom.slice(0, depth), false));
    const below = (node, left, width, depth, path, hit) => {
      let at = left;
      const children = [...node.children.values()].sort((a, b) => b.value - a.value);
      for (const child of children) {
        const part = node.value > 0 ? (width * child.value) / node.value : 0;
        if (part < LEAST) {
          left_out += child.value;
          continue;
        }
        const way = [...path, child.name];
        const inside = add(child, at, part, depth, way, hit);
        below(child, at, part, depth + 1, way, inside);
        at += part;
      }
    };
    if (root.value > 0) below(above[above.length - 1], 0, 100, above.length, zoom, false);
    area.style.height = depths * ROW + "px";
    drawBoxes(area, boxes, { percent: true, out: () => { zoom = zoom.slice(0, -1); draw(); } });
    byId("flame-found").textContent = wanted === "" ? "" : `${share(found, root.value, hits)}: in or below “${search.value.trim()}”.`;
    byId("flame-rest").textContent = left_out > 0 ? `Boxes narrower than ${LEAST} % of the width are not drawn; a click on what is above shows them.` : "";
  };
  byId("flame-out").addEventListener("click", () => { zoom = []; draw(); });
  grouping.addEventListener("change", () => { zoom = []; draw(); });
  search.addEventListener("input", draw);
  drawings.push(draw);
}
