// The figures of one port as tables. `acts` are what a click does: explain(user), remove(rate).

import { byId, child, fill, make, put } from "./dom.js";
import { part, rate, time, whole } from "./figures.js";
import { colour } from "./plots.js";

const FEW = matchMedia("(max-width: 40rem)").matches ? 6 : 15; // users that are shown at first
let all = false;

const plain = (label, textOf, more = {}) => ({ label, show: (cell, item) => put(cell, textOf(item)), ...more });
const named = (label, textOf, more = {}) => ({ label, show: (cell, item) => put(child(cell, "span", "name"), textOf(item)), text: true, ...more });

function bar(cell, text, value, most) {
  put(child(cell, "span", "figure"), text);
  const progress = child(cell, "progress");
  progress.max = Math.max(1e-9, most);
  progress.value = Math.min(value, progress.max);
  progress.setAttribute("aria-hidden", "true");
}

// Nothing where all methods have the same handlers.
export function showGroups(groups) {
  byId("groups-table").hidden = byId("levels-title").hidden = !groups.length;
  fill(byId("groups"), groups, (group) => group.group, [
    { label: "group", show: (cell, group) => {
      put(child(cell, "span", "name"), group.group);
      put(child(cell, "span", "over"), group.is_overloaded ? "overloaded" : "");
    } },
    { label: "waiting", wide: true, show: (cell, group) =>
      bar(cell, `${whole(group.waiting)} of ${whole(group.capacity)}${group.held ? `, ${whole(group.held)} held` : ""}`, group.waiting, group.capacity) },
    plain("running", (group) => `${whole(group.running)} of ${whole(group.handlers)}`),
    { label: "busy", wide: true, show: (cell, group) => bar(cell, part(group.busy), group.busy, 1) },
    plain("refused/s", (group) => rate(group.refused_per_s)),
    named("methods", (group) => (group.methods.join() === "*" ? "all others" : group.methods.join(", ")), { wide: true }),
  ]);
}

export function showLevels(levels) {
  fill(byId("levels"), levels, (level) => level.level, [
    { label: "level", show: (cell, level) => {
      child(cell, "span", "swatch").style.backgroundColor = colour(level.level);
      put(child(cell, "span", "figure"), `level ${level.level}${level.backs_off ? ", refuses" : ""}`);
    } },
    { label: "waiting", wide: true, show: (cell, level) =>
      bar(cell, `${whole(level.waiting)} of ${whole(level.capacity)}${level.held ? `, ${whole(level.held)} held` : ""}`, level.waiting, level.capacity) },
    plain("weight", (level) => whole(level.weight)),
    plain("users", (level) => whole(level.callers)),
    plain("wait p50", (level) => time(level.recent.wait_p50_ms)),
    plain("wait p99", (level) => time(level.recent.wait_p99_ms)),
  ]);
}

export function showUsers(who, explain) {
  const { top, others } = who;
  const shown = all ? top : top.slice(0, FEW);
  const more = byId("more-users");
  more.hidden = top.length <= FEW;
  put(more, all ? `Show the first ${FEW} only` : `Show ${top.length} users`);
  more.onclick = () => {
    all = !all;
    showUsers(who, explain);
  };
  const rest = others.users ? `; ${whole(others.users)} are in no row: ${rate(others.calls_per_s)} calls/s, ${whole(others.waiting)} wait` : "";
  put(byId("users-count"), `${whole(who.users)} users${rest}.`);
  fill(byId("users"), shown, (user) => user.user, [
    { label: "user", show: (cell, user) => {
      const button = child(cell, "button", "link name");
      button.type = "button";
      put(button, user.user);
      button.onclick = () => explain(user.user);
    } },
    { label: "share", wide: true, show: (cell, user) => (user.share === null ? put(cell, "service") : bar(cell, part(user.share), user.share, 1)) },
    plain("cost/s", (user) => rate(user.cost_per_s)),
    plain("level", (user) => whole(user.level)),
    plain("calls/s", (user) => rate(user.calls_per_s)),
    plain("waiting", (user) => whole(user.waiting)),
    plain("wait p99", (user) => time(user.wait_p99_ms)),
    plain("refused/s", (user) => rate(user.refused_per_s)),
  ]);
}

export function showHandlers(handlers) {
  fill(byId("handlers"), handlers, (handler) => handler.index, [
    plain("handler", (handler) => `${handler.express ? "express" : "handler"} ${handler.index}${handler.group ? `, ${handler.group}` : ""}`),
    named("runs", (handler) => handler.method ?? handler.state, { wide: true }),
    named("for", (handler) => handler.user ?? "–", { wide: true }),
    plain("running for", (handler) => time(handler.ran_ms)),
    { label: "busy", wide: true, show: (cell, handler) => bar(cell, part(handler.busy_share), handler.busy_share, 1) },
    plain("calls", (handler) => whole(handler.calls)),
  ]);
}

export function showLimits(rates, limiters, remove) {
  const lines = rates?.rates ?? [];
  byId("set-limit").hidden = rates === null;
  byId("rates-table").hidden = !lines.length;
  byId("no-limits").hidden = lines.length > 0;
  byId("limiters-table").hidden = !limiters.length;
  put(byId("rates-left-out"), rates?.left_out ? `${whole(rates.left_out)} more: faircall throttle get` : "");
  fill(byId("rates"), lines, (line) => line.rate, [
    named("rate", (line) => line.rate),
    plain("from", (line) => (line.source === "set" ? "set while it runs" : line.source), { text: true }),
    { label: "change", show: (cell, line) => {
      const button = child(cell, "button");
      button.type = "button";
      button.hidden = line.source !== "set";
      put(button, "Remove…");
      button.onclick = () => remove(line.rate);
    } },
  ]);
  fill(byId("limiters"), limiters, (limiter) => limiter.limiter, [
    named("what it limits", (limiter) => limiter.limiter),
    plain("used of this period", (limiter) => (limiter.limit === null ? whole(limiter.used) : `${whole(limiter.used)} of ${whole(limiter.limit)} calls`), { wide: true }),
    plain("held now", (limiter) => whole(limiter.held)),
    plain("opens in", (limiter) => (limiter.opens_in_s === null ? "blocked" : time(limiter.opens_in_s * 1000))),
    plain("refused, ever", (limiter) => whole(limiter.refused)),
  ]);
}

// Alarms are few, and rare: they are made anew, but only if they are others. A command that several
// have stands with the first of them.
export function showAlarms(alarms) {
  const list = byId("alarm-list");
  const said = JSON.stringify(alarms.map((alarm) => [alarm.text, alarm.commands]));
  byId("alarms").hidden = !alarms.length;
  if (list.dataset.said === said) return;
  list.dataset.said = said;
  const shown = new Set();
  list.replaceChildren(...alarms.map((alarm) => {
    const item = make("li");
    item.append(make("p", "name", alarm.text ?? `${alarm.rule}: ${alarm.user}`));
    for (const command of alarm.commands ?? []) {
      if (!shown.has(command)) item.append(make("code", "name", command));
      shown.add(command);
    }
    return item;
  }));
}
