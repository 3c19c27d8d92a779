// The views: each says where it has something to show, and builds what is then kept up to date.

import { bits, el, listed, number, octets, percent, seconds, sum } from "./format.js";
import { COLOURS, Plot } from "./charts.js";
import { Counters, Long, Table } from "./table.js";
import { mapView } from "./map.js";
import { MAIL, PARTS } from "./store.js";

const WORDS = { class: "in its class", turn: "for its turn", line: "on the line", repeat: "sent again",
  order: "for its order", proxy: "in a proxy" };

// A view's parts: elements, and what is to be done with each state.
class View {
  constructor(context) {
    this.context = context;
    this.elements = [];
    this.updates = [];
  }
  add(element, update) {
    this.elements.push(element);
    if (update) this.updates.push(update);
  }
  text(text, name = "p") {
    this.add(el(name, {}, text));
  }
  table(caption, columns, rows, name) {
    const table = new Table(caption, columns);
    this.add(table.element, (node) => table.update(rows(node), name));
  }
  counters(type, things) {
    const counters = new Counters(type, this.context.described);
    this.add(counters.element, (node) => counters.update(things(node.now)));
  }
  plot(title, show, lines, more = {}) {
    const plot = new Plot(this.context.node.series, { title, show, lines, clock: this.context.clock === "unix", ...more });
    this.add(plot.element, () => plot.update(this.context.place()));
  }
}

const line = (key, label, n) => ({ key, label, colour: COLOURS[n % COLOURS.length] });
const links = (now) => now.ports.slice(1);
// Classes that something was ever in.
export const active = (now) => now.classes.filter((one) => one.packets + one.queued_packets + sum(one.dropped) > 0);
const saved = (plain, short) => (plain > 0 ? percent(1 - short / plain) : "–");
const column = (head, text, more = {}) => ({ head, text, ...more });
const words = (head, text, more = {}) => ({ head, text, words: true, ...more });
// A column that leads to the packets behind a row, which `find` finds.
const leading = (view, head, text, find = text, more = {}) => words(head, text, { to: (row) => view.context.behind(find(row)), ...more });

const overview = (view) => {
  const { now } = view.context.node;
  view.plot("Use of the links", percent, links(now).map((port, n) => line(`port ${port.name} use`, port.name, n)), { top: 1 });
  view.plot("Mean delay of a packet, by class", seconds, active(now).map((one, n) => line(`class ${one.name} delay`, one.name, n)));
  view.plot("Packets dropped a second, by class", number, active(now).map((one, n) => line(`class ${one.name} dropped`, one.name, n)));
  view.text("Packets since the start", "h2");
  const ends = el("p");
  view.add(ends, ({ now: { packets } }) => {
    const { admitted, originated, dropped, ...others } = packets;
    const rest = Object.entries(others).filter(([, count]) => count > 0).map(([what, count]) => `${number(count)} ${what}`);
    ends.textContent = `${number(admitted)} taken in, ${number(originated)} own; ${rest.join(", ")}; dropped: ${listed(dropped)}`;
  });
  view.counters("Packets", (now) => [[now.node, now.packets]]);
  view.counters("Local", (now) => [[now.node, now.local]]);
  view.counters("Led", (now) => (now.led ? [[now.node, now.led]] : []));
  view.counters("Tap", (now) => (now.taps ?? []).map((tap) => [tap.name, tap]));
  view.counters("Echo", (now) => (now.echo ? [[now.node, now.echo]] : []));
};

