// What is looked at: which node, which view, which moment. It stands in the address.

import { el, seconds } from "./format.js";
import { forget, markAt } from "./charts.js";
import { Node, Recording } from "./store.js";
import { VIEWS, View, active, well } from "./views.js";

const by = (id) => document.getElementById(id);
const described = JSON.parse(by("described").textContent);
let nodes = new Map(); // what is shown: live, or as of a moment
let live = new Map();
let recording = null;
let place = 0;
let playing = null;
let clock = "unix";
let silent = null; // why the server isn't heard
let view = null;
let built = "";
const hasResults = by("results").childElementCount > 0;

const nameOf = (n) => nodes.get(n)?.now?.node || `node ${n}`;

const wanted = () => {
  const [name, id, find] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const known = [...nodes.keys()].filter((n) => nodes.get(n).now).sort((a, b) => a - b);
  const n = known.find((one) => nameOf(one) === name) ?? known[0];
  return { n, id: id || (hasResults ? "results" : "overview"), find: find ?? "" };
};
// What a report found: it stands in the page, and is of no node.
const RESULTS = { id: "results", title: "Results", has: () => true, build: () => {} };
const address = (n, id) => `#${encodeURIComponent(nameOf(n))}/${id}`;
// The packets of a node that have these words.
const packets = (n, words) => address(n, `packets/${encodeURIComponent(words)}`);

const time = (at) => (clock === "unix" ? new Date(at * 1000).toLocaleTimeString() : `${seconds(at)} of the run`);

const show = () => {
  const { n, id, find } = wanted();
  const node = nodes.get(n);
  by("results").hidden = !hasResults || (Boolean(node) && id !== "results");
  by("view").hidden = !by("results").hidden;
  if (!node) return;
  chooseNode(n);
  const there = [...(hasResults ? [RESULTS] : []), ...VIEWS.filter((one) => one.has(node.now))];
  const chosen = there.find((one) => one.id === id) ?? there[0];
  const key = [n, chosen.id, find, there.map((one) => one.id), node.now.ports.map((port) => port.name), active(node.now).map((one) => one.name)].join();
  nav(n, there, chosen);
  if (key !== built || view.context.node.series !== node.series) {
    built = key;
    forget();
    view = new View({ node, described, clock, places: recording?.places, find, behind: (words) => packets(n, words), all: () => [...nodes.values()].filter((one) => one.now),
      place: () => seriesPlace(view.context.node) });
    chosen.build(view);
    by("view").replaceChildren(el("h2", { class: "quiet" }, `${nameOf(n)}: ${chosen.title}`), ...view.elements);
    document.title = `${nameOf(n)}: ${chosen.title} – strait`;
  }
  view.context.node = node;
  view.updates.forEach((update) => update(node));
  top();
};

// Where in the series a recording's moment is; nothing where the last value counts.
const seriesPlace = (node) => {
  if (!recording) return null;
  const { times, length } = node.series;
  let low = 0;
  let high = length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= recording.times[place]) low = middle;
    else high = middle - 1;
  }
  return Math.max(low, 0);
};

const chooseNode = (n) => {
  const select = by("node");
  const known = [...nodes.keys()].filter((one) => nodes.get(one).now).sort((a, b) => a - b);
  const names = known.map(nameOf).join("\n");
  if (select.dataset.names !== names) {
    select.dataset.names = names;
    select.replaceChildren(...known.map((one) => el("option", { value: String(one) }, nameOf(one))));
  }
  select.value = String(n);
};

const nav = (n, there, chosen) => {
  const key = `${n} ${there.map((one) => one.id)} ${chosen.id} ${nameOf(n)}`;
  if (by("views").dataset.key === key) return;
  by("views").dataset.key = key;
  by("views").replaceChildren(...there.map((one) =>
    el("a", { href: address(n, one.id), "aria-current": one === chosen ? "page" : null }, one.title)));
};

