// Elements, and numbers as people read them.

export const el = (name, props = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

export const number = (v) => {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  const size = Math.abs(v);
  if (v === 0) return "0";
  if (size >= 1e9 || size < 1e-4) return v.toExponential(2);
  if (size >= 1000) return Math.round(v).toLocaleString("en").replaceAll(",", "\u202f");
  return String(Number(v.toPrecision(3)));
};

const scaled = (unit, steps) => (v) => {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  for (const [size, name] of steps) {
    if (Math.abs(v) >= size) return `${number(v / size)} ${name}${unit}`;
  }
  return `${number(v)} ${unit}`;
};

export const bits = scaled("bit/s", [[1e9, "G"], [1e6, "M"], [1e3, "k"]]);
export const octets = scaled("B", [[1e9, "G"], [1e6, "M"], [1e3, "k"]]);
export const percent = (v) => {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  return v > 0 && v < 0.0001 ? "< 0.01 %" : `${number(v * 100)} %`;
};

export const seconds = (v) => {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (v === 0) return "0 s";
  if (v < 1) return `${number(v * 1000)} ms`;
  if (v < 120) return `${number(v)} s`;
  if (v < 7200) return `${Math.floor(v / 60)} min ${Math.floor(v % 60)} s`;
  if (v < 172800) return `${Math.floor(v / 3600)} h ${Math.floor((v % 3600) / 60)} min`;
  return `${Math.floor(v / 86400)} d ${Math.floor((v % 86400) / 3600)} h`;
};

export const withUnit = (v, unit) => {
  if (typeof v === "boolean") return v ? "yes" : "no";
  if (typeof v === "string") return v || "–";
  if (unit === "s") return seconds(v);
  if (unit === "octets") return octets(v);
  if (unit === "bit/s") return bits(v);
  const text = number(v);
  return unit && text !== "–" ? `${text} ${unit}` : text;
};

export const sum = (counts) => Object.values(counts ?? {}).reduce((all, one) => all + one, 0);

export const listed = (counts) =>
  Object.entries(counts ?? {}).map(([kind, count]) => `${kind} ${number(count)}`).join(", ") || "–";
