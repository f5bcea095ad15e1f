// Asks for the figures each second while somebody looks, and shows them.

import { get, keepToken, Refused, token } from "./api.js";
import { removeLimit } from "./changes.js";
import { byId, make, put } from "./dom.js";
import { explain } from "./explain.js";
import { part, rate, time, whole } from "./figures.js";
import { add, addGap } from "./plots.js";
import { showAlarms, showGroups, showHandlers, showLevels, showLimits, showUsers } from "./tables.js";

const EVERY_MS = 1000;
let next = 0; // the timer of the next question; 0: none waits
let asking = false;
let heardMs = 0;
let port = null;

async function look() {
  clearTimeout(next);
  next = 0;
  if (asking) return;
  asking = true;
  try {
    const found = await get(`stats.json?sort=${encodeURIComponent(byId("sort").value)}`);
    heardMs = Date.now();
    connected();
    show(found);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) askForToken(error.message);
    else lost(error);
  } finally {
    asking = false;
  }
  if (!document.hidden && byId("token-form").hidden) next = setTimeout(look, EVERY_MS);
}

function connected() {
  document.body.classList.remove("lost");
  byId("token-form").hidden = true;
  put(byId("connection"), "connected");
}

function lost(error) {
  if (!(error instanceof Refused || error instanceof TypeError || error instanceof DOMException)) console.error(error);
  document.body.classList.add("lost");
  const since = heardMs ? ` The figures are of ${time(Date.now() - heardMs)} ago.` : "";
  const why = error instanceof Refused ? `The server answers ${error.status}` : "No connection";
  put(byId("connection"), `${why}: trying again each second.${since}`);
  addGap();
}

function askForToken(why) {
  byId("token-form").hidden = false;
  put(byId("connection"), "a token is needed");
  put(byId("token-said"), token() ? why : "");
  byId("token").focus();
}

function show(found) {
  choosePort(found.ports);
  const shown = found.ports.find((one) => one.port === port) ?? found.ports[0];
  put(byId("server"), `${found.faircall}, ${found.phase.toLowerCase()}, up ${time(found.uptime_s * 1000)}`);
  showVerdict(shown);
  showAlarms(found.alarms ?? shown.alarms ?? []);
  const levels = shown.queue.levels.map((level) => ({ ...level, recent: shown.recent[level.level] ?? {} }));
  add(`port ${shown.port}`, levels);
  showGroups(shown.who.overload.groups);
  showLevels(levels);
  showUsers(shown.who, explain);
  showHandlers(shown.handlers);
  showLimits(found.rates, shown.throttle, removeLimit);
}

function showVerdict(shown) {
  const { is_overloaded: over, sentence, suspects, busy } = shown.who.overload;
  byId("verdict").classList.toggle("overloaded", over);
  put(byId("sentence"), sentence);
  const { calls_per_s: calls, answered_per_s: answered } = shown.rates;
  put(byId("load"), `${rate(calls)} calls/s, ${rate(answered)} answered/s, handlers ${part(busy)} busy, ${whole(shown.totals.connections.now)} connections`);
  const names = suspects.map((suspect) => suspect.user).join(", ");
  put(byId("announced"), over ? `Overloaded${names ? ` by ${names}` : ""}` : "Nobody overloads it"); // heard when it changes
  document.title = over ? `overloaded: faircall` : "faircall";
}

function choosePort(ports) {
  const choice = byId("port");
  const numbers = ports.map((one) => String(one.port));
  byId("port-choice").hidden = numbers.length < 2;
  if (numbers.join() === [...choice.options].map((option) => option.value).join()) return;
  choice.replaceChildren(...numbers.map((number) => make("option", "", number)));
  if (!numbers.includes(String(port))) port = ports[0].port;
  choice.value = String(port);
}

byId("port").addEventListener("change", () => {
  port = Number(byId("port").value);
  look();
});
byId("sort").addEventListener("change", look);
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value);
  byId("token").value = "";
  byId("token-form").hidden = true;
  look();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) look();
});
look();