const linkView = (view) => {
  const last = (node, port, what) => node.window().get(`port ${port.name} ${what}`);
  view.table("Links, of the last 10 s", [
    leading(view, "link", ({ port }) => port.name),
    words("state", ({ port }) => (port.up ? port.found ?? "up" : `DOWN${port.problem ? `: ${port.problem}` : ""}`),
      { bad: ({ port }) => !port.up }),
    column("rate", ({ port }) => bits(port.rate_bit_s)),
    column("use", ({ node, port }) => percent(last(node, port, "use"))),
    column("out", ({ node, port }) => bits(last(node, port, "out"))),
    column("in", ({ node, port }) => bits(last(node, port, "in"))),
    column("damaged", ({ node, port }) => percent(last(node, port, "damaged")),
      { help: "Share of the frames received that failed their check", bad: ({ node, port }) => last(node, port, "damaged") > 0.05 }),
    column("failed", ({ port }) => number(port.tx_failed + port.refused), { help: "Transmissions that failed, since the start" }),
    column("went down", ({ port }) => number(port.downs), { help: "Times since the start" }),
    column("headers save", ({ port }) => saved(port.plain_octets, port.compressed_octets), { help: "By header compression, since the start" }),
    column("payloads save", ({ port }) => saved(port.payload_plain_octets, port.payload_compressed_octets), { help: "By payload compression, since the start" }),
    words("agreed", ({ port }) => port.agreement || "–", { help: "The agreement of the ends of the link" }),
  ], (node) => node.now.ports.map((port) => ({ port, node, name: port.name })));
  const { now } = view.context.node;
  for (const port of links(now)) {
    const max = port.rate_bit_s ? { top: null } : {};
    view.plot(`${port.name}: rate`, bits, [line(`port ${port.name} out`, "out", 0), line(`port ${port.name} in`, "in", 1)], max);
  }
  view.plot("Frames damaged, of those received", percent, links(now).map((port, n) => line(`port ${port.name} damaged`, port.name, n)));
  const each = (of) => (now) => now.ports.filter((port) => of(port)).map((port) => [port.name, of(port)]);
  view.counters("Port", each((port) => port));
  view.counters("Urgent", each((port) => port.urgent));
  view.counters("Repairs", each((port) => port.repairs));
};

const classView = (view) => {
  const last = (node, one, what) => node.window().get(`class ${one.name} ${what}`);
  view.table("Classes, of the last 10 s", [
    leading(view, "class", ({ one }) => one.name),
    column("out", ({ node, one }) => bits(last(node, one, "sent"))),
    column("in", ({ node, one }) => bits(last(node, one, "came"))),
    column("waits", ({ one }) => octets(one.queued_octets)),
    column("mean stay", ({ node, one }) => seconds(last(node, one, "delay"))),
    column("dropped", ({ node, one }) => percent(last(node, one, "loss")), { bad: ({ node, one }) => last(node, one, "loss") > 0.01 }),
    column("out: half within", ({ one }) => seconds(one.delay_p50_s), { help: "The delay in this node, since the start" }),
    column("99 % within", ({ one }) => seconds(one.delay_p99_s), { help: "The delay in this node, since the start" }),
    column("in: half within", ({ one }) => seconds(one.delivered_p50_s), { help: "Of packets given to the host side, since the start" }),
    column("99 % within", ({ one }) => seconds(one.delivered_p99_s), { help: "Of packets given to the host side, since the start" }),
    words("dropped since the start", ({ one }) => listed(one.dropped)),
  ], (node) => node.now.classes.map((one) => ({ one, node, name: one.name })));
  view.text("Parts of the delay", "h2");
  view.text("Mean delay of the packets that left between two snapshots, by its parts. The time on the line is predicted from its rate.");
  for (const one of active(view.context.node.now)) {
    view.plot(one.name, seconds, PARTS.map((part) => ({ key: `class ${one.name} ${part}`, label: WORDS[part], colour: `--part-${part}` })),
      { stacked: true });
  }
  view.plot("Waiting octets", octets, active(view.context.node.now).map((one, n) => line(`class ${one.name} queued`, one.name, n)));
  view.counters("Class", (now) => now.classes.map((one) => [one.name, one]));
};

