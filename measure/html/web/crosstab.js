// Statements in rows, objects in columns, as deep in colour as their share.

function crosstab() {
  const area = byId("statements-view");
  if (!area) return;
  const [ROWS, COLUMNS] = [20, 7];
  const heat = (part, most) => (part <= 0 ? 0 : 1 + Math.floor(Math.min(1, part / most) * 5.99));
  drawings.push(() => {
    const statements = ranked((row) => rows.statement[row]);
    const objects = ranked((row) => (rows.object[row] < 0 ? -1 : wholes[rows.object[row]])).filter((sum) => sum.key >= 0);
    const columns = objects.slice(0, COLUMNS).map((sum) => sum.key);
    const cells = new Map();
    passing.rows.forEach((row, index) => {
      const object = rows.object[row] < 0 ? -1 : wholes[rows.object[row]];
      const column = columns.includes(object) ? object : -1;
      const key = `${rows.statement[row]}|${column}`;
      const sum = cells.get(key) || { value: 0, samples: 0 };
      cells.set(key, { value: sum.value + passing.values[index], samples: sum.samples + rows.sums.samples[row] });
    });
    const cell = (statement, object) => cells.get(`${statement}|${object}`) || { value: 0, samples: 0 };
    const most = Math.max(1e-9, ...[...cells.values()].map((sum) => sum.value));
    const link = (text, change, pressed) => el("button", { type: "button", class: "plain", "aria-pressed": pressed,
      title: text, onclick: () => apply(change, "statements") }, text);
    const head = el("tr", {}, el("th", { scope: "col", class: "number" }, "share"),
      el("th", { scope: "col", class: "number" }, "n"), el("th", { scope: "col" }, "statement"),
      ...columns.map((object) => el("th", { scope: "col", class: "slim" },
        link(objectName(object), { object: filter.object === object ? null : object }, filter.object === object))),
      el("th", { scope: "col" }, "elsewhere"));
    const body = statements.slice(0, ROWS).map(({ key, value, samples }) => el("tr", {},
      el("td", { class: "number", title: quantity(value) }, percent(value, passing.total)),
      el("td", { class: "number" }, grouped(samples)),
      el("th", { scope: "row", class: "statement" },
        link(statementName(key), { statement: filter.statement === key ? null : key }, filter.statement === key)),
      ...[...columns, -1].map((object) => {
        const part = cell(key, object);
        return el("td", { class: `number heat-cell heat-${heat(part.value, most)}`,
          title: `${statementName(key)} on ${object < 0 ? "other objects" : objectName(object)}: `
            + `${quantity(part.value)}, n = ${grouped(part.samples)}` },
        part.value > 0 ? percent(part.value, passing.total) : "");
      })));
    area.replaceChildren(el("table", { class: "crosstab" }, el("thead", {}, head), el("tbody", {}, ...body)));
    if (statements.length > ROWS) {
      area.append(el("p", { class: "note" }, `${statements.length - ROWS} more statements are not shown.`));
    }
  });
}
