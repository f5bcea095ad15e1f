// What is asked of the server. A token is kept for this tab only, and sent once there is one.

const PATIENCE_MS = 10_000;
const KEPT_AS = "faircall-token";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function token() {
  return sessionStorage.getItem(KEPT_AS) ?? "";
}

export function keepToken(text) {
  if (text) sessionStorage.setItem(KEPT_AS, text);
  else sessionStorage.removeItem(KEPT_AS);
}

// The answer; Refused with what the server says, another error if it says nothing.
export function get(path) {
  return ask(path, {});
}

export function post(path, params) {
  const headers = { "Content-Type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(params) });
}

async function ask(path, how) {
  const headers = { ...how.headers };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await fetch(path, { ...how, headers, signal, cache: "no-store" });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  return answer.json();
}
