// The measure over the run. Two sliders, or a drag across the picture, choose a range, and every chapter follows.

function timeline() {
  const area = byId("timeline-view");
  if (!area) return;
  const steps = data.time.steps;
  const [from, to] = [byId("time-from"), byId("time-to")];
  for (const slider of [from, to]) slider.max = String(steps - 1);
  const HEIGHT = 120;
  const seconds = (step) => duration(step * data.time.step_ns);
  const draw = () => {
    // The whole time is drawn, whichever range is chosen.
    const saved = filter;
    filter = { ...filter, from: 0, to: Infinity };
    select();
    const sums = new Float64Array(steps);
    passing.rows.forEach((row, index) => { sums[rows.time[row]] += passing.values[index]; });
    filter = saved;
    select();
    const most = Math.max(1e-9, ...sums);
    const last = Math.min(filter.to, steps - 1);
    const inside = (step) => step >= filter.from && step <= last;
    const bars = [...sums].map((sum, step) => el("rect", { x: step, width: 0.9, y: HEIGHT - (HEIGHT * sum) / most,
      height: (HEIGHT * sum) / most, class: inside(step) ? "bar-of-chart" : "bar-outside" },
    el("title", {}, `${seconds(step)} to ${seconds(step + 1)}: ${quantity(sum)}`)));
    const svg = el("svg", { viewBox: `0 0 ${steps} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", class: "timeline",
      "aria-label": `${filter.measure.label} over ${seconds(steps)}, at most ${quantity(most)} in ${seconds(1)}` }, ...bars);
    let start = -1;
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.max(0, Math.min(steps - 1, Math.floor(((event.clientX - box.left) / box.width) * steps)));
    };
    svg.addEventListener("pointerdown", (event) => { start = at(event); svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointerup", (event) => {
      if (start < 0) return;
      const end = at(event);
      choose(Math.min(start, end), Math.max(start, end));
      start = -1;
    });
    area.replaceChildren(svg);
    [from.value, to.value] = [String(filter.from), String(last)];
    from.setAttribute("aria-valuetext", seconds(filter.from));
    to.setAttribute("aria-valuetext", seconds(last + 1));
    byId("time-range").textContent = `${seconds(filter.from)} to ${seconds(last + 1)} of ${seconds(steps)}; a bar is ${seconds(1)}, the highest ${quantity(most)}`;
  };
  const choose = (first, end) => apply({ from: first, to: end >= steps - 1 ? Infinity : end }, "timeline");
  from.addEventListener("change", () => choose(Math.min(Number(from.value), Number(to.value)), Number(to.value)));
  to.addEventListener("change", () => choose(Math.min(Number(from.value), Number(to.value)), Number(to.value)));
  drawings.push(draw);
}
