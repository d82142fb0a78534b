// Checks a report in a browser: node page.mjs [--json] REPORT.html ... Exit status 1 where a check fails, 77 without a
// browser. --json prints one object in place of the lines.
//
//   no request but the file itself; nothing on the console; every chapter reached by Tab and Enter; n beside shares;
//   boxes move by arrow keys and filter by Enter; axe-core finds nothing serious, light and dark

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { browser as start, opened } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TABS = 400;

const browser = await start();
if (!browser) {
  console.log("skipped: no Chromium (apt-get install chromium, or set CHROMIUM)");
  process.exit(77);
}

const json = process.argv[2] === "--json";
const say = (line) => json || console.log(line);
/** Figures of --json, by name. */
const figures = { requests: 0, console: 0, chapters: 0, chapters_reached: 0, without_n: 0, serious: 0, milliseconds: 0 };
let failures = 0;
function check(what, holds, more = "") {
  say(`${holds ? "ok    " : "FAILED"} ${what}${more ? `: ${more}` : ""}`);
  if (!holds) failures += 1;
}

async function chaptersByKeyboard(page) {
  const ids = await page.$$eval("nav a", (links) => links.map((link) => link.getAttribute("href").slice(1)));
  const reached = new Set();
  for (const id of ids) {
    await page.evaluate(() => { window.scrollTo(0, 0); document.activeElement.blur(); });
    for (let tab = 0; tab < TABS; tab++) {
      await page.keyboard.press("Tab");
      const there = await page.evaluate(() => document.activeElement.closest("nav") && document.activeElement.getAttribute("href"));
      if (there === `#${id}`) break;
    }
    await page.keyboard.press("Enter");
    const shown = await page.evaluate((id) => {
      const title = document.activeElement;
      const box = title.getBoundingClientRect();
      const top = document.elementFromPoint(box.left + 5, box.top + box.height / 2);
      return title.id === `${id}-title` && title.contains(top);
    }, id);
    if (shown) reached.add(id);
  }
  return [ids, reached];
}

for (const file of process.argv.slice(json ? 3 : 2)) {
  say(file);
  for (const colorScheme of ["light", "dark"]) {
    const said = [], asked = [];
    const begin = performance.now();
    const page = await opened(browser, file, { colorScheme, viewport: { width: 1280, height: 900 } }, (page) => {
      page.on("console", (message) => said.push(message.text()));
      page.on("pageerror", (error) => said.push(String(error)));
      page.on("dialog", (dialog) => { said.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
      page.on("request", (request) => asked.push(request.url()));
    });
    const milliseconds = performance.now() - begin;
    figures.milliseconds = Math.max(figures.milliseconds, milliseconds);
    figures.requests += asked.length - 1;
    check(`${colorScheme}: no request but the file`, asked.length === 1, asked.slice(1).join(" "));
    check(`${colorScheme}: drawn`, await page.evaluate(() => document.body.classList.contains("drawn")),
      `${milliseconds.toFixed(0)} ms to open`);
    if (colorScheme === "light") {
      const [ids, reached] = await chaptersByKeyboard(page);
      figures.chapters += ids.length;
      figures.chapters_reached += reached.size;
      const missed = ids.filter((id) => !reached.has(id));
      check(`${ids.length} chapters reached by Tab and Enter`, missed.length === 0, missed.join(" "));
      const titles = await page.$$eval(".box", (boxes) => boxes.map((box) => box.title).filter((title) => / %/.test(title)));
      const bare = titles.filter((title) => !/ %, n = \d/.test(title));
      figures.without_n += bare.length;
      check(`${titles.length} boxes have n beside their share`, titles.length > 0 && bare.length === 0, bare[0]);
      const boxes = await page.$$("#treemap-view button.object");
      if (boxes.length > 1) {
        await boxes[0].focus();
        await page.keyboard.press("End");
        const last = await page.evaluate(() => document.activeElement !== document.querySelector("#treemap-view button"));
        check("arrow keys move in the treemap", last);
        await page.keyboard.press("Enter");
        check("Enter filters, and the address says so", (await page.evaluate(() => location.hash)).includes("o="));
        await page.click("#reset");
      }
    }
    await page.evaluate(axe);
    const found = await page.evaluate(async () => {
      const result = await globalThis.axe.run(document, { resultTypes: ["violations"] });
      return result.violations.map(({ id, impact, nodes }) => ({ id, impact, where: nodes.slice(0, 3).map((node) => node.target.join(" ")), n: nodes.length }));
    });
    const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
    figures.serious += serious.length;
    check(`${colorScheme}: axe-core finds nothing serious`, serious.length === 0,
      serious.map((one) => `${one.id} (${one.n}): ${one.where.join(", ")}`).join("; "));
    for (const one of found.filter((one) => !serious.includes(one))) say(`       ${one.impact}: ${one.id} (${one.n}): ${one.where.join(", ")}`);
    check(`${colorScheme}: nothing on the console`, said.length === 0, said.slice(0, 5).join(" | "));
    figures.console += said.length;
    await page.context().close();
  }
}
await browser.close();
if (json) console.log(JSON.stringify(figures));
process.exit(failures ? 1 : 0);