// What stands above every view: findings, then each node's row.
const top = () => {
  const chosen = wanted().n;
  const known = [...nodes].filter(([, node]) => node.now).sort(([a], [b]) => a - b);
  // Who is well says so where one looks at him.
  const said = known.flatMap(([n, { says }]) => (says ? [{ n, ...says, well: says.text.startsWith("All is well") }] : []));
  const says = said.filter(({ n, well }) => !well || n === chosen).sort((a, b) => a.well - b.well);
  by("says").hidden = says.length === 0;
  const text = JSON.stringify(says);
  if (by("says").dataset.text !== text) {
    by("says").dataset.text = text;
    by("says").replaceChildren(...says.map(({ n, text, about, well }) =>
      el("p", { class: well ? "well" : null }, known.length > 1 ? `${nameOf(n)}: ${text} ` : `${text} `,
        about ? el("a", { href: packets(n, about) }, "Its packets") : null)));
  }
  const rows = known.map(([n, node]) => {
    const tiles = well(node).map(({ what, value, note, bad, find }) =>
      el("div", { class: bad ? "tile bad" : "tile" }, el("dt", {}, what),
        el("dd", {}, el("b", {}, find ? el("a", { href: packets(n, find) }, value) : value), note ? ` ${note}` : "")));
    return el("div", { class: n === chosen ? "row chosen" : "row" }, el("h2", {}, el("a", { href: address(n, "overview") }, nameOf(n))), el("dl", {}, ...tiles));
  });
  by("well").replaceChildren(...rows);
  const gone = [...nodes].filter(([, node]) => node.gone).map(([n, node]) => `${nameOf(n)}: ${node.gone}`);
  const last = Math.max(...known.map(([, node]) => node.at));
  const state = silent ?? (gone.length ? gone.join("; ") : recording ? `recorded: ${time(recording.times[place])}` : `live, ${time(last)}`);
  if (by("state").textContent !== state) by("state").textContent = state;
  by("state").classList.toggle("bad", Boolean(silent || gone.length));
};

const moveTo = (at) => {
  place = Math.min(Math.max(at, 0), recording.lines.length - 1);
  by("moment").value = String(place);
  by("at").textContent = time(recording.times[place]);
  by("moment").setAttribute("aria-valuetext", by("at").textContent);
  nodes = recording.nodesAt(place);
  markAt(recording.times[place]);
  show();
};

const play = (on) => {
  clearInterval(playing);
  playing = null;
  by("play").textContent = on ? "⏸" : "▶";
  by("play").setAttribute("aria-label", on ? "Pause" : "Play");
  if (!on) return;
  if (place === recording.lines.length - 1) moveTo(0);
  let now = recording.times[place];
  playing = setInterval(() => {
    now += Number(by("speed").value) / 4;
    let next = place;
    while (next < recording.lines.length - 1 && recording.times[next + 1] <= now) next += 1;
    if (next !== place) moveTo(next);
    if (next === recording.lines.length - 1) play(false);
  }, 250);
};

const open = (text, canGoBack) => {
  recording = new Recording(text);
  if (!recording.lines.length) return canGoBack ? close() : nobody();
  clock = recording.clock;
  by("time").hidden = false;
  by("live").hidden = !canGoBack;
  by("back").hidden = true;
  by("moment").max = String(recording.lines.length - 1);
  built = "";
  moveTo(recording.lines.length - 1);
};

// A report of what has no gateways: there are its results alone.
const nobody = () => {
  recording = null;
  by("state").textContent = "";
  by("node").parentElement.hidden = true;
  show();
};

const close = () => {
  play(false);
  recording = null;
  nodes = live;
  by("time").hidden = true;
  by("back").hidden = false;
  markAt(null);
  built = "";
  show();
};

const take = (line) => {
  let node = live.get(line.n);
  if (!node) live.set(line.n, (node = new Node()));
  node.take(line);
};

const listen = () => {
  by("save").hidden = false;
  by("back").hidden = false;
  const events = new EventSource("events");
  events.addEventListener("message", (event) => {
    silent = null;
    take(JSON.parse(event.data));
    if (!recording) show();
  });
  events.addEventListener("error", () => {
    silent = "the server is silent: is `strait web` running?";
    top();
  });
};

// What was before this page was opened, and then what comes.
const begin = async () => {
  const inside = by("recording");
  if (inside) return open(inside.textContent, false);
  const before = await fetch("recording").then((answer) => (answer.ok ? answer.text() : ""));
  live = new Recording(before).drawn;
  nodes = live;
  show();
  performance.mark("usable");
  listen();
};

by("node").addEventListener("change", (event) => {
  location.hash = address(Number(event.target.value), wanted().id);
});
by("moment").addEventListener("input", (event) => { play(false); moveTo(Number(event.target.value)); });
by("play").addEventListener("click", () => play(!playing));
by("live").addEventListener("click", close);
by("back").addEventListener("click", async () => open(await (await fetch("recording")).text(), true));
addEventListener("hashchange", () => { show(); by("main").focus({ preventScroll: true }); });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const links = [...by("views").children];
  if (/^[1-9]$/.test(event.key)) links[Number(event.key) - 1]?.click();
  else if (event.key === "0") links[9]?.click();
  else if (event.key === "/") { document.querySelector("input[type=search]")?.focus(); event.preventDefault(); }
  else if (event.key === "p" && recording) play(!playing);
});
begin();
// For tests: what the series take, and how many there are.
globalThis.seriesLines = () => Math.max(...[...nodes.values()].map((node) => node.series.lines.size));
globalThis.seriesOctets = () => [...nodes.values()].reduce((all, node) => all + node.series.octets(), 0);
