// A map of gateways that share a medium: where they are, whom they hear, and what goes between them.

import { bits, el, percent, seconds } from "./format.js";
import { Table } from "./table.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 360;
const SILENT_S = 6; // whom nobody heard for so long isn't there

const shape = (name, props, text) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(props)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
};

// Where a station is: straight from each of its places to the next.
export const placeAt = (way, time) => {
  const next = way.findIndex(([at]) => at > time);
  if (next === 0) return way[0].slice(1);
  if (next < 0) return way.at(-1).slice(1);
  const [[from, ...a], [until, ...b]] = [way[next - 1], way[next]];
  return a.map((one, axis) => one + ((b[axis] - one) * (time - from)) / (until - from));
};

// Of a variant of a scenario the names are `variant: node`.
const variant = (name) => name.slice(0, name.lastIndexOf(": ") + 1 ? name.lastIndexOf(": ") + 2 : 0);

// What its gateways say of each other, one row a way.
const ways = (all, of) => all.filter(({ now }) => variant(now.node) === of).flatMap((node) =>
  node.now.ports.flatMap((port) => (port.neighbours ?? []).map((one) => ({
    from: node.now.node, to: of + one.name, rate: one.rate_bit_s, heard: one.heard_s,
    out: node.window().get(`near ${port.name} ${one.name} out`) ?? 0,
    damaged: node.window().get(`port ${port.name} damaged`),
    silent: one.heard_s === null || one.heard_s > SILENT_S,
  }))));

export const mapView = (view) => {
  const { places, all } = view.context;
  const of = variant(view.context.node.now.node);
  const drawing = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "map", role: "img" });
  const table = new Table("Who hears whom, of the last 10 s", [
    { head: "from", words: true, text: (one) => one.from.slice(of.length) },
    { head: "to", words: true, text: (one) => one.to.slice(of.length) },
    { head: "rate", text: (one) => bits(one.rate) },
    { head: "out", text: (one) => bits(one.out) },
    { head: "heard", text: (one) => (one.heard === null ? "never" : `${seconds(one.heard)} ago`), bad: (one) => one.silent },
    { head: "damaged", help: "Of all frames that came by that port", text: (one) => percent(one.damaged) },
  ]);
  view.add(el("p", {}, places ? "Places are the scenario's, as of this moment. " : "Nobody says where they are: they stand in a circle. ",
    "A line is as thick as what is sent on it; a broken one is silent. Thick lines in a row are the route that is in use."));
  view.add(drawing, (node) => {
    const rows = ways(all(), of);
    table.update(rows, (one) => `${one.from} ${one.to}`);
    draw(drawing, rows, node, { places, of });
  });
  view.add(table.element);
};

const draw = (drawing, rows, node, { places, of }) => {
  const names = [...new Set(rows.flatMap(({ from, to }) => [from, to]))].sort();
  const circle = (n) => [Math.cos((2 * Math.PI * n) / names.length), Math.sin((2 * Math.PI * n) / names.length)];
  const known = names.map((name, n) => (places?.[name] ? placeAt(places[name], node.at) : circle(n)));
  // All of the ways that they go, so that the map stands still while they move.
  const whole = places ? names.flatMap((name) => (places[name] ?? []).map((one) => one.slice(1))) : known;
  const [low, high] = [Math.min, Math.max].map((end) => [0, 1].map((axis) => end(...whole.map((one) => one[axis]))));
  const scale = Math.min((WIDTH - 120) / (high[0] - low[0] || 1), (HEIGHT - 80) / (high[1] - low[1] || 1));
  const at = new Map(names.map((name, n) => [name, [60 + (known[n][0] - low[0]) * scale, 40 + (known[n][1] - low[1]) * scale]]));
  const lines = rows.map(({ from, to, out, silent }) => {
    const [[x1, y1], [x2, y2]] = [at.get(from), at.get(to)];
    // Each way has its side.
    const far = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [dx, dy] = [((y1 - y2) / far) * 4, ((x2 - x1) / far) * 4];
    const width = out > 0 ? 1 + Math.log10(1 + out / 100) * 1.6 : 1;
    return shape("line", { x1: x1 + dx, y1: y1 + dy, x2: x2 + dx, y2: y2 + dy, "stroke-width": width.toFixed(1),
      class: silent ? "silent" : out > 0 ? "used" : "heard" });
  });
  const marks = names.flatMap((name) => {
    const [x, y] = at.get(name);
    return [shape("circle", { cx: x, cy: y, r: 7, class: name === node.now.node ? "chosen" : "" }),
      shape("text", { x: x + 11, y: y - 9 }, name.slice(of.length))];
  });
  drawing.replaceChildren(...lines, ...marks);
  const heard = rows.filter(({ silent }) => !silent).length;
  drawing.setAttribute("aria-label", `${names.length} stations, ${heard} of ${rows.length} ways heard; the table below has them`);
};
