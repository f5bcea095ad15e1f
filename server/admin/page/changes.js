// What this page changes: each time it says first what comes of it, and asks.

import { keepToken, post, Refused } from "./api.js";
import { byId, put } from "./dom.js";

const SAID_MS = 8000;
const dialog = byId("change");
let change = null; // {title, button, limit, path, params(), text(), command(), done(result)}

export function setLimit(caller = "") {
  byId("limit-level").value = "caller";
  byId("limit-caller").value = caller;
  byId("limit-method").value = "";
  byId("limit-blocked").checked = false;
  open({
    title: "Set a limit", button: "Set the limit", limit: true, path: "throttle/set",
    params: limitParams, text: limitText,
    command: () => command("faircall throttle set", limitParams()),
    done: () => `Set: ${limitText()}`,
  });
}

export function removeLimit(rate) {
  open({
    title: "Remove a limit", button: "Remove the limit", path: "throttle/remove",
    params: () => ({ rate }), text: () => `This limit is set no more: ${rate}`,
    command: () => `faircall throttle remove ${quoted(rate)}`,
    done: () => `Removed: ${rate}`,
  });
}

export function cancelCalls(user) {
  open({
    title: "Cancel calls", button: "Cancel the calls", path: "cancel",
    params: () => ({ user }),
    text: () => `All calls of ${user} that wait are dropped, and those that run are abandoned, on every port. It may call again.`,
    command: () => command("faircall cancel", { user }),
    done: (result) => `Cancelled: ${Object.entries(result).filter(([, count]) => typeof count === "number").map(([what, count]) => `${count} ${what}`).join(", ")}`,
  });
}

function limitParams() {
  const level = byId("limit-level").value;
  const asked = { level };
  const [caller, method] = [byId("limit-caller").value.trim(), byId("limit-method").value.trim()];
  if (level === "caller" && caller) asked.caller = caller;
  if (level !== "server" && method) asked.method = method;
  asked.calls = byId("limit-blocked").checked ? "blocked" : Number(byId("limit-calls").value);
  return asked;
}

function limitText() {
  const { level, caller, method, calls } = limitParams();
  const whom = { server: "all callers together", method: `method ${method ?? "(each)"}`, caller: `${caller ?? "each caller"}${method ? ` calling ${method}` : ""}` }[level];
  return calls === "blocked" ? `no call of ${whom} is let in` : `${whom}: at most ${calls} calls a second`;
}

function command(start, asked) {
  const words = Object.entries(asked).map(([name, value]) => `--${name.replaceAll("_", "-")} ${quoted(String(value))}`);
  return [start, ...words].join(" ");
}

function quoted(word) {
  return /^[\w.:@/+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function open(asked) {
  change = asked;
  put(byId("change-title"), asked.title);
  put(byId("change-do"), asked.button);
  put(byId("change-said"), "");
  byId("limit-fields").hidden = !asked.limit;
  byId("change-token-label").hidden = true;
  refresh();
  dialog.showModal();
}

function refresh() {
  const level = byId("limit-level").value;
  byId("limit-caller-label").hidden = level !== "caller";
  byId("limit-method-label").hidden = level === "server";
  byId("limit-calls").disabled = byId("limit-blocked").checked;
  put(byId("change-text"), change.text());
  put(byId("change-command"), change.command());
}

async function carryOut() {
  const given = byId("change-token").value;
  if (given) keepToken(given);
  byId("change-do").disabled = true;
  put(byId("change-said"), "");
  try {
    say(change.done(await post(change.path, change.params())));
    byId("change-token").value = "";
    dialog.close();
  } catch (error) {
    if (error instanceof Refused && error.status === 401) askForToken();
    put(byId("change-said"), error instanceof Refused ? error.message : "No connection: nobody knows whether it was done.");
  } finally {
    byId("change-do").disabled = false;
  }
}

function askForToken() {
  byId("change-token-label").hidden = false;
  byId("change-token").focus();
}

let hides = 0;
function say(text) {
  const done = byId("done");
  put(done, text);
  done.hidden = false;
  clearTimeout(hides);
  hides = setTimeout(() => (done.hidden = true), SAID_MS);
}

byId("change-form").addEventListener("submit", (event) => {
  event.preventDefault();
  carryOut();
});
byId("change-form").addEventListener("input", refresh);
byId("change-not").onclick = () => dialog.close();
byId("set-limit").onclick = () => setLimit();