// Where packets went, and where their time went: what stands behind each number.
const packetView = (view) => {
  view.text("Of each of the largest flows: the recent packets with the longest delay, and the last dropped one. A packet has the same name at each gateway on its path.");
  const long = new Long("Packets", [
    words("flow", (one) => one.flow, { width: "minmax(26em, 2fr)" }),
    words("class", (one) => one.class, { width: "7em" }),
    words("link", (one) => one.port, { width: "7em" }),
    words("became", (one) => (one.fine ? one.fate : `dropped: ${one.fate}`), { width: "11em", bad: (one) => !one.fine }),
    ...["stay", ...PARTS].map((part) => column(WORDS[part] ?? part, (one) => seconds(one.times[part] ?? 0), { value: (one) => one.times[part] ?? 0, width: "6.5em" })),
    column("size", (one) => octets(one.octets), { value: (one) => one.octets, width: "5em" }),
    column("ended at", (one) => seconds(one.at_s), { value: (one) => one.at_s, help: "Since the gateway's start" }),
    words("packet", (one) => one.packet, { width: "11em" }),
  ], view.context.find);
  view.add(long.element, ({ now }) => long.update(Object.values(now.ended)
    .map((one) => ({ ...one, fine: FINE.includes(one.fate), times: { stay: one.stay_s, ...one.parts_s } }))
    .sort((a, b) => b.stay_s - a.stay_s)));
};
const FINE = ["delivered", "forwarded", "answered", "absorbed", "fragmented"];

const PROTOCOLS = { 1: "ICMP", 6: "TCP", 17: "UDP", 50: "ESP", 58: "ICMPv6", 132: "SCTP" };
const endsOf = (flow) =>
  (flow.ports ? `${flow.ports[0]} › ${flow.ports[1]}` : flow.spi !== null && flow.spi !== undefined ? `spi ${flow.spi.toString(16)}` : "–");

const talksOf = ({ now }) => Object.entries(now.talks).map(([name, talk]) => ({ name, ...talk })).sort((a, b) => b.wait_s - a.wait_s);

const flowView = (view) => {
  view.table("The largest flows of the last 10 s, the longest wait first", [
    leading(view, "flow", ({ name }) => name),
    words("class", (one) => one.class),
    words("link", (one) => one.port),
    column("asks", (one) => bits(one.asks_bit_s), { help: "Received rate" }),
    column("out", (one) => bits(one.out_bit_s)),
    column("wait", (one) => seconds(one.wait_s), { help: "Mean, without the time on the line" }),
    column("dropped", (one) => percent(one.lost), { bad: (one) => one.lost > 0.03 }),
    column("here", (one) => number(one.held), { help: "Waiting packets" }),
    words("dropped for", (one) => listed(one.dropped)),
  ], talksOf);
  const long = new Long("Flows", [
    leading(view, "from", (flow) => flow.source, (flow) => `${flow.source} ${flow.destination} ${flow.ports?.join(">") ?? ""}`, { width: "15em" }),
    words("to", (flow) => flow.destination, { width: "15em" }),
    words("protocol", (flow) => PROTOCOLS[flow.protocol] ?? String(flow.protocol), { width: "6em" }),
    words("ports", endsOf, { width: "9em" }),
    words("class", (flow) => flow.class, { width: "8em" }),
    words("is", (flow) => (flow.standing ? `call, ${flow.standing}` : flow.nature), { width: "11em" }),
    words("link", (flow) => flow.port, { width: "7em" }),
    column("packets", (flow) => number(flow.packets), { value: (flow) => flow.packets }),
    column("mean size", (flow) => octets(flow.octets), { value: (flow) => flow.octets }),
    column("needs", (flow) => bits(flow.rate_bit_s), { value: (flow) => flow.rate_bit_s ?? -1, help: "By size and period of its packets" }),
    column("silent for", (flow) => seconds(flow.idle_s), { value: (flow) => flow.idle_s }),
  ]);
  view.add(long.element, (node) => {
    long.element.hidden = node.now.flows.length === 0;
    long.update(node.now.flows);
  });
  const cut = el("p", { class: "quiet" });
  view.add(cut, (node) => { cut.textContent = node.now.cut ? `${node.now.cut} more flows aren't in the recording.` : ""; });
};

