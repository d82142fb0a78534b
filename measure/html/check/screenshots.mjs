// Pictures of a report for the documentation: node screenshots.mjs REPORT.html FOLDER

import { join } from "node:path";
import { browser as start, opened } from "./browser.mjs";

const [file, folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node screenshots.mjs REPORT.html FOLDER");
  process.exit(2);
}
const browser = await start();
if (!browser) {
  console.log("skipped: no Chromium (apt-get install chromium, or set CHROMIUM)");
  process.exit(77);
}
const PICTURES = [
  ["report.png", { width: 1000, height: 940 }, "light", null],
  ["report-data.png", { width: 1000, height: 680 }, "light", "treemap"],
  ["report-flame.png", { width: 1000, height: 620 }, "light", "flame"],
];
for (const [name, viewport, colorScheme, chapter] of PICTURES) {
  const page = await opened(browser, file, { viewport, colorScheme });
  if (chapter) await page.evaluate((id) => document.getElementById(`${id}-title`).scrollIntoView(), chapter);
  await page.screenshot({ path: join(folder, name) });
  await page.context().close();
}
await browser.close();
