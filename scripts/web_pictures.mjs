// Makes the book's pictures of the page: each view, from a simulation's report.
//
//   node scripts/web_pictures.mjs STRAIT DIR
//
// Needs Chromium, and playwright-core where Node finds it (NODE_PATH).

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";

const require = createRequire(path.join(process.env.NODE_PATH ?? process.cwd(), "x.js"));
const { chromium } = require("playwright-core");
const [strait, target] = process.argv.slice(2);
const scenarios = path.join(import.meta.dirname, "../scenarios");

// The picture's name, the scenario, the node, the view, how far into the run, and how it is looked at, or which part.
const PICTURES = [
  ["overview", "demo", "strait: a", "overview", 0.12],
  ["links", "lab/far", "strait: a", "links", 0.5],
  ["classes", "demo", "fifo: a", "classes", 0.17],
  ["flows", "demo", "strait: a", "flows", 0.12],
  ["packets", "demo", "fifo: a", "packets", 0.17],
  ["calls", "demo", "strait: a", "calls", 0.12],
  ["station", "proxy/hf-9600", "strait: b", "station", 0.34, { colorScheme: "dark" }],
  ["neighbours", "hbh-chain", "strait: r1", "neighbours", 0.4],
  ["streams", "proxy/serial-9600", "strait: a", "streams", 0.35],
  ["names", "dns/web-240k", "strait: a", "names", 0.45],
  ["mail", "mail/flash", "strait: a", "mail", 0.45],
  ["far", "lab/far", "strait: a", "far", 0.5],
  ["map", "manet/walk", "strait: a", "map", 0.9, { viewport: { width: 1120, height: 1800 }, part: "#main svg" }],
  ["routes", "manet/walk", "strait: a", "routes", 0.9],
  ["choices", "demo", "strait: a", "choices", 0.12],
  ["phone", "demo", "strait: a", "overview", 0.12, { viewport: { width: 380, height: 760 } }],
];

const folder = mkdtempSync(path.join(tmpdir(), "web-pictures-"));
const report = (scenario) => path.join(folder, `${scenario.replace("/", "-")}.html`);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  for (const scenario of new Set(PICTURES.map(([, scenario]) => scenario))) {
    const file = path.join(scenarios, `${scenario}.toml`);
    execFileSync(strait, ["sim", file, "--runs", "1", "--report", report(scenario)], { stdio: "ignore" });
  }
  for (const [name, scenario, node, view, moment, { part, ...more } = {}] of PICTURES) {
    const page = await browser.newPage({ viewport: { width: 1120, height: 900 }, ...more });
    await page.goto(`file://${report(scenario)}#${encodeURIComponent(node)}/${view}`);
    await page.waitForSelector("#well .row");
    // A recording has its nodes' lines by time: the slider is as far along as the run.
    await page.$eval("#moment", (slider, moment) => {
      slider.value = Math.round(slider.max * moment);
      slider.dispatchEvent(new Event("input"));
    }, moment);
    await page.waitForTimeout(300);
    const shown = part ? page.locator(part).first() : page;
    await shown.screenshot({ path: path.join(target, `web-${name}.png`) });
    await page.close();
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
