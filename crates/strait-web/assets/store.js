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
export const MAIL = ["override", "flash", "immediate", "priority", "routine", "deferred"];

export class Node {
  constructor() {
    this.now = null;
    this.at = 0;
    this.says = null;
    this.gone = null;
    this.series = new Series();
  }
  // Takes a snapshot; `draws` unless its series are known already.
  take(line, draws = true) {
    this.says = line.says ?? null;
    this.gone = line.gone ?? null;
    if (this.gone) return;
    const next = line.full ?? patched(this.now ?? {}, line.patch);
    if (draws && next.step) this.series.push(line.t, Object.entries(next.step));
    this.now = next;
    this.at = line.t;
  }
  // Figures of the last ten seconds.
  window() {
    return new Map(Object.entries(this.now?.window ?? {}));
  }
}

// Lines of a recording, which can be shown as of any moment.
export class Recording {
  constructor(text) {
    this.lines = text.split("\n").filter((line) => line);
    const head = JSON.parse(this.lines.shift() ?? "{}");
    this.clock = head.clock ?? "unix";
    this.places = head.places;
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
  // The nodes at a place: replayed from the last whole line before.
  nodesAt(place) {
    const nodes = new Map();
    for (const [n, drawn] of this.drawn) {
      const node = new Node();
      node.series = drawn.series;
      const before = (this.whole[n] ?? []).filter((one) => one <= place);
      const from = before.at(-1);
      if (from === undefined) continue;
      for (let at = from; at <= place; at += 1) {
        if (this.whose[at] === n) node.take(JSON.parse(this.lines[at]), false);
      }
      if (node.now) nodes.set(n, node);
    }
    return nodes;
  }
}
