// Elements, and tables whose rows stay in place while their figures change: what has the focus
// keeps it. Whatever comes from a server goes into `textContent`, and nowhere else.

export function byId(id) {
  return document.getElementById(id);
}

export function make(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

// A text, if it is another one.
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const ROWS = new WeakMap(); // body: key to row

// A row for each of `items`, in their order. A column is {label, show(cell, item)}: the first one
// heads its row; `text` is set to the left, `wide` has a line for itself on a narrow screen.
export function fill(body, items, keyOf, columns) {
  const known = ROWS.get(body) ?? new Map();
  const shown = new Map();
  const focused = document.activeElement;
  items.forEach((item, at) => {
    const key = keyOf(item);
    const row = known.get(key) ?? newRow(columns);
    columns.forEach((column, number) => column.show(row.cells[number], item));
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
    shown.set(key, row);
  });
  for (const row of [...body.rows].slice(items.length)) row.remove();
  ROWS.set(body, shown);
  if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
}

function newRow(columns) {
  const row = make("tr");
  columns.forEach((column, number) => {
    const cell = make(number ? "td" : "th", [column.text && "text", column.wide && "wide"].filter(Boolean).join(" "));
    if (number) cell.dataset.label = column.label;
    else cell.scope = "row";
    row.append(cell);
  });
  return row;
}

// The one child of that kind in a cell; made the first time.
export function child(cell, tag, className = "") {
  let found = cell.querySelector(tag + (className ? `.${className.split(" ")[0]}` : ""));
  if (!found) {
    found = make(tag, className);
    cell.append(found);
  }
  return found;
}
