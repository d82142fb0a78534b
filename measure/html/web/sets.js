// Heat maps of cache sets: 128 cells a row. Colours are by the logarithm, so that one hot set does not hide the others.

function sets() {
  data.sets.forEach((map, number) => {
    const area = byId(`sets-${number}`);
    if (!area) return;
    const most = Math.max(1, ...map.cells);
    const standing = new Set(map.standing);
    area.replaceChildren(...map.cells.map((count, cell) => {
      const first = cell * map.together;
      const name = map.together > 1 ? `sets ${first} to ${first + map.together - 1}` : `set ${first}`;
      const step = count === 0 ? 0 : 1 + Math.floor((Math.log(1 + count) / Math.log(1 + most)) * 5.99);
      return el("span", { class: `heat-${Math.min(6, step)}${standing.has(cell) ? " marked" : ""}`, title: `${name}: ${grouped(count)} samples` });
    }));
  });
}
