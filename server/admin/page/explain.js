// Why a user has its level: what `faircall explain` says, and what can be done about the user.

import { get } from "./api.js";
import { byId, put } from "./dom.js";
import { cancelCalls, setLimit } from "./changes.js";

const dialog = byId("explain");
let user = "";

export async function explain(name) {
  user = name;
  put(byId("explain-title"), name);
  put(byId("explain-text"), "Asking the server.");
  if (!dialog.open) dialog.showModal();
  let text;
  try {
    text = (await get(`explain.json?user=${encodeURIComponent(name)}`)).text.join("\n");
  } catch (error) {
    text = error.message;
  }
  if (user === name) put(byId("explain-text"), text);
}

byId("explain-close").onclick = () => dialog.close();
byId("explain-limit").onclick = () => {
  dialog.close();
  setLimit(user);
};
byId("explain-cancel").onclick = () => {
  dialog.close();
  cancelCalls(user);
};
