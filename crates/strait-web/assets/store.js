// What nodes said: lines of a recording or of the server, the state now, and series over time.
//
// A line is {n, t, full} or {n, t, patch}, with `says` for findings and `gone` for a node that is
// silent. A patch holds what changed: a scalar or [value] in place of what was there, [] for what
// is there no more, an object for changes inside an object or, by index, inside a list.

export const patched = (old, patch) => {
  if (Array.isArray(patch)) return patch[0];
  if (patch === null || typeof patch !== "object") return patch;
  const next = Array.isArray(old) ? old.slice() : { ...old };
  for (const [key, part] of Object.entries(patch)) {
    if (Array.isArray(part) && part.length === 0) delete next[key];
    else next[key] = patched(next[key], part);
  }
  return next;
};

const KEPT = 3600; // seconds that series hold at least, one value a second

// Times and values of everything that is drawn: typed arrays that shift when they are full.
export class Series {
  constructor() {
    this.length = 0;
    this.times = new Float64Array(2 * KEPT);
    this.lines = new Map();
  }
  push(time, values) {
    if (this.length === this.times.length) {
      this.times.copyWithin(0, KEPT);
      for (const line of this.lines.values()) line.copyWithin(0, KEPT);
      this.length = KEPT;
    }
    this.times[this.length] = time;
    for (const line of this.lines.values()) line[this.length] = NaN;
    for (const [key, value] of values) {
      let line = this.lines.get(key);
      if (!line) {
        line = new Float32Array(this.times.length).fill(NaN);
        this.lines.set(key, line);
      }
      line[this.length] = value ?? NaN;
    }
    this.length += 1;
  }
  at(key) {
    return this.lines.get(key)?.subarray(0, this.length);
  }
  last(key) {
    const line = this.lines.get(key);
    return line && this.length ? line[this.length - 1] : NaN;
  }
  octets() {
    return this.times.byteLength + [...this.lines.values()].reduce((all, line) => all + line.byteLength, 0);
  }
}

export const PARTS = ["class", "turn", "line", "repeat", "order", "proxy"];
const all = (counts) => Object.values(counts ?? {}).reduce((sum, one) => sum + one, 0);

// What happened between two snapshots of one life of a node.
export const between = (before, now) => {
  const dt = now.uptime_s - before.uptime_s;
  const values = new Map();
  if (!(dt > 0)) return null;
  const share = (part, rest) => (part + rest > 0 ? part / (part + rest) : NaN);
  for (const port of now.ports) {
    const old = before.ports.find((one) => one.name === port.name);
    if (!old) continue;
    const d = (key) => Math.max(port[key] - old[key], 0);
    values.set(`port ${port.name} use`, Math.min(d("busy_s") / dt, 1));
    values.set(`port ${port.name} in`, (d("octets_in") * 8) / dt);
    values.set(`port ${port.name} out`, (d("octets_out") * 8) / dt);
    values.set(`port ${port.name} damaged`, share(d("damaged") + d("invalid"), d("frames_in")));
    if (port.hop && old.hop) {
      values.set(`hop ${port.name} repeated`, (port.hop.repeated - old.hop.repeated) / dt);
      values.set(`hop ${port.name} window`, port.hop.window_octets);
    }
    for (const link of port.hf?.neighbours ?? []) {
      const was = old.hf?.neighbours.find((one) => one.name === link.name);
      const key = `hf ${port.name} ${link.name}`;
      values.set(`${key} rate`, link.rate?.bit_s);
      values.set(`${key} snr`, link.rate?.snr_db);
      values.set(`${key} lost`, link.lost);
      values.set(`${key} way`, link.under_way);
      if (!was) continue;
      values.set(`${key} own`, Math.min((link.sent_s - was.sent_s) / dt, 1));
      values.set(`${key} its`, Math.min((link.heard_s - was.heard_s) / dt, 1));
    }
  }
  for (const one of now.classes) {
    const old = before.classes.find((other) => other.name === one.name);
    if (!old) continue;
    const packets = one.packets - old.packets;
    const key = `class ${one.name}`;
    let delay = 0;
    for (const part of PARTS) {
      const mean = (one.delay_parts_s[part] - old.delay_parts_s[part]) / packets;
      if (packets > 0) values.set(`${key} ${part}`, mean);
      if (packets > 0) delay += mean;
    }
    if (packets > 0) values.set(`${key} delay`, delay);
    const dropped = all(one.dropped) - all(old.dropped);
    values.set(`${key} packets`, packets / dt);
    values.set(`${key} dropped`, dropped / dt);
    values.set(`${key} loss`, share(dropped, packets));
    values.set(`${key} queued`, one.queued_octets);
    values.set(`${key} sent`, ((one.sent_octets - old.sent_octets) * 8) / dt);
    values.set(`${key} came`, ((one.delivered_octets - old.delivered_octets) * 8) / dt);
  }
  const service = (name, levels, rates) => {
    const [old, own] = [before[name], now[name]];
    if (!old || !own) return;
    for (const key of levels) values.set(`${name} ${key}`, own[key]);
    for (const key of rates) values.set(`${name} ${key}`, (own[key] - old[key]) / dt);
  };
  service("proxy", ["partners_known"], ["octets", "octets_line", "octets_out"]);
  service("dns", ["known"], ["questions", "asked"]);
  service("mail", MAIL.map((lane) => `${lane}_here`), ["accepted", "relayed"]);
  service("olsr", ["neighbours", "routes", "relays"], ["changes", "octets_out"]);
  for (const name of ["proxy", "echo"]) {
    if (now[name]) values.set(`${name} open`, now[name].streams.open);
  }
  return values;
};

