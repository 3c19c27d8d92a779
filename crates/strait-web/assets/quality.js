// How a call sounds, by the E-model (ITU-T G.107) as far as a gateway can know.

const G729 = { impairment: 11, robustness: 19 }; // G.113 Appendix I: G.729A with silence suppression
const AROUND_S = 0.06; // coder, one packet's filling and a buffer against jitter

export const ASSUMED = "R and opinion are estimates by the E-model (ITU-T G.107) with G.729A at both ends, whatever the call uses, " +
  "losses by chance, no echo. Delay: the mean stay of the class's packets here in the last 10 s, the way on the line by its rate, and 60 ms " +
  "for coder, packet and jitter buffer; of calls that were silent for so long, none. Loss: what this node dropped of the class in the last 10 s, and the share of frames received on the link " +
  "that were damaged. What the far end adds isn't in it.";

// R of a one-way delay and a share of packets lost.
export const rating = (delay_s, loss) => {
  const d = delay_s * 1000;
  const delay = 0.024 * d + (d > 177.3 ? 0.11 * (d - 177.3) : 0);
  const lost = loss * 100;
  const equipment = G729.impairment + (95 - G729.impairment) * (lost / (lost + G729.robustness));
  return Math.max(93.2 - delay - equipment, 0);
};

export const opinion = (r) => (r <= 0 ? 1 : 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6);

export const quality = (node, flow) => {
  const values = node.window();
  const stay_s = values.get(`class ${flow.class} delay`);
  const here = values.get(`class ${flow.class} loss`);
  if (stay_s === undefined || Number.isNaN(stay_s) || flow.idle_s > 10) return { stay_s: NaN, loss: NaN, r: null, mos: null };
  const damaged = values.get(`port ${flow.port} damaged`);
  const passed = (1 - (here || 0)) * (1 - (damaged || 0));
  const loss = 1 - passed;
  const r = rating(stay_s + AROUND_S, loss);
  return { stay_s, loss, r, mos: opinion(r) };
};
