// Small helpers of the page.
export const byId = (id) => document.getElementById(id);

/** An element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Digits that a row has room for; the text that is opened has all of them. */
export const shortened = (text, length = 24) => {
  if (text.length <= length) return text;
  const value = Number(text);
  const found = Number.isFinite(value) && value !== 0 ? value.toPrecision(10).replace(/\.?0+(e|$)/, "$1") : text;
  return found.length <= length ? `${found}…` : `${text.slice(0, length - 1)}…`;
};

export const bytesText = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.length; unit += 1) bytes /= 1024;
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
};

/** A table of texts, with a heading for each column. */
export const table = (heads, rows) =>
  make(
    "div",
    { className: "scroll", tabIndex: 0, role: "region", ariaLabel: heads.join(", ") },
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })))),
      make(
        "tbody",
        {},
        ...rows.map((row) => make("tr", {}, ...row.map((text) => make("td", { textContent: text })))),
      ),
    ),
  );

/** Pairs of a term and what it says; `null` leaves a pair out. */
export const pairs = (list) =>
  list.filter(Boolean).flatMap(([term, ...says]) => [make("dt", { textContent: term }), make("dd", {}, ...says)]);

export const code = (text) => make("code", { textContent: text });

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