const ASSUMED = "R and opinion are estimates by the E-model (ITU-T G.107) with G.729A at both ends, whatever the call uses, " +
  "losses by chance, no echo. Delay: the mean stay of the class's packets here in the last 10 s, the way on the line by its rate, and 60 ms " +
  "for coder, packet and jitter buffer; of calls that were silent for so long, none. Loss: what this node dropped of the class in the last 10 s, and the share of frames received on the link " +
  "that were damaged. What the far end adds isn't in it.";

// Calls that links know, and what looks like one on links that don't.
const callsOf = (node) => {
  const known = node.now.flows.filter((flow) => flow.call)
    .map((flow) => ({ ...flow, name: `${flow.source} > ${flow.destination} ${PROTOCOLS[flow.protocol]} ${endsOf(flow).replace(" › ", ">")}` }));
  const names = new Set(known.map(({ name }) => name));
  const others = talksOf(node).filter(({ name, call }) => call && !names.has(name));
  return [...known, ...others.map((talk) => ({ ...talk, rate_bit_s: talk.asks_bit_s }))];
};

const callView = (view) => {
  view.table("Calls", [
    leading(view, "flow", (flow) => flow.name),
    words("class", (flow) => flow.class),
    words("standing", (flow) => flow.standing ?? flow.nature ?? "–", { bad: (flow) => flow.standing === "refused" }),
    column("a packet each", (flow) => seconds(flow.period_s)),
    column("needs", (flow) => bits(flow.rate_bit_s)),
    column("stay", ({ call }) => seconds(call.stay_s)),
    column("lost", ({ call }) => percent(call.lost)),
    column("R", ({ call }) => call.r?.toFixed(0) ?? "–", { help: "Rating of the E-model, 0 … 93", bad: ({ call }) => call.r < 60 }),
    column("opinion", ({ call }) => call.opinion?.toFixed(1) ?? "–", { help: "Mean opinion score that R stands for, 1 … 4.4" }),
    column("silent for", (flow) => seconds(flow.idle_s)),
  ], callsOf);
  view.text(ASSUMED);
  view.counters("PortFlows", (now) => now.ports.filter((port) => port.flows.known > 0).map((port) => [port.name, port.flows]));
};

