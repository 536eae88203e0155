// The page of `onnx-cast convert`: a map of all nodes in their order, which types they have, where Casts are and how large
// their values were, and a table of them, filtered and shown a hundred rows at a time. `convert_page.rs` says how the figures
// in the page stand.
"use strict";

const ROWS = 100;
/** Values of a node that are listed in its row. */
const LISTED = 8;
/** Pixels of the map: the strip of types, the marks of Casts below it, and the magnitudes. */
const STRIP = 34;
const MARKS = 14;
/** Powers of two that the scale of magnitudes shows below one, at most. */
const LOWEST = -24;

const byId = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

/** A reason without the numbers and names in it, so that there are few. */
const kind = (why) => why.replace(/`[^`]*`/g, "…").replace(/\b\d[\d.]*(e-?\d+)?/g, "…");

/** The figures by name. A row is a node with the values that it gives, or an input of a graph. */
function read(data) {
  const texts = data.texts;
  const reasons = texts.map(kind);
  const rows = data.nodes.map(([graph, name, operator, low, why]) =>
    ({ graph: texts[graph], name, operator: texts[operator], low: low === 1, why: texts[why], reason: reasons[why], values: [], cast: false, range: null }));
  const inputs = [];
  for (const [graph, name, low, cast, node, found] of data.values) {
    const range = found === "inf" ? Infinity : found;
    const value = { name, low: low === 1, cast: cast === 1, range };
    let row = node === null ? null : rows[node];
    if (!row) {
      row = { graph: texts[graph], name, operator: "input", low: value.low, why: "", reason: "", values: [], cast: false, range: null };
      inputs.push(row);
    }
    row.values.push(value);
    row.cast ||= value.cast;
    if (range !== null) row.range = Math.max(row.range ?? 0, range);
  }
  const all = inputs.concat(rows);
  all.forEach((row, index) => { row.index = index; });
  return { ...data, rows: all, hasRanges: all.some((row) => row.range !== null) };
}

/** What is shown, by the choice in the page. */
const SHOWN = [
  ["all", () => true],
  ["narrow", (row) => row.low],
  [data.kept, (row) => !row.low],
  ["with a Cast behind", (row) => row.cast],
  ["too large for the type", (row, data) => isBeyond(data, row.range)],
];

const largest = (data) => (data.limits ? data.limits[2] : Infinity);
const isBeyond = (data, range) => range !== null && range * data.margin > largest(data);

function start(found) {
  const data = read(found);
  const state = { page: 0, chosen: null, rows: data.rows };
  document.title = data.title + " – onnx-cast convert";
  byId("title").textContent = `${data.title} in ${data.to}`;
  byId("low-name").textContent = data.to;
  byId("wide-name").textContent = data.kept;
  byId("range-key").hidden = !data.hasRanges;
  byId("map").classList.toggle("ranges", data.hasRanges);
  byId("facts").textContent = facts(data);
  const shown = data.hasRanges ? SHOWN : SHOWN.slice(0, -1);
  shown.forEach(([name], index) => byId("show").append(make("option", { value: String(index), textContent: name })));
  byId("why").append(make("option", { value: "", textContent: "anything" }));
  const reasons = new Set(data.rows.map((row) => row.reason).filter(Boolean));
  for (const why of [...reasons].sort()) byId("why").append(make("option", { value: why, textContent: why }));
  for (const name of ["Node", "Operator", "Type", "Decided by", "Values"]) {
    byId("head").append(make("th", { scope: "col", textContent: name }));
  }

  const table = () => draw(data, state);
  for (const id of ["filter", "show", "why"]) {
    byId(id).addEventListener("input", () => { select(data, state); table(); });
  }
  byId("before").addEventListener("click", () => { state.page -= 1; table(); });
  byId("after").addEventListener("click", () => { state.page += 1; table(); });
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    map(data, state);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map(data, state));
  addEventListener("resize", () => map(data, state));
  const goTo = (index) => { show(data, state, index); table(); map(data, state); };
  byId("map").addEventListener("click", (event) => {
    const box = byId("map").getBoundingClientRect();
    goTo(Math.floor(((event.clientX - box.left) / box.width) * data.rows.length));
  });
  byId("map").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -ROWS, PageDown: ROWS }[event.key];
    if (!step) return;
    event.preventDefault();
    goTo((state.chosen ?? -1) + step);
  });
  table();
  map(data, state);
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function facts(data) {
  const low = data.nodes.filter((node) => node[3] === 1).length;
  const count = (number) => number.toLocaleString("en");
  const some = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
  const twice = data.twice ? ` (${count(data.twice)} also in ${data.kept})` : "";
  const beyond = data.rows.filter((row) => isBeyond(data, row.range)).length;
  const ranges = data.hasRanges
    ? ` ${count(beyond)} nodes and inputs have values that, times the margin of ${data.margin}, are beyond ${largest(data)}.` : "";
  return `${count(low)} of ${count(data.nodes.length)} nodes in ${data.to}, ${some(data.casts, "Cast")}, `
    + `${some(data.constants, "constant")} stored in ${data.to}${twice}.${ranges}`;
}

/** Has the table show what the filters leave. */
function select(data, state) {
  const text = byId("filter").value.toLowerCase();
  const why = byId("why").value;
  const [, admits] = SHOWN[Number(byId("show").value)] ?? SHOWN[0];
  const matches = (row) => [row.name, row.operator, row.why, row.graph, ...row.values.map((value) => value.name)]
    .some((part) => part.toLowerCase().includes(text));
  state.page = 0;
  state.rows = data.rows.filter((row) => admits(row, data) && (!why || row.reason === why) && (!text || matches(row)));
}

/** Has the table show a row, by its place among all. */
function show(data, state, index) {
  state.chosen = Math.max(0, Math.min(data.rows.length - 1, index));
  let place = state.rows.findIndex((row) => row.index >= state.chosen);
  if (place < 0) place = state.rows.length - 1;
  state.page = Math.max(0, Math.floor(place / ROWS));
}

function draw(data, state) {
  const pages = Math.max(1, Math.ceil(state.rows.length / ROWS));
  state.page = Math.max(0, Math.min(pages - 1, state.page));
  const rows = state.rows.slice(state.page * ROWS, (state.page + 1) * ROWS);
  byId("rows").replaceChildren(...rows.map((row) => line(data, state, row)));
  byId("count").textContent = `${state.rows.length.toLocaleString("en")} of ${data.rows.length.toLocaleString("en")} rows`;
  byId("page").textContent = `page ${state.page + 1} of ${pages}`;
  byId("before").disabled = state.page === 0;
  byId("after").disabled = state.page + 1 === pages;
}

function line(data, state, row) {
  const name = make("td");
  if (row.graph) name.append(make("span", { className: "graph", textContent: row.graph + "/" }));
  name.append(row.name || "(no name)");
  const values = make("td", {}, ...row.values.slice(0, LISTED).map((value) => ofValue(data, row, value)));
  if (row.values.length > LISTED) values.append(`and ${row.values.length - LISTED} more`);
  const chosen = row.index === state.chosen ? " chosen" : "";
  return make("tr", { className: (row.low ? "low" : "wide") + chosen },
    name,
    make("td", { textContent: row.operator }),
    make("td", { textContent: row.low ? data.to : data.kept }),
    make("td", { textContent: row.why }),
    values);
}

/** A value: its name, the Cast behind it, and its magnitude on the scale of the type. */
function ofValue(data, row, value) {
  const element = make("div", {}, row.operator === "input" ? "" : value.name + " ");
  if (value.cast) {
    const [from, to] = value.low ? [data.to, data.kept] : [data.kept, data.to];
    element.append(make("span", { className: "cast", textContent: `Cast ${from} → ${to}` }));
  }
  if (value.range === null) return element;
  const over = isBeyond(data, value.range);
  const text = value.range === 0 ? "0" : Number.isFinite(value.range) ? value.range.toExponential(2) : "infinite";
  element.append(make("span", { className: over ? "beyond" : "", textContent: ` up to ${text}` }));
  const bar = make("i");
  const limit = make("b");
  bar.style.width = `${100 * part(data, value.range)}%`;
  limit.style.left = `${100 * part(data, largest(data))}%`;
  element.append(make("span", { className: over ? "scale over" : "scale", title: `largest number of ${data.to}: ${largest(data)}` }, bar, limit));
  return element;
}

/** The place of a magnitude on the scale, from 0 to 1: by powers of two, a quarter of it beyond the type. */
function part(data, magnitude) {
  const lowest = data.limits ? Math.max(LOWEST, Math.log2(data.limits[1])) : LOWEST;
  const highest = data.limits ? Math.log2(largest(data)) : 16;
  const top = highest + (highest - lowest) / 3;
  if (!(magnitude > 0)) return 0;
  return Math.max(0, Math.min(1, (Math.log2(magnitude) - lowest) / (top - lowest)));
}

/** Colours of the style, as they are now: light-dark() is resolved where a property has it, not in the variable. */
function colors(names) {
  const style = getComputedStyle(document.documentElement);
  const probe = make("span");
  document.body.append(probe);
  const found = names.map((name) => {
    probe.style.color = style.getPropertyValue(name);
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
}

/** Draws all nodes: each column of pixels has the types, Casts and magnitudes of the nodes that fall on it. */
function map(data, state) {
  const canvas = byId("map");
  const [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const [low, wide, border, limit, text, line, panel] = colors(
    ["--low", "--wide", "--border", "--limit", "--text", "--line", "--panel"]);
  const count = data.rows.length;
  const columns = Math.max(1, Math.min(count, Math.floor(width)));
  const [top, tall] = [STRIP + MARKS, height - STRIP - MARKS];
  const y = (magnitude) => top + tall * (1 - part(data, magnitude));
  for (let column = 0; column < columns && count; column += 1) {
    const [from, to] = [Math.floor((column * count) / columns), Math.floor(((column + 1) * count) / columns)];
    const [left, right] = [(column * width) / columns, ((column + 1) * width) / columns];
    const rows = data.rows.slice(from, to);
    const share = rows.filter((row) => row.low).length / rows.length;
    context.fillStyle = wide;
    context.fillRect(left, 0, right - left + 0.5, STRIP);
    context.fillStyle = low;
    context.fillRect(left, STRIP * (1 - share), right - left + 0.5, STRIP * share);
    if (rows.some((row) => row.cast)) {
      context.fillStyle = border;
      context.fillRect(Math.max(left, right - 3), STRIP + 2, Math.min(3, right - left), MARKS - 4);
    }
    const ranges = rows.filter((row) => row.range !== null).map((row) => row.range);
    if (ranges.length) {
      const [least, most] = [Math.min(...ranges), Math.max(...ranges)];
      context.fillStyle = line;
      context.fillRect(left, y(most), Math.max(1, right - left), y(least) - y(most));
      context.fillStyle = isBeyond(data, most) ? limit : text;
      context.fillRect((left + right) / 2 - 1, y(most) - 1, 3, 3);
    }
  }
  drawMarks(data, state, context, { width, height, y, limit, text, panel });
  canvas.setAttribute("aria-label", facts(data));
}

/** The limits of the type, and a frame around the chosen node. */
function drawMarks(data, state, context, { width, height, y, limit, text, panel }) {
  if (data.hasRanges && data.limits) {
    context.strokeStyle = limit;
    for (const [magnitude, dash] of [[largest(data), []], [largest(data) / data.margin, [5, 4]]]) {
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(0, y(magnitude));
      context.lineTo(width, y(magnitude));
      context.stroke();
    }
    // The scale, on the ground of the panel, so that it is read before any column.
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const magnitude of [largest(data), 1, data.limits[1]]) {
      const label = Number.isInteger(magnitude) ? String(magnitude) : magnitude.toExponential(0);
      const at = Math.max(y(magnitude), STRIP + MARKS + 6) - (magnitude === data.limits[1] ? 7 : 0);
      context.fillStyle = panel;
      context.fillRect(0, at - 7, context.measureText(label).width + 6, 14);
      context.fillStyle = text;
      context.fillText(label, 2, at);
    }
  }
  const count = data.rows.length;
  if (state.chosen !== null && count) {
    context.strokeStyle = text;
    context.setLineDash([]);
    const left = (state.chosen * width) / count;
    context.strokeRect(left, 0.5, Math.max(2, width / count), height - 1);
  }
}
