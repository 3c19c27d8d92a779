"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const place = document.getElementById("charts");
  const plots = [];

  const variable = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (n) => variable("--series-" + (n % 8));

  // Four significant digits, no exponent within a screen's reach.
  const number = (v) => {
    const size = Math.abs(v);
    if (v === 0) return "0";
    if (size >= 1e7 || size < 1e-6) return v.toExponential(2);
    return String(Number(v.toPrecision(4)));
  };
  const withUnit = (unit) => (plot, v) =>
    v == null ? "–" : number(v) + (unit ? " " + unit : "");

  // All plots over time show the same time.
  let first = Infinity, last = -Infinity;
  for (const chart of charts) {
    for (const line of chart.across ? [] : chart.lines) {
      if (line.t_s.length) {
        first = Math.min(first, line.t_s[0]);
        last = Math.max(last, line.t_s[line.t_s.length - 1]);
      }
    }
  }
  if (!(first < last)) { first = Math.min(first, 0) || 0; last = first + 1; }

  const zoomAlike = (plot, key) => {
    if (key !== "x") return;
    const { min, max } = plot.scales.x;
    for (const { plot: other, chart } of plots) {
      if (other && !chart.across && other !== plot && (other.scales.x.min !== min || other.scales.x.max !== max)) {
        other.setScale("x", { min, max });
      }
    }
  };

  // A line has no point at most times that another one has: read the nearest, or for a value that
  // holds, the one before.
  const nearest = (lines) => (plot, series, index, time) => {
    const times = plot.data[0], values = plot.data[series];
    if (series === 0 || values[index] != null) return index;
    let left = index, right = index;
    while (left > 0 && values[left] == null) left--;
    if (lines[series - 1].held) return values[left] == null ? null : left;
    while (right < values.length - 1 && values[right] == null) right++;
    if (values[left] == null) return values[right] == null ? null : right;
    if (values[right] == null) return left;
    return time - times[left] <= times[right] - time ? left : right;
  };

  const draw = (entry) => {
    const { chart, box, log } = entry;
    const places = chart.lines.flatMap((line) => line.t_s);
    const ends = chart.across ? [Math.min(0, ...places), Math.max(...places, 1e-9)] : [first, last];
    const zoom = entry.plot ? { ...entry.plot.scales.x } : { min: ends[0], max: ends[1] };
    const shown = entry.plot ? entry.plot.series.map((s) => s.show) : [];
    if (entry.plot) entry.plot.destroy();
    const data = uPlot.join(chart.lines.map((line) => [line.t_s, line.values]));
    const ink = () => variable("--ink"), rule = () => variable("--rule");
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 },
      font: "13px system-ui, sans-serif", labelFont: "13px system-ui, sans-serif" };
    const whole = (plot, low, high) => {
      const own = data[0];
      const all = low == null || (low === own[0] && high === own[own.length - 1]);
      return all ? ends : [low, high];
    };
    const fromZero = (plot, low, high) => {
      if (low == null) return [0, 1];
      const top = Math.max(high, 0), bottom = Math.min(low, 0);
      return [bottom * 1.05, top > bottom ? top * 1.05 : 1];
    };
    const options = {
      width: Math.max(box.clientWidth, 280), height: 250,
      cursor: { sync: chart.across ? undefined : { key: "time" }, drag: { x: true, y: false }, dataIdx: nearest(chart.lines),
        focus: { prox: 24 } },
      focus: { alpha: 0.4 },
      scales: { x: { time: false, range: whole },
        y: log ? { distr: 3 } : { range: fromZero } },
      axes: [{ ...axis, label: chart.across || "time in s", labelSize: 22, size: 34 },
        { ...axis, label: chart.unit ? "in " + chart.unit : " ", labelSize: 22, size: 58,
          values: (plot, ticks) => ticks.map((v) => (v == null ? "" : number(v))) }],
      series: [{ label: chart.across ? "at" : "time", value: withUnit(chart.across ? "" : "s") },
        ...chart.lines.map((line, n) => ({
          label: line.name, scale: "y", width: 1.5, spanGaps: true,
          stroke: () => colour(line.colour), value: withUnit(chart.unit),
          show: shown[n + 1] !== false, points: { size: 4 },
          paths: line.held ? uPlot.paths.stepped({ align: 1 }) : undefined,
        }))],
      hooks: { setScale: chart.across ? [] : [zoomAlike] },
    };
    entry.plot = new uPlot(options, data, box);
    entry.plot.setScale("x", { min: zoom.min, max: zoom.max });
  };

  for (const chart of charts) {
    const section = document.createElement("section");
    section.className = "chart";
    const header = document.createElement("header");
    const title = document.createElement("h3");
    title.textContent = chart.title;
    header.append(title);
    const box = document.createElement("div");
    section.append(header, box);
    place.append(section);
    const entry = { chart, box, log: false, plot: null };
    plots.push(entry);
    if (chart.lines.every((line) => line.values.every((v) => v > 0))) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "logarithmic";
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        entry.log = !entry.log;
        button.setAttribute("aria-pressed", String(entry.log));
        draw(entry);
      });
      header.append(button);
    }
    draw(entry);
  }

  new ResizeObserver(() => {
    for (const { plot, box } of plots) {
      const width = Math.max(box.clientWidth, 280);
      if (plot && plot.width !== width) plot.setSize({ width, height: 250 });
    }
  }).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(draw));
})();