const stationView = (view) => {
  const ports = (now) => now.ports.filter((port) => port.hf);
  for (const port of ports(view.context.node.now)) {
    view.text(`Station at ${port.name}`, "h2");
    const key = (link, what) => `hf ${port.name} ${link.name} ${what}`;
    const own = (node) => node.now.ports.find((one) => one.name === port.name)?.hf?.neighbours ?? [];
    const last = (node, link, what) => node.window().get(key(link, what));
    view.table(`Links of ${port.name}`, [
      words("with", ({ link }) => link.name),
      words("state", ({ link }) => (link.linked ? (link.long ? "linked, long numbers" : "linked") : "no link"), { bad: ({ link }) => !link.linked }),
      column("rate", ({ link }) => bits(link.rate?.bit_s)),
      words("last change", ({ link }) => link.rate?.reason || "–"),
      column("SNR", ({ link }) => (link.rate?.snr_db === null || link.rate?.snr_db === undefined ? "–" : `${number(link.rate.snr_db)} dB`)),
      column("window", ({ link }) => `${number(link.under_way)} of ${number(link.window)}`, { help: "Frames under way, of the most" }),
      column("segment", ({ link }) => octets(link.segment_octets)),
      column("frames lost", ({ link }) => percent(link.lost)),
      column("own air", ({ node, link }) => percent(last(node, link, "own"))),
      column("its air", ({ node, link }) => percent(last(node, link, "its"))),
    ], (node) => own(node).map((link) => ({ link, node, name: link.name })));
    for (const link of port.hf.neighbours) {
      view.plot(`Whose turn, with ${link.name}`, percent, [
        { key: key(link, "own"), label: "own transmissions", colour: "--series-0" },
        { key: key(link, "its"), label: "its transmissions", colour: "--series-1" }], { stacked: true, top: 1 });
      if (link.rate) view.plot(`Rate towards ${link.name}`, bits, [line(key(link, "rate"), "rate", 0)]);
      if (link.rate?.snr_db !== null && link.rate?.snr_db !== undefined) {
        view.plot(`SNR of ${link.name}`, (v) => `${number(v)} dB`, [line(key(link, "snr"), "SNR", 2)]);
      }
    }
  }
  const each = (of) => (now) => ports(now).flatMap((port) => of(port.hf, port.name));
  view.counters("Station", each((hf, name) => [[name, hf]]));
  view.counters("Link", each((hf) => hf.neighbours.map((link) => [link.name, link])));
  view.counters("Rate", each((hf) => hf.neighbours.filter((link) => link.rate).map((link) => [link.name, link.rate])));
  view.counters("Clients", each((hf, name) => [[name, hf.clients]]));
  view.counters("Access", each((hf) => (hf.accesses ?? []).map((access) => [`access point ${access.sap}`, access])));
};

const hopView = (view) => {
  const ports = (now) => now.ports.filter((port) => port.hop || port.neighbours?.length);
  view.table("Neighbours", [
    words("neighbour", ({ one }) => one.name),
    words("on", ({ port }) => port.name),
    column("rate", ({ one }) => bits(one.rate_bit_s)),
    column("sent", ({ one }) => octets(one.octets_out)),
  ], (node) => ports(node.now).flatMap((port) => (port.neighbours ?? []).map((one) => ({ one, port, name: `${port.name} ${one.name}` }))), ({ name }) => name);
  for (const port of ports(view.context.node.now).filter((port) => port.hop)) {
    view.plot(`${port.name}: packets sent again a second`, number, [line(`hop ${port.name} repeated`, "sent again", 3)]);
    view.plot(`${port.name}: sent and not acknowledged`, octets, [line(`hop ${port.name} window`, "octets", 0)]);
  }
  view.counters("Hop", (now) => now.ports.filter((port) => port.hop).map((port) => [port.name, port.hop]));
  view.counters("Neighbour", (now) => ports(now).flatMap((port) => (port.neighbours ?? []).map((one) => [one.name, one])));
};

const streamView = (view) => {
  const owners = (now) => ["proxy", "echo"].filter((name) => now[name]).map((name) => [name, now[name].streams]);
  view.table("Streams", [
    words("of", ({ name }) => name),
    column("open", ({ streams }) => number(streams.open)),
    column("opened", ({ streams }) => number(streams.opened)),
    column("ended", ({ streams }) => number(streams.ended)),
    words("reset", ({ streams }) => listed(streams.reset)),
    column("taken", ({ streams }) => octets(streams.taken_octets)),
    column("delivered", ({ streams }) => octets(streams.delivered_octets)),
    column("wait", ({ streams }) => octets(streams.held_octets)),
  ], (node) => owners(node.now).map(([name, streams]) => ({ name, streams })));
  if (view.context.node.now.proxy) {
    const line1 = el("p");
    view.add(line1, ({ now: { proxy } }) => {
      line1.textContent = `Partners heard: ${number(proxy.partners_known)}. Of ${octets(proxy.octets)} accepted for them, ` +
        `${octets(proxy.octets_line)} were left to send: ${saved(proxy.octets, proxy.octets_line)} saved.`;
    });
    view.plot("Open streams", number, [line("proxy open", "open", 0)]);
    view.plot("Octets accepted, and sent after compression, a second", octets,
      [line("proxy octets", "taken", 1), line("proxy octets_line", "compressed", 0)]);
  }
  view.counters("Streams", owners);
  view.counters("Proxy", (now) => (now.proxy ? [[now.node, now.proxy]] : []));
};

