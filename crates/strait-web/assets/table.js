// Tables that change in place: what is selected or focused stays so.

import { el, withUnit } from "./format.js";

const write = (cell, text) => {
  if (cell.textContent !== text) cell.textContent = text;
};

// The text of a row's cell; with `to` it leads to the packets behind the row.
const fill = (cell, { text, to, bad }, row) => {
  const address = to?.(row);
  if (!address) write(cell, text(row));
  else {
    if (!cell.firstElementChild) cell.replaceChildren(el("a"));
    write(cell.firstElementChild, text(row));
    cell.firstElementChild.href = address;
  }
  cell.classList.toggle("bad", Boolean(bad?.(row)));
};

// `columns` is a list of {head, help, text(row), bad(row), to(row)}; the first names the row.
export class Table {
  constructor(caption, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.body = el("tbody");
    const heads = columns.map(({ head, help, words }) =>
      el("th", { scope: "col", title: help, class: words ? "words" : null }, head));
    const table = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.element = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, table);
  }
  update(rows, name = (row) => row.name) {
    this.element.hidden = rows.length === 0;
    const seen = new Set();
    for (const row of rows) {
      const key = name(row);
      seen.add(key);
      let line = this.rows.get(key);
      if (!line) {
        line = el("tr", {}, ...this.columns.map(({ words }, n) =>
          (n ? el("td", { class: words ? "words" : null }) : el("th", { scope: "row" }))));
        this.rows.set(key, line);
        this.body.append(line);
      }
      this.columns.forEach((column, n) => fill(line.cells[n], column, row));
    }
    for (const [key, line] of this.rows) {
      if (!seen.has(key)) {
        line.remove();
        this.rows.delete(key);
      }
    }
  }
}

// Every described counter of some things of one type: a row a counter, a column a thing.
export class Counters {
  constructor(type, described) {
    this.described = described[type] ?? [];
    this.place = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `All counters: ${type}` });
    this.element = el("details", {}, el("summary", {}, `All counters: ${type}`), this.place);
    this.element.addEventListener("toggle", () => this.update());
    this.things = [];
  }
  update(things = this.things) {
    this.things = things;
    this.element.hidden = things.length === 0 || this.described.length === 0;
    if (!this.element.open || this.element.hidden) return;
    const names = things.map(([name]) => name).join("\n");
    if (names !== this.names) {
      this.names = names;
      const columns = things.map(([name], n) => ({ head: name, text: (row) => row.cells[n] }));
      this.table = new Table("since the start", [{ head: "what", words: true, text: (row) => row.name }, ...columns]);
      this.table.element.removeAttribute("tabindex");
      this.table.element.removeAttribute("role");
      this.table.element.removeAttribute("aria-label");
      this.place.replaceChildren(this.table.element);
    }
    this.table.update(this.described.flatMap(({ name, help, unit }) => {
      const values = things.map(([, thing]) => thing[name]);
      const kinds = new Set(values.flatMap((one) => (one && typeof one === "object" ? Object.keys(one) : [])));
      if (kinds.size === 0) {
        const cells = values.map((one) => (one && typeof one === "object" ? "–" : withUnit(one, unit)));
        return [{ name: help, cells }];
      }
      return [...kinds].map((kind) => ({ name: `${help}: ${kind}`, cells: values.map((one) => withUnit(one?.[kind] ?? 0, unit)) }));
    }));
  }
}

const ROW_PX = 26;

// Ten thousand rows of which those in sight exist. Sorted by any column, filtered by words.
export class Long {
  constructor(caption, columns, find = "") {
    Object.assign(this, { caption, columns, all: [], shown: [], sorted: null, down: true });
    this.filter = el("input", { type: "search", value: find, placeholder: "address, class, port …", "aria-label": `Find in ${caption}` });
    this.filter.addEventListener("input", () => this.arrange());
    this.count = el("span", { class: "quiet", role: "status" });
    this.heads = columns.map((column, n) => {
      const button = el("button", { type: "button", title: column.help }, column.head);
      button.addEventListener("click", () => this.sortBy(n));
      return el("span", { role: "columnheader", "aria-sort": "none", class: column.words ? "words" : null }, button);
    });
    this.head = el("div", { role: "row", class: "long-row long-head" }, ...this.heads);
    this.head.ariaRowIndex = 1;
    this.body = el("div", { role: "rowgroup", class: "long-body" });
    this.box = el("div", { class: "long", role: "table", tabindex: "0", "aria-label": caption },
      el("div", { role: "rowgroup", class: "long-top" }, this.head), this.body);
    this.box.addEventListener("scroll", () => this.draw());
    this.element = el("section", {}, el("p", { class: "find" }, this.filter, " ", this.count), this.box);
    this.element.style.setProperty("--columns", columns.map(({ width }) => width ?? "7em").join(" "));
  }
  sortBy(n) {
    this.down = this.sorted === n ? !this.down : true;
    this.sorted = n;
    this.heads.forEach((head, at) => head.setAttribute("aria-sort", at !== n ? "none" : this.down ? "descending" : "ascending"));
    this.arrange();
  }
  update(rows) {
    this.all = rows;
    this.arrange();
  }
  arrange() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter((word) => word);
    const text = (row) => this.columns.map((column) => column.text(row)).join(" ").toLowerCase();
    this.shown = words.length
      ? this.all.filter((row) => { const all = text(row); return words.every((word) => all.includes(word)); })
      : this.all.slice();
    if (this.sorted !== null) {
      const { value, text: words } = this.columns[this.sorted];
      const of = value ?? words;
      const order = this.down ? -1 : 1;
      this.shown.sort((a, b) => {
        const [x, y] = [of(a), of(b)];
        return (x < y ? -1 : x > y ? 1 : 0) * order;
      });
    }
    const all = this.all.length;
    this.count.textContent = `${this.caption}: ${this.shown.length === all ? "" : `${this.shown.length} of `}${all}`;
    this.box.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.body.style.height = `${this.shown.length * ROW_PX}px`;
    this.draw();
  }
  draw() {
    const from = Math.max(Math.floor(this.box.scrollTop / ROW_PX) - 4, 0);
    const count = Math.min(Math.ceil((this.box.clientHeight || 480) / ROW_PX) + 8, this.shown.length - from);
    while (this.body.children.length > Math.max(count, 0)) this.body.lastChild.remove();
    while (this.body.children.length < count) {
      const cells = this.columns.map(({ words }) => el("span", { role: "cell", class: words ? "words" : null }));
      this.body.append(el("div", { role: "row", class: "long-row" }, ...cells));
    }
    for (let n = 0; n < count; n += 1) {
      const line = this.body.children[n];
      line.style.transform = `translateY(${(from + n) * ROW_PX}px)`;
      line.setAttribute("aria-rowindex", String(from + n + 2));
      this.columns.forEach((column, c) => fill(line.children[c], column, this.shown[from + n]));
    }
  }
}