export const MAIL = ["override", "flash", "immediate", "priority", "routine", "deferred"];

const WINDOW_S = 10; // what «now» means in the first row and in judgements

export class Node {
  constructor() {
    this.now = null;
    this.at = 0;
    this.says = [];
    this.gone = null;
    this.recent = [];
    this.series = new Series();
  }
  // Takes a snapshot; `draws` unless its series are known already.
  take(line, draws = true) {
    this.says = line.says ?? [];
    this.gone = line.gone ?? null;
    if (this.gone) return;
    const next = line.full ?? patched(this.now ?? {}, line.patch);
    const values = draws && this.now ? between(this.now, next) : null;
    if (values) this.series.push(line.t, values);
    if (this.now && next.uptime_s <= this.now.uptime_s) this.recent = [];
    this.now = next;
    this.at = line.t;
    this.recent.push({ ...next, flows: [] });
    while (this.recent.length > 2 && next.uptime_s - this.recent[1].uptime_s >= WINDOW_S) this.recent.shift();
  }
  // Of the last ten seconds, or since the snapshot before.
  window() {
    const first = this.recent[0];
    return (first && this.now && between(first, this.now)) || new Map();
  }
}

// Lines of a recording, which can be shown as of any moment.
export class Recording {
  constructor(text) {
    this.lines = text.split("\n").filter((line) => line);
    const head = JSON.parse(this.lines.shift() ?? "{}");
    this.clock = head.clock ?? "unix";
    this.times = [];
    this.whole = []; // by node: places of the lines that need none before
    this.whose = [];
    this.drawn = new Map();
    this.lines.forEach((text, place) => {
      const line = JSON.parse(text);
      this.times.push(line.t);
      this.whose.push(line.n);
      this.whole[line.n] ??= [];
      if (line.full) this.whole[line.n].push(place);
      let node = this.drawn.get(line.n);
      if (!node) this.drawn.set(line.n, (node = new Node()));
      node.take(line);
    });
  }
  // The nodes at a place: replayed from the last whole line at least a window before.
  nodesAt(place) {
    const nodes = new Map();
    for (const [n, drawn] of this.drawn) {
      const node = new Node();
      node.series = drawn.series;
      const before = (this.whole[n] ?? []).filter((one) => one <= place);
      const from = before.at(-2) ?? before.at(-1);
      if (from === undefined) continue;
      for (let at = from; at <= place; at += 1) {
        if (this.whose[at] === n) node.take(JSON.parse(this.lines[at]), false);
      }
      if (node.now) nodes.set(n, node);
    }
    return nodes;
  }
}