const nameView = (view) => {
  const line1 = el("p");
  view.add(line1, ({ now: { dns } }) => {
    const without = dns.hits + dns.stale + dns.joined + dns.repeats + dns.ruled;
    const crossed = dns.octets_out + dns.octets_in;
    line1.textContent = `${number(dns.asked)} of ${number(dns.questions)} questions crossed a link; ${number(without)} were ` +
      `answered or joined without. ${number(dns.known)} names are known, ${number(dns.lost)} questions were given up. ` +
      `Clients sent and received ${octets(dns.client_octets)}, and ${octets(crossed)} crossed: ${saved(dns.client_octets, crossed)} saved.`;
  });
  view.plot("Questions a second", number, [line("dns questions", "of clients", 1), line("dns asked", "across links", 0)]);
  view.plot("Known names", number, [line("dns known", "names", 2)]);
  view.counters("Dns", (now) => [[now.node, now.dns]]);
};

const mailView = (view) => {
  view.table("Stored messages, the most urgent first", [
    words("precedence", ({ name }) => name),
    column("messages", ({ count }) => number(count)),
  ], ({ now }) => MAIL.map((name) => ({ name, count: now.mail[`${name}_here`] })));
  view.plot("Stored messages", number, MAIL.map((lane, n) => line(`mail ${lane}_here`, lane, n)));
  view.counters("Mail", (now) => [[now.node, now.mail]]);
};

const routeView = (view) => {
  view.plot("Neighbours and routes", number, [line("olsr neighbours", "neighbours", 0), line("olsr relays", "relays", 1), line("olsr routes", "routes", 2)]);
  view.plot("Changes of routes a second", number, [line("olsr changes", "changes", 3)]);
  view.counters("Olsr", (now) => [[now.node, now.olsr]]);
};

// What gateways at far ends said of themselves last.
const farView = (view) => {
  const far = (of) => ({ now }) => now.far.flatMap((one) => one[of].map((it) => ({ at: one.name, it })));
  view.table("Far ends", [
    words("far end", (one) => one.name),
    column("age", (one) => (one.age_s === null ? "–" : seconds(one.age_s)), { bad: (one) => one.age_s > 60 }),
    words("finding", (one) => one.wrong || (one.age_s === null ? "–" : "nothing")),
    column("rate", (one) => bits(one.rate_bit_s)),
    column("out", (one) => bits(one.out_bit_s)),
    column("in", (one) => bits(one.in_bit_s)),
    column("damaged", (one) => percent(one.lost_in)),
    column("calls", (one) => number(one.calls)),
    column("they wait", (one) => seconds(one.calls_wait_s)),
  ], ({ now }) => now.far);
  const figures = [
    column("wait", ({ it }) => seconds(it.wait_s)),
    column("dropped", ({ it }) => percent(it.lost)),
  ];
  view.table("Their classes", [
    words("at", ({ at }) => at),
    words("class", ({ it }) => it.name || "–"),
    column("waiting", ({ it }) => octets(it.queued_octets)),
    column("out", ({ it }) => bits(it.out_bit_s)),
    ...figures,
  ], far("classes"), ({ at, it }) => `${at} ${it.name}`);
  view.table("Their flows with the longest wait", [
    words("at", ({ at }) => at),
    words("flow", ({ it }) => it.flow || "–"),
    column("in", ({ it }) => bits(it.in_bit_s)),
    ...figures,
  ], far("flows"), ({ at, it }) => `${at} ${it.flow}`);
  view.counters("Far", (now) => now.far.map((one) => [one.name, one]));
};

