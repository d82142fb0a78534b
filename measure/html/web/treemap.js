// Objects as areas: table > index > part of its pages; other memory by its kind. Squarified (Bruls, Huizing & van Wijk
// 2000): areas are as near to squares as a greedy row by row filling makes them.

/**
 * @template T
 * @param {{value: number, item: T}[]} parts largest first
 * @param {{left: number, top: number, width: number, height: number}} area
 * @returns {{item: T, left: number, top: number, width: number, height: number}[]}
 */
function squarified(parts, area) {
  const placed = [];
  let { left, top, width, height } = area;
  let rest = parts.reduce((sum, part) => sum + part.value, 0);
  let at = 0;
  while (at < parts.length && width > 0 && height > 0 && rest > 0) {
    const side = Math.min(width, height);
    const scale = (width * height) / rest;
    const worst = (sum, largest, smallest) => {
      const area_ = sum * scale;
      return Math.max((side * side * largest * scale) / (area_ * area_), (area_ * area_) / (side * side * smallest * scale));
    };
    let end = at + 1;
    let sum = parts[at].value;
    while (end < parts.length) {
      const next = sum + parts[end].value;
      if (worst(next, parts[at].value, parts[end].value) > worst(sum, parts[at].value, parts[end - 1].value)) break;
      sum = next;
      end++;
    }
    const thickness = (sum * scale) / side;
    let along = 0;
    for (const part of parts.slice(at, end)) {
      const length = (part.value / sum) * side;
      placed.push(width >= height
        ? { item: part.item, left, top: top + along, width: thickness, height: length }
        : { item: part.item, left: left + along, top, width: length, height: thickness });
      along += length;
    }
    if (width >= height) [left, width] = [left + thickness, width - thickness];
    else [top, height] = [top + thickness, height - thickness];
    rest -= sum;
    at = end;
  }
  return placed;
}

function treemap() {
  const area = byId("treemap-view");
  if (!area) return;
  const HEAD = 19;
  /** An object's name below its family's: of a path the last part. */
  const shortName = (family, object) => (family.group === "relation"
    ? `${data.classes[object]} ${data.names[object] === family.name ? "" : data.names[object].split(".").pop()}`.trim()
    : data.names[object].split("/").pop());
  const draw = () => {
    const [width, height] = [area.clientWidth, area.clientHeight];
    /** family > whole object > part */
    const families = new Map();
    const unknown = { value: 0, samples: 0 };
    passing.rows.forEach((row, index) => {
      const object = rows.object[row];
      /** Adds the row to a sum. */
      const add = (sum) => {
        sum.value += passing.values[index];
        sum.samples += rows.sums.samples[row];
      };
      if (object < 0) {
        add(unknown);
        return;
      }
      const family = familyOf(object);
      if (!families.has(family)) families.set(family, { name: family, value: 0, samples: 0, group: groupOf(data.classes[object]), objects: new Map() });
      const one = families.get(family);
      add(one);
      const whole = wholes[object];
      if (!one.objects.has(whole)) one.objects.set(whole, { whole, value: 0, samples: 0, parts: new Map() });
      const inner = one.objects.get(whole);
      add(inner);
      const part = data.parts[object];
      if (!inner.parts.has(part)) inner.parts.set(part, { part, value: 0, samples: 0 });
      add(inner.parts.get(part));
    });
    const known = passing.total - unknown.value;
    const sorted = (map) => [...map.values()].sort((a, b) => b.value - a.value).map((item) => ({ value: item.value, item }));
    const described = (sum) => `${quantity(sum.value)}, ${share(sum.value, known, sum.samples)}`;
    const boxes = [];
    for (const family of squarified(sorted(families), { left: 0, top: 0, width, height })) {
      const { item } = family;
      const several = item.objects.size > 1 && family.width > 60 && family.height > 2.4 * HEAD;
      let inside = family;
      if (several) {
        boxes.push({ ...family, text: `${item.name} ${percent(item.value, known)}`, title: `${item.name}: ${described(item)}`,
          colour: "transparent", act: null, kind: "family" });
        inside = { item, left: family.left + 2, top: family.top + HEAD, width: family.width - 4, height: family.height - HEAD - 2 };
      }
      for (const one of squarified(sorted(item.objects), inside)) {
        const { whole, parts } = one.item;
        const name = objectName(whole);
        const short = several ? shortName(item, whole) || name : name;
        const act = () => apply({ object: filter.object === whole ? null : whole, part: null }, "treemap");
        boxes.push({ ...one, text: `${short} ${percent(one.item.value, known)}`, title: `${name}: ${described(one.item)}`,
          colour: colourOf(item.group, name), act, kind: "object" });
        if (parts.size < 2 || one.width < 70 || one.height < 3 * HEAD) continue;
        const room = { left: one.left + 2, top: one.top + HEAD, width: one.width - 4, height: one.height - HEAD - 2 };
        for (const box of squarified(sorted(parts), room)) {
          const { part } = box.item;
          if (box.width < 6 || box.height < 6) continue;
          boxes.push({ ...box, text: part || "(whole)", title: `${name}, ${part || "no part known"}: ${described(box.item)}`,
            colour: colourOf(item.group, part + name), kind: "part",
            act: () => apply({ object: whole, part: filter.part === part ? null : part || null }, "treemap") });
        }
      }
    }
    drawBoxes(area, boxes, { percent: false, out: () => apply({ object: null, part: null }, "treemap") });
    byId("treemap-rest").textContent = unknown.value > 0
      ? `${quantity(unknown.value)} more (${share(unknown.value, passing.total, unknown.samples)}) have no data address and are not drawn.` : "";
    objectTable();
  };
  const objectTable = () => {
    const list = ranked((row) => rows.object[row]).filter((sum) => sum.key >= 0);
    const SHOWN = 40;
    const body = list.slice(0, SHOWN).map(({ key, value, samples }) => el("tr", {},
      el("td", { class: "number" }, quantity(value)), el("td", { class: "number" }, percent(value, passing.total)),
      el("td", { class: "number" }, grouped(samples)), el("td", {}, data.classes[key]), el("td", {}, data.names[key]),
      el("td", {}, data.parts[key])));
    const titles = [filter.measure.label, "share", "samples", "class", "name", "part"];
    byId("treemap-table").replaceChildren(
      el("table", {}, el("thead", {}, el("tr", {}, ...titles.map((title, column) =>
        el("th", { class: column < 3 ? "number" : null, scope: "col" }, title)))), el("tbody", {}, ...body)),
      list.length > SHOWN ? el("p", { class: "note" }, `${list.length - SHOWN} more rows are not shown.`) : "");
  };
  drawings.push(draw);
  redrawOnResize(area, draw);
}
