// Small charts of the last hour, drawn as SVG from the samples that the server keeps.

import { el } from "./elements.js";

const WIDTH = 240;
const HEIGHT = 44;

const CHARTS = [
  ["Loop lag", "server", "loop_lag_ms", "ms", "how late the event loop was at worst"],
  ["Commit lag", "session", "flush_lag_ms", "ms", "age of the oldest write not yet committed"],
  ["Cycle time", "session", "cycle_ms", "ms", "how long the last background round took"],
  ["Waiting for vectors", "session", "vectors_missing", "", "concepts the embedder has not reached"],
  ["Writes", "session", "writes", "", "groups committed in ten seconds"],
  ["Store", "server", "store_answers", "", "whether it answers"],
];

/** One chart for each series, the newest sample at the right edge. */
export function healthCharts(history) {
  return CHARTS.map(([title, whose, name, unit, says]) => {
    const values = (history[whose][name] ?? []).map(Number);
    const isStore = name === "store_answers";
    const newest = values.at(-1);
    const worst = values.length ? Math.max(...values) : 0;
    const figure = newest === undefined ? "no sample yet"
      : isStore ? (newest ? "answers" : "away")
      : `${shown(newest)}${unit && ` ${unit}`}`;
    const aside = newest === undefined ? "" : isStore
      ? `${Math.round((100 * values.reduce((sum, one) => sum + one, 0)) / values.length)} % of the time`
      : `most ${shown(worst)}`;
    return el("figure", { class: `chart${isStore && newest === 0 ? " bad" : ""}` },
      el("figcaption", { title: says },
        el("b", {}, title), " ", el("span", { class: "figure" }, figure), " ", el("small", {}, aside)),
      drawing(values, history.samples_max, isStore ? 1 : worst, `${title}: ${figure}, ${aside || says}`));
  });
}

const shown = (number) => (number >= 100 || Number.isInteger(number) ? Math.round(number) : number.toFixed(1));

function drawing(values, samplesMax, worst, label) {
  const step = WIDTH / Math.max(1, samplesMax - 1);
  const points = values.map((value, place) => {
    const x = WIDTH - (values.length - 1 - place) * step;
    const y = HEIGHT - 2 - (worst ? (value / worst) * (HEIGHT - 8) : 0);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const line = points.length === 1 ? `M${points[0]}h-.1` : points.length ? `M${points.join("L")}` : "";
  const left = values.length ? (WIDTH - (values.length - 1) * step).toFixed(1) : WIDTH;
  return el("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    el("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1, class: "axis" }),
    line && el("path", { d: `${line}V${HEIGHT}H${left}Z`, class: "area" }),
    line && el("path", { d: line, class: "line" }));
}

/** The history with one more sample of each kind, unless it is the newest already. */
export function withSample(history, sample) {
  for (const whose of ["server", "session"]) {
    const added = sample[whose];
    if (!added || history[whose].at?.at(-1) === added.at) continue;
    for (const [name, value] of Object.entries(added)) {
      (history[whose][name] ??= []).push(value);
      if (history[whose][name].length > history.samples_max) history[whose][name].shift();
    }
  }
  return history;
}
