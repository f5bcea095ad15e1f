// The two plots, from what this page has seen: the server keeps no history.

import { byId } from "./dom.js";
import { time, whole } from "./figures.js";

const SECONDS = 300;
const HEIGHT_PX = 190;
const COLOURS = 8;
const LEAST_MS = 0.1;
let shown = null; // {key, levels, columns, waiting, latency}

export function colour(level) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--level-${level % COLOURS}`).trim();
}

// One moment more; null: nothing is known of it. `key` says which server and port it is of.
export function add(key, levels) {
  if (shown?.key !== key || shown.levels !== levels.length) start(key, levels.length);
  record(levels.map((level) => level.waiting), levels.flatMap((level) => [level.recent.latency_p99_ms, level.recent.latency_p50_ms]));
  const now = levels.map((level) => `level ${level.level}: ${whole(level.waiting)}`).join(", ");
  byId("waiting-plot").setAttribute("aria-label", `Calls that wait: ${now}`);
  const late = levels.map((level) => `level ${level.level}: ${time(level.recent.latency_p99_ms)}`).join(", ");
  byId("latency-plot").setAttribute("aria-label", `Latency, 99 of 100 calls within: ${late}`);
}

// The lines break where the server did not answer.
export function addGap() {
  if (shown) record(Array(shown.levels).fill(null), Array(2 * shown.levels).fill(null));
}

function record(waiting, latencies) {
  const { columns } = shown;
  columns.at.push(Date.now() / 1000);
  waiting.forEach((value, line) => columns.waiting[line].push(value));
  latencies.forEach((value, line) => columns.latency[line].push(value === null ? null : Math.max(LEAST_MS, value)));
  for (const column of [columns.at, ...columns.waiting, ...columns.latency]) if (column.length > SECONDS) column.shift();
  draw();
}

function draw() {
  const { columns } = shown;
  for (const [drawn, lines] of [[shown.waiting, columns.waiting], [shown.latency, columns.latency]]) {
    drawn.setData([columns.at, ...lines]);
    if (!(drawn.cursor.left >= 0)) drawn.setLegend({ idx: columns.at.length - 1 }); // the last ones, unless somebody points
  }
}

function start(key, levels) {
  const empty = (count) => Array.from({ length: count }, () => []);
  shown?.waiting.destroy();
  shown?.latency.destroy();
  shown = { key, levels, columns: { at: [], waiting: empty(levels), latency: empty(2 * levels) } };
  build();
}

function build() {
  const numbers = Array.from({ length: shown.levels }, (_, level) => level);
  shown.waiting = plot("waiting-plot", { range: (_, low, high) => [0, Math.max(10, (high ?? 0) * 1.1)] }, whole,
    numbers.map((level) => ({ label: `level ${level}`, stroke: () => colour(level), width: 2 })));
  shown.latency = plot("latency-plot", { distr: 3, range: decades }, time, numbers.flatMap((level) => [
    { label: `level ${level} p99`, stroke: () => colour(level), width: 2 },
    { label: `p50`, stroke: () => colour(level), width: 1.5, dash: [4, 4] },
  ]));
}

function decades(_, low, high) {
  const from = Math.floor(Math.log10(low || 1));
  return [10 ** from, 10 ** Math.max(from + 1, Math.ceil(Math.log10(high || 1)))];
}

function powersOfTen(_, axis, least, most) {
  const first = Math.round(Math.log10(least));
  return Array.from({ length: Math.round(Math.log10(most)) - first + 1 }, (_, step) => 10 ** (first + step));
}

function clock(at) {
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}

function plot(id, y, shownAs, lines) {
  const place = byId(id);
  const ink = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: ink("--quiet"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 } };
  const value = (_, number) => shownAs(number);
  return new globalThis.uPlot({
    width: place.clientWidth, height: HEIGHT_PX, scales: { y }, cursor: { drag: { x: false, y: false } },
    axes: [
      { ...axis, space: 80, values: (_, splits) => splits.map(clock) },
      { ...axis, size: 58, values: (_, splits) => splits.map(shownAs), ...(y.distr === 3 && { splits: powersOfTen }) },
    ],
    series: [{ label: "at", value: (_, at) => (at === null ? "–" : clock(at)) }, ...lines.map((line) => ({ ...line, value, points: { show: false } }))],
  }, [[]], place);
}

// Another width or other colours.
new ResizeObserver(() => {
  if (!shown) return;
  for (const [id, drawn] of [["waiting-plot", shown.waiting], ["latency-plot", shown.latency]]) {
    drawn.setSize({ width: byId(id).clientWidth, height: HEIGHT_PX });
  }
}).observe(byId("waiting-plot"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!shown) return;
  shown.waiting.destroy();
  shown.latency.destroy();
  build();
  draw();
});
