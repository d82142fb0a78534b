// Starts the page: draws all chapters, and keeps the filter when a reader moves between them.

/** Shows a chapter and puts the keyboard there. @param {string} id */
function goTo(id) {
  const section = byId(id);
  if (!section) return;
  const title = byId(id + "-title") || section;
  title.tabIndex = -1;
  title.focus({ preventScroll: true });
  title.scrollIntoView({ block: "start" });
}

function start() {
  document.body.classList.add("drawn");
  filterBar();
  treemap();
  flame();
  crosstab();
  timeline();
  sets();
  const chapter = readAddress();
  refresh();
  if (chapter) goTo(chapter);
  window.addEventListener("popstate", () => {
    const there = readAddress();
    refresh();
    if (there) goTo(there);
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='#']") : null;
    if (!link) return;
    const id = (link.getAttribute("href") || "#").slice(1);
    event.preventDefault();
    const wanted = link.getAttribute("data-filter");
    if (wanted) {
      const { measure, class: class_, name } = JSON.parse(wanted);
      const object = data.names.findIndex((known, index) => known === name && data.classes[index] === class_);
      apply({ ...NOTHING, measure: data.measures.find((one) => one.id === measure) || filter.measure,
        object: object < 0 ? null : wholes[object] }, id);
    } else {
      apply({}, id);
    }
    goTo(id);
  });
}

if (data.measures.length) start();
