"use strict";
const found = JSON.parse(document.getElementById("document").textContent);
const COLOURS = ["#2364aa", "#d1495b", "#2e933c", "#8f5fbf", "#e08e1d", "#12908e", "#7a5c3e", "#5b6472", "#b8a000", "#e377c2", "#444444"];

function element(kind, text, parent) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

/* lines: [{name, points: [[x, y], ...]}] in any order; y may be null. axes.marks: [{at, name}], lines across. */
function plot(parent, title, lines, axes) {
  const xs = [...new Set(lines.flatMap(line => line.points.map(point => point[0])))].sort((a, b) => a - b);
  if (!xs.length) return;
  const values = lines.map(line => { const by = new Map(line.points); return xs.map(x => by.get(x) ?? null); });
  const options = {
    title, width: 520, height: 320,
    scales: { x: { time: false, distr: axes.logX ? 3 : 1 }, y: axes.logY ? { distr: 3 } : { range: (u, low, high) => [0, high * 1.05 || 1] } },
    axes: [{ label: axes.x }, { label: axes.y, size: 70 }],
    hooks: { draw: [u => (axes.marks ?? []).forEach(mark => drawMark(u, mark))] },
    series: [{ label: axes.x }, ...lines.map((line, i) => ({ label: line.name, stroke: COLOURS[i % COLOURS.length], width: 2, spanGaps: true, dash: line.dashed ? [6, 4] : undefined, points: { show: xs.length < 40 } }))],
  };
  new uPlot(options, [xs, ...values], parent);
}

function drawMark(u, { at, name }) {
  const { ctx, bbox } = u, x = u.valToPos(at, "x", true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = "#94370b";
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.textAlign = "right";
  ctx.fillText(name, x - 4, bbox.top + 14);
  ctx.restore();
}

/* A figure by two variables: the darker, the larger. */
function gridTable(parent, grid) {
  const table = element("table", undefined, parent);
  table.className = "grid";
  element("caption", grid.figure, table);
  const head = element("tr", undefined, table), most = Math.max(...grid.values.flat().map(value => value ?? 0));
  for (const text of [`${grid.rows} \\ ${grid.columns}`, ...grid.column_values]) element("th", text, head);
  grid.values.forEach((cells, i) => {
    const row = element("tr", undefined, table);
    element("th", grid.row_values[i], row);
    for (const value of cells) {
      const cell = element("td", value === null ? "-" : shown(value), row);
      if (value > 0) cell.style.background = `rgb(35 100 170 / ${0.45 * value / most})`;
    }
  });
}

const shown = value => value.toLocaleString("en", { maximumSignificantDigits: Math.abs(value) >= 100 ? 21 : 3, maximumFractionDigits: 3 });

function median(values) {
  const known = values.filter(value => value !== null).sort((a, b) => a - b);
  if (!known.length) return null;
  const middle = known.length >> 1;
  return known.length % 2 ? known[middle] : (known[middle - 1] + known[middle]) / 2;
}

/* Positive values only: others have no place on a logarithmic axis. */
const positive = value => (value > 0 ? value : null);

/* Figures that end in `unit` over the variable with the most numbers, a line for each other label. */
function figurePlot(parent, suite, unit, logY) {
  const numeric = Object.keys(suite.cases[0].labels).map(name => [name, new Set(suite.cases.map(c => c.labels[name]))])
    .filter(([, values]) => values.size > 1 && [...values].every(value => typeof value === "number"))
    .sort((a, b) => b[1].size - a[1].size);
  if (!numeric.length) return;
  const [variable, values] = numeric[0], lines = new Map();
  for (const one of suite.cases)
    for (const [figure, repeats] of Object.entries(one.figures)) {
      if (!figure.endsWith(unit)) continue;
      const rest = Object.entries(one.labels).filter(([name]) => name !== variable).map(([, value]) => value);
      const name = [...rest, figure].join(" ");
      if (!lines.has(name)) lines.set(name, { name, points: [], dashed: figure.includes("p50") });
      const value = median(repeats);
      lines.get(name).points.push([one.labels[variable], logY ? positive(value) : value]);
    }
  const least = Math.min(...values), logX = least > 0 && Math.max(...values) / least > 20;
  const marks = (suite.knee ?? []).filter(knee => knee.over === variable && knee.at !== null).map(knee => ({ at: knee.at, name: `knee ${knee.sweep}` }));
  if (lines.size) plot(parent, `${unit.trim()} by ${variable}`, [...lines.values()], { x: variable, y: unit, logX, logY, marks });
}

function casePlots(parent, one) {
  parent.replaceChildren();
  const groups = Object.entries(one.groups);
  plot(parent, "Latency distribution", groups.map(([name, group]) => ({ name, points: group.curve.map(([x, y]) => [x, positive(y)]) })),
    { x: "1 / (1 - percentile)", y: "ms", logX: true, logY: true });
  plot(parent, "Calls a second", groups.map(([name, group]) => ({ name, points: group.seconds.map((s, i) => [i, s.ok]) })),
    { x: "second (warm-up included)", y: "calls/s" });
  plot(parent, "Latency by second", groups.flatMap(([name, group]) => ["p50", "p99"].map(q => ({
    name: `${name} ${q}`, dashed: q === "p50", points: group.seconds.map((s, i) => [i, positive(s[`${q}_ms`])]) }))),
    { x: "second (warm-up included)", y: "ms", logY: true });
  const server = one.server ?? [];
  plot(parent, "Memory of the server", [{ name: "PSS", points: server.map(look => [look.second, look.pss_mib]) }], { x: "second", y: "MiB" });
  plot(parent, "Calls in the queue", [{ name: "waiting", points: one.waiting }], { x: "second", y: "calls" });
}

function show(suite) {
  const parent = document.getElementById("suites");
  element("h2", suite.name, parent).id = suite.name;
  element("p", suite.about, parent);
  if (suite.grids) suite.grids.forEach(grid => gridTable(parent, grid));
  else element("pre", suite.table, parent);
  for (const line of suite.knees) element("p", line, parent);
  for (const warning of new Set(suite.cases.flatMap(one => one.warnings))) element("p", `Warning: ${warning}`, parent).className = "warning";
  const overall = element("div", undefined, parent);
  overall.className = "plots";
  if (suite.grids) for (const { figure } of suite.grids) figurePlot(overall, suite, figure, figure.endsWith(" ms"));
  else {
    for (const unit of ["p99 ms", "p50 ms"]) figurePlot(overall, suite, unit, true);
    for (const unit of ["calls/s", "of bare", "waiting calls"]) figurePlot(overall, suite, unit, false);
  }
  const drawn = suite.cases.filter(one => Object.keys(one.groups).length);
  if (!drawn.length) return;
  const choice = element("select", undefined, parent), plots = element("div", undefined, parent);
  plots.className = "plots";
  drawn.forEach((one, i) => { element("option", one.key || suite.name, choice).value = i; });
  choice.addEventListener("change", () => casePlots(plots, drawn[choice.value]));
  casePlots(plots, drawn[0]);
}

document.getElementById("about").textContent = `${found.started}, against ${found.target}; repeats: ${found.repeats}`;
found.suites.forEach(show);
for (const [name, value] of Object.entries(found.environment)) {
  const row = element("tr", undefined, document.getElementById("environment"));
  element("th", name, row);
  element("td", typeof value === "object" ? Object.entries(value).map(pair => pair.join(" ")).join(", ") : value, row);
}
