// The system's Chromium, headless, and a page opened from disk in it.

import { chromium } from "playwright-core";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const KNOWN = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Starts the browser; null if there is none. */
export async function browser() {
  const executablePath = KNOWN.find((path) => path && existsSync(path));
  if (!executablePath) return null;
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

/** Opens a file from disk, without a network. */
export async function opened(browser, file, options, before) {
  const context = await browser.newContext({ offline: true, ...options });
  const page = await context.newPage();
  if (before) before(page);
  await page.goto(pathToFileURL(resolve(file)).href);
  return page;
}
