// Plots over time, by uPlot. A plot is a figure whose caption says the same in words.

import { el, number } from "./format.js";

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shown = new Set();
let mark = null; // the moment that is looked at, in a recording

// Plots are made anew where colours or widths change.
const renew = () => shown.forEach((plot) => plot.make());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renew);
const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => target.plot?.fit()));

export const forget = () => {
  for (const plot of shown) plot.end();
  shown.clear();
};
export const markAt = (time) => {
  mark = time;
  shown.forEach((plot) => plot.plot?.redraw(false, false));
};

// `lines` is a list of {key, label, colour}; `stacked` lays one upon the other.
export class Plot {
  constructor(series, { title, show, lines, stacked = false, top = null, clock = true }) {
    Object.assign(this, { series, show, lines, stacked, top, clock });
    this.box = el("div", { class: "plot" });
    this.box.plot = this;
    this.keys = el("ul", { class: "keys" });
    this.values = lines.map((line) => {
      const value = el("b", {}, "–");
      const swatch = el("i", { "aria-hidden": "true" });
      swatch.style.background = `var(${line.colour})`;
      this.keys.append(el("li", {}, swatch, `${line.label} `, value));
      return value;
    });
    this.element = el("figure", {}, el("figcaption", {}, el("h3", {}, title), this.keys), this.box);
    shown.add(this);
    widths.observe(this.box);
  }
  data() {
    const { series } = this;
    const times = series.times.subarray(0, series.length);
    const none = () => new Float32Array(series.length).fill(NaN);
    const lines = this.lines.map((line) => series.at(line.key) ?? none());
    if (!this.stacked) return [times, ...lines.map((line) => gaps(line))];
    // From the bottom up; drawn from the top down, so that each area hides the lower ones' part.
    const sums = lines.map(() => new Float32Array(series.length));
    for (let at = 0; at < series.length; at += 1) {
      let sum = 0;
      for (let n = 0; n < lines.length; n += 1) {
        sum += Number.isNaN(lines[n][at]) ? 0 : lines[n][at];
        sums[n][at] = sum;
      }
    }
    return [times, ...sums.reverse()];
  }
  make() {
    this.plot?.destroy();
    this.plot = null;
    const width = this.box.clientWidth;
    if (!width) return;
    const ink = variable("--ink");
    const rule = variable("--rule");
    const axis = { stroke: ink, font: "12px system-ui, sans-serif", grid: { stroke: rule, width: 1 },
      ticks: { stroke: rule, width: 1 } };
    const drawn = this.stacked ? [...this.lines].reverse() : this.lines;
    const { top } = this;
    this.plot = new uPlot({
      width, height: 180, legend: { show: false }, cursor: { drag: { x: false, y: false }, sync: { key: "time" } },
      scales: { x: { time: this.clock }, y: { range: (_, low, high) => [0, top ?? (high > 0 ? high * 1.05 : 1)] } },
      axes: [{ ...axis, values: this.clock ? undefined : (_, ticks) => ticks.map((v) => `${number(v)} s`) },
        { ...axis, size: 76, values: (_, ticks) => ticks.map((v) => this.show(v)) }],
      series: [{}, ...drawn.map((line) => ({
        stroke: () => variable(line.colour), width: this.stacked ? 0 : 1.5, points: { show: false },
        fill: this.stacked ? () => variable(line.colour) : undefined,
        paths: this.stacked ? uPlot.paths.stepped({ align: -1 }) : undefined }))],
      hooks: { draw: [(plot) => this.drawMark(plot)] },
    }, this.data(), this.box);
  }
  drawMark(plot) {
    if (mark === null) return;
    const { ctx, bbox } = plot;
    const x = plot.valToPos(mark, "x", true);
    ctx.save();
    ctx.strokeStyle = variable("--ink");
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
  update(place) {
    this.lines.forEach((line, n) => {
      const all = this.series.at(line.key);
      this.values[n].textContent = this.show(all && all.length ? all[place ?? all.length - 1] : NaN);
    });
    if (this.plot) this.plot.setData(this.data());
    else this.make();
  }
  fit() {
    if (!this.plot) this.make();
    else if (this.plot.width !== this.box.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: 180 });
  }
  end() {
    widths.unobserve(this.box);
    this.plot?.destroy();
  }
}

// uPlot takes null for «nothing», typed arrays have NaN: it leaves those out as it draws.
const gaps = (line) => Array.from(line, (v) => (Number.isNaN(v) ? null : v));

export const COLOURS = ["--series-0", "--series-1", "--series-2", "--series-3", "--series-4", "--series-5",
  "--series-6", "--series-7"];