// What it decided by itself.
const choiceView = (view) => {
  view.table("Its choices", [
    words("at", (one) => one.at),
    words("chose", (one) => one.chose, { bad: (one) => one.costs }),
    words("as", (one) => one.why),
    words("held back by", (one) => one.held ?? "–"),
    words("until", (one) => one.until ?? "–"),
  ], ({ now }) => now.choices.map((one, n) => ({ ...one, n })), ({ n }) => n);
};

const keyed = (things) => Object.keys(things).length > 0;

export const VIEWS = [
  { id: "overview", title: "Overview", has: () => true, build: overview },
  { id: "links", title: "Links", has: () => true, build: linkView },
  { id: "classes", title: "Classes", has: (now) => now.classes.length > 0, build: classView },
  { id: "flows", title: "Flows", has: (now) => now.flows.length > 0 || keyed(now.talks), build: flowView },
  { id: "packets", title: "Packets", has: (now) => keyed(now.ended), build: packetView },
  { id: "calls", title: "Calls", has: (now) => callsOf({ now }).length > 0, build: callView },
  { id: "station", title: "HF station", has: (now) => now.ports.some((port) => port.hf), build: stationView },
  { id: "neighbours", title: "Neighbours", has: (now) => now.ports.some((port) => port.hop || port.neighbours?.length), build: hopView },
  { id: "streams", title: "Streams", has: (now) => Boolean(now.proxy || now.echo), build: streamView },
  { id: "names", title: "Names", has: (now) => Boolean(now.dns), build: nameView },
  { id: "mail", title: "Mail", has: (now) => Boolean(now.mail), build: mailView },
  { id: "far", title: "Far ends", has: (now) => Boolean(now.far?.length), build: farView },
  { id: "map", title: "Map", has: (now) => now.ports.some((port) => port.neighbours?.length), build: mapView },
  { id: "routes", title: "Routes", has: (now) => Boolean(now.olsr), build: routeView },
  { id: "choices", title: "Choices", has: (now) => now.choices?.length > 0, build: choiceView },
];

// One row that says whether it is well: of each figure the worst, and where.
export const well = (node) => {
  const { now } = node;
  const values = node.window();
  const worst = (kind, what) => {
    let found = null;
    for (const [key, value] of values) {
      if (key.startsWith(`${kind} `) && key.endsWith(` ${what}`) && !Number.isNaN(value) && (!found || value > found.value)) {
        found = { value, of: key.slice(kind.length + 1, -what.length - 1) };
      }
    }
    return found;
  };
  const down = links(now).filter((port) => !port.up).map((port) => port.name);
  values.delete(`port ${now.ports[0]?.name} use`);
  const use = worst("port", "use");
  const wait = worst("class", "delay");
  const [ended, dropped] = now.classes.reduce(([all, lost], one) => [
    all + (values.get(`class ${one.name} packets`) ?? 0), lost + (values.get(`class ${one.name} dropped`) ?? 0)], [0, 0]);
  const loss = ended + dropped > 0 ? dropped / (ended + dropped) : NaN;
  const standing = (word) => now.flows.filter((flow) => flow.standing === word).length;
  const refused = standing("refused");
  return [
    { what: "links", value: down.length ? `${down.join(", ")} down` : `${links(now).length} up`, bad: down.length > 0 },
    { what: "line use", value: use ? percent(use.value) : "–", note: use?.of, find: use?.of },
    { what: "longest wait", value: wait ? seconds(wait.value) : "–", note: wait?.of, find: wait?.of },
    { what: "dropped here", value: percent(loss), note: `${number(sum(now.packets.dropped))} ever`, bad: loss > 0.01, find: "dropped" },
    { what: "calls", value: refused ? `${number(refused)} refused` : number(callsOf(node).length), note: refused ? `${number(standing("admitted"))} admitted` : null, bad: refused > 0 },
    { what: "up for", value: seconds(now.uptime_s) },
  ];
};
export { View };
