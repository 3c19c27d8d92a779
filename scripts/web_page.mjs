// Drives the page of `strait web` with a browser, as an operator would.
//
//   node scripts/web_page.mjs STRAIT SOCKET... [--file PAGE.html] [--pictures DIR]
//
// Needs Chromium, and playwright-core and axe-core where Node finds them (NODE_PATH). Beside the gateways
// behind the sockets it shows one of its own making that has 10,000 flows. Prints what it measured as JSON;
// ends with an error at the first thing that isn't as it should be.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

const require = createRequire(path.join(process.env.NODE_PATH ?? process.cwd(), "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLOWS = 10_000;

const options = { sockets: [] };
const [strait, ...rest] = process.argv.slice(2);
while (rest.length) {
  const word = rest.shift();
  if (word === "--file" || word === "--pictures") options[word.slice(2)] = rest.shift();
  else options.sockets.push(word);
}

const folder = mkdtempSync(path.join(tmpdir(), "web-page-"));
const figures = {};
const ended = [];

// A node that has more flows than any screen, and names that try to be more than names.
const flow = (n) => ({ port: "line", source: `10.0.${n >> 8}.${n & 255}`, destination: "10.9.0.1", protocol: n % 3 ? 6 : 17,
  ports: [1024 + n, 443], spi: null, flow_label: null, nature: n ? "conventional" : "real-time",
  class: "<img src=x onerror=alert(1)>", dscp: 0, ipsec: false, standing: n ? null : "admitted", packets: n, octets: 1200,
  period_s: null, rate_bit_s: null, idle_s: n / 10 });
const crowd = (uptime_s) => ({ node: "crowd", uptime_s, line: "predicted", packets: {}, local: {}, ports: [], classes: [],
  flows: Array.from({ length: FLOWS }, (_, n) => flow(n)) });
const fake = (socket) => new Promise((up) => {
  const server = net.createServer((stream) => {
    let uptime = 1;
    const tell = () => stream.write(`${JSON.stringify(crowd(uptime++))}\n`);
    stream.once("data", tell);
    const timer = setInterval(tell, 1000);
    stream.on("close", () => clearInterval(timer));
    stream.on("error", () => {});
  });
  server.listen(socket, () => up(server));
  ended.push(() => server.close());
});

const serve = (sockets, more = []) => new Promise((up, fail) => {
  const child = spawn(strait, ["web", ...sockets, "--listen", "127.0.0.1:0", ...more], { stdio: ["ignore", "pipe", "inherit"] });
  ended.push(() => child.kill("SIGTERM"));
  child.stdout.once("data", (text) => up(String(text).trim()));
  child.once("exit", (code) => fail(new Error(`strait web ended: ${code}`)));
});

// What the page asks for, says and does wrong.
const watch = (page, own) => {
  const seen = { elsewhere: [], errors: [] };
  page.on("request", (request) => {
    if (!request.url().startsWith(own) && !request.url().startsWith("blob:")) seen.elsewhere.push(request.url());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") seen.errors.push(message.text()); });
  page.on("dialog", (dialog) => { seen.errors.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return seen;
};

const judged = async (page, what) => {
  // As a debugger does it: the page's own policy lets no script in.
  const client = await page.context().newCDPSession(page);
  const run = async (expression) => {
    const { result, exceptionDetails } = await client.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert.equal(exceptionDetails, undefined, exceptionDetails?.exception?.description);
    return result.value;
  };
  await run(axe);
  const found = JSON.parse(await run("axe.run(document).then((it) => JSON.stringify(it.violations))"));
  const serious = found.filter((one) => ["serious", "critical"].includes(one.impact));
  const told = serious.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
  assert.deepEqual(told, [], `${what}: accessibility`);
  figures.axe_views = (figures.axe_views ?? 0) + 1;
  await client.detach();
};

const picture = async (page, name) => {
  if (options.pictures) await page.screenshot({ path: path.join(options.pictures, `web-${name}.png`) });
};

// An hour of two nodes, a line a second, made of what is seen now.
const hour = (snapshots) => {
  const lines = [JSON.stringify({ clock: "unix" })];
  const begin = Date.now() / 1000 - 3600;
  for (let at = 0; at < 3600; at += 1) {
    snapshots.forEach((now, n) => {
      const ports = now.ports.map((port, i) => ({ ...port, busy_s: at * 0.5, octets_out: at * 600 + i, octets_in: at * 300, frames_in: at * 3 }));
      const classes = now.classes.map((one) => ({ ...one, packets: at * 5, sent_octets: at * 900, queued_octets: (at * 37) % 5000,
        delay_parts_s: { ...one.delay_parts_s, class: at * 0.7, line: at * 2 } }));
      const line = { n, t: begin + at };
      const step = Object.fromEntries(Object.entries(now.window).map(([key, value]) => [key, value * (1 + (at % 9) / 10)]));
      if (at % 60 === 0) line.full = { ...now, uptime_s: at + 1, ports, classes, step };
      else {
        const changes = (things, keys) => Object.fromEntries(things.map((thing, i) => [i, Object.fromEntries(keys.map((key) => [key, thing[key]]))]));
        line.patch = { uptime_s: at + 1, step, ports: changes(ports, ["busy_s", "octets_out", "octets_in", "frames_in"]),
          classes: changes(classes, ["packets", "sent_octets", "queued_octets", "delay_parts_s"]) };
      }
      lines.push(JSON.stringify(line));
    });
  }
  return lines.join("\n");
};

const main = async () => {
  const socket = path.join(folder, "crowd.sock");
  await fake(socket);
  const address = await serve([...options.sockets, socket]);
  const browser = await chromium.launch({ executablePath: CHROMIUM.find((one) => { try { return readFileSync(one).length > 0; } catch { return false; } }),
    args: ["--no-sandbox"] });
  ended.push(() => browser.close());
  const context = await browser.newContext({ viewport: { width: 1120, height: 760 } });
  const page = await context.newPage();
  const seen = watch(page, address);
  const nodes = options.sockets.length + 1;

  // Usable: every node's row stands there.
  await new Promise((later) => setTimeout(later, 1500));
  const took = [];
  for (let round = 0; round < 5; round += 1) {
    await page.goto("about:blank");
    await page.goto(address);
    await page.waitForFunction((n) => document.querySelectorAll("#well .row").length === n, nodes, { polling: "raf" });
    // As the page itself marks it: every figure of the first view stands there.
    took.push(Math.round(await page.evaluate(() => performance.getEntriesByName("usable")[0].startTime)));
  }
  figures.usable_ms = took;
  // What else the machine does only adds.
  assert.ok(Math.min(...took) < 1000, `usable after ${took} ms`);
  const snapshots = await page.evaluate(async () => {
    const lines = (await (await fetch("recording")).text()).split("\n").filter((line) => line).slice(1).map((line) => JSON.parse(line));
    return lines.filter((line) => line.full).map((line) => line.full);
  });

  // Each view of each node.
  const names = await page.$$eval("#node option", (all) => all.map((one) => one.textContent));
  for (const name of names) {
    await page.selectOption("#node", { label: name });
    await page.waitForFunction((name) => document.title.startsWith(name), name);
    for (const link of await page.$$eval("#views a", (all) => all.map((one) => one.getAttribute("href")))) {
      await page.click(`#views a[href="${link}"]`);
      await page.waitForFunction((link) => document.querySelector("#views [aria-current]")?.getAttribute("href") === link, link);
      if (name === names[0] || link.endsWith("crowd/flows")) await judged(page, link);
      if (name === names[0]) await picture(page, link.split("/")[1]);
    }
  }

  // From a class, a link, a flow and a figure to the packets behind it.
  await behind(page, `${address}#${encodeURIComponent(names[0])}`);

  // Ten thousand flows.
  await page.goto(`${address}#crowd/flows`);
  await page.waitForSelector(".long-body .long-row");
  const rows = await page.$$eval(".long-body .long-row", (all) => all.length);
  assert.ok(rows > 5 && rows < 100, `${rows} rows exist`);
  const slowest = await page.evaluate(async () => {
    const box = document.querySelector(".long");
    const frame = () => new Promise(requestAnimationFrame);
    let slowest = 0;
    for (let at = 0; at <= 40; at += 1) {
      const began = performance.now();
      box.scrollTop = (box.scrollHeight * at) / 40;
      await frame();
      slowest = Math.max(slowest, performance.now() - began);
    }
    await frame();
    return slowest;
  });
  figures.scroll_slowest_frame_ms = Math.round(slowest);
  const shown = await page.$$eval(".long-body .long-row", (all) => all.map((one) => one.textContent));
  assert.ok(shown.some((row) => row.startsWith("10.0.39.15")), `the last flow isn't in sight: ${shown[0]}`);
  await page.fill("input[type=search]", "10.0.39.1");
  await page.waitForFunction(() => /^Flows: \d+ of 10000$/.test(document.querySelector(".find [role=status]").textContent));
  await page.fill("input[type=search]", "");
  await page.click(".long-head button:has-text('packets')");
  await page.evaluate(() => { document.querySelector(".long").scrollTop = 0; });
  await page.waitForFunction(() => document.querySelector(".long-body .long-row").textContent.startsWith("10.0.39.15"));

  // Keys, a narrow screen, the dark.
  await page.click("h1");
  await page.keyboard.press("1");
  await page.waitForFunction(() => location.hash.endsWith("/overview"));
  await page.setViewportSize({ width: 360, height: 720 });
  await page.goto(`${address}#${encodeURIComponent(names[0])}/links`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wider <= 0, `${wider} pixels wider than a phone`);
  await judged(page, "phone");
  await picture(page, "phone");
  await page.setViewportSize({ width: 1120, height: 760 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForTimeout(300);
  await judged(page, "dark");
  await picture(page, "dark");
  await page.emulateMedia({ colorScheme: "light" });

  // An hour.
  await page.route("**/recording", (route) => route.fulfill({ contentType: "text/plain", body: hour(snapshots.slice(0, 2)) }));
  await page.goto("about:blank");
  await page.goto(`${address}#${encodeURIComponent(names[0])}/classes`);
  await page.waitForSelector("#well .row");
  await page.waitForTimeout(1500);
  const client = await context.newCDPSession(page);
  await client.send("HeapProfiler.collectGarbage");
  const heap = await client.send("Runtime.getHeapUsage");
  const series = await page.evaluate(() => globalThis.seriesOctets());
  figures.hour_heap_mb = +((heap.usedSize + (heap.backingStorageSize ?? series)) / 1e6).toFixed(1);
  figures.hour_series_mb = +(series / 1e6).toFixed(1);
  // Each figure is drawn from its own series.
  const lines = await page.evaluate(() => globalThis.seriesLines());
  assert.ok(lines >= Object.keys(snapshots[0].window).length, `${lines} lines are drawn`);
  assert.ok(figures.hour_heap_mb < 30, `an hour takes ${figures.hour_heap_mb} MB`);
  await page.unroute("**/recording");

  // One file without a server, and its slider.
  const saved = path.join(folder, "saved.html");
  writeFileSync(saved, await (await context.request.get(`${address}save`)).text());
  assert.deepEqual(seen, { elsewhere: [], errors: [] });
  for (const file of [saved, options.file].filter((one) => one)) await one_file(context, path.resolve(file));
  figures.requests_elsewhere = seen.elsewhere.length;
};

const behind = async (page, node) => {
  const rows = () => page.$$eval(".long-body .long-row", (all) => all.map((one) => one.textContent));
  for (const [view, link] of [["classes", "tbody a:text-is('interactive')"], ["links", "tbody tr:last-child a"], ["flows", "tbody a"], ["overview", ".row.chosen .tile a"]]) {
    await page.goto(`${node}/${view}`);
    await page.waitForFunction((view) => location.hash.endsWith(view) && document.querySelector("#views [aria-current]").hash.endsWith(view), view);
    const words = (await page.getAttribute(link, "href")).split("/").at(-1);
    await page.click(link);
    await page.waitForFunction(() => document.querySelector(".find [role=status]")?.textContent.startsWith("Packets: "));
    const wanted = decodeURIComponent(words).toLowerCase().split(" ");
    const found = (await rows()).map((row) => row.toLowerCase());
    assert.ok(found.length > 0, `${view}: no packet has ${wanted}`);
    assert.ok(found.every((row) => wanted.every((word) => row.includes(word))), `${view}: ${wanted}: ${found}`);
  }
  figures.packets_behind = (await rows()).length;
};

const one_file = async (context, file) => {
  const page = await context.newPage();
  const seen = watch(page, `file://${file}`);
  await page.goto(`file://${file}`);
  await page.waitForSelector("#well .row");
  const state = () => page.textContent("#state");
  const last = await state();
  await page.focus("#moment");
  await page.keyboard.press("Home");
  assert.notEqual(await state(), last, "the slider leads to another moment");
  await page.keyboard.press("End");
  assert.equal(await state(), last);
  await page.click("#play");
  await page.waitForFunction((last) => document.getElementById("state").textContent !== last, last);
  await page.click("#play");
  await page.keyboard.press("Escape");
  await judged(page, file);
  for (const link of await page.$$eval("#views a", (all) => all.map((one) => one.getAttribute("href")))) {
    await page.click(`#views a[href="${link}"]`);
    await judged(page, link);
    if (file !== path.join(folder, "saved.html")) await picture(page, `file-${link.split("/").at(-1)}`);
  }
  assert.deepEqual(seen, { elsewhere: [], errors: [] });
  await page.close();
};

try {
  await main();
  console.log(JSON.stringify(figures));
} finally {
  for (const end of ended.reverse()) await end();
  rmSync(folder, { recursive: true });
}
